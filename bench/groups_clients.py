"""The clients of `bench.groups`: bare ones, so that what is measured is the broker and not a client's pauses.

Requests are asked one after the other on a connection of one's own. All clients run in one event loop.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple, Self

from minikafka.protocol.errors import (
    ErrorCode,
    KafkaError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    error_for,
)
from minikafka.protocol.message import Request
from minikafka.protocol.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from minikafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from minikafka.protocol.pipeline import Pipeline
from minikafka.protocol.records import BatchBuilder

SESSION_MS = 30_000
RETRY_SECONDS = 0.002
HEARTBEAT_SECONDS = 0.1
GROUP, TRANSACTION = 0, 1
RECORD_BYTES = 100
ASSIGNMENT_BYTES = 100


class Address(NamedTuple):
    host: str
    port: int


class Connection:
    """To one broker, with one request in flight."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._pipeline = Pipeline[None]("bench")

    @classmethod
    async def open(cls, address: Address) -> Self:
        return cls(*await asyncio.open_connection(*address))

    async def ask(self, request: Request, version: int) -> Any:
        self._writer.writelines(self._pipeline.send(request, version, None))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return self._pipeline.receive(await self._reader.readexactly(size))[1]

    def close(self) -> None:
        self._writer.close()


def check(code: int) -> None:
    if code:
        raise error_for(code)


async def connect_to_coordinator(address: Address, kind: int, key: str) -> Connection:
    """As soon as there is one."""
    connection = await Connection.open(address)
    while True:
        answer = await connection.ask(FindCoordinatorRequest(key=key, key_type=kind), 2)
        if answer.error_code == 0:
            connection.close()
            return await Connection.open(Address(answer.host, answer.port))
        await asyncio.sleep(RETRY_SECONDS)


class Member:
    """One member of a group, on a connection of its own."""

    def __init__(self, connection: Connection, group: str) -> None:
        self.connection = connection
        self.generation = -1
        self.group_size = 0
        self.heartbeat_seconds: list[float] = []
        self._group = group
        self._member_id = ""

    async def join(self) -> None:
        """Become a part of the next generation, as its leader for all."""
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0" * 10)],
        )
        answer = await self.connection.ask(request, 5)
        self._member_id = answer.member_id
        check(answer.error_code)
        self.generation = answer.generation_id
        members = [each.member_id for each in answer.members] if answer.leader == self._member_id else []
        share = len(members).to_bytes(4, "big").ljust(ASSIGNMENT_BYTES)
        request_sync = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self._member_id,
            assignments=[SyncGroupRequestAssignment(member_id=each, assignment=share) for each in members],
        )
        synced = await self.connection.ask(request_sync, 3)
        check(synced.error_code)
        self.group_size = int.from_bytes(synced.assignment[:4], "big")

    async def join_until(self, size: int) -> None:
        """Join again and again until the group is that large."""
        while self.group_size < size:
            try:
                await self.join()
                while self.group_size < size:
                    await asyncio.sleep(HEARTBEAT_SECONDS)
                    await self.heartbeat()
            except KafkaError as error:
                if not isinstance(error, (MemberIdRequiredError, RebalanceInProgressError)) and not error.retriable:
                    raise

    async def heartbeat(self) -> None:
        request = HeartbeatRequest(group_id=self._group, generation_id=self.generation, member_id=self._member_id)
        began = time.perf_counter()
        answer = await self.connection.ask(request, 3)
        self.heartbeat_seconds.append(time.perf_counter() - began)
        check(answer.error_code)

    async def leave(self) -> None:
        members = [MemberIdentity(member_id=self._member_id)]
        await self.connection.ask(LeaveGroupRequest(group_id=self._group, members=members), 3)
        self.connection.close()


async def commit_offsets(connection: Connection, group: str, topic: str, until: float) -> int:
    """Commit one partition's offset again and again; how often."""
    done = 0
    while time.perf_counter() < until:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=done, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
        answer = await connection.ask(OffsetCommitRequest(group_id=group, topics=topics), 7)
        check(answer.topics[0].partitions[0].error_code)
        done += 1
    return done


class Producer:
    """Transactions of one record each, in one partition."""

    def __init__(self, coordinator: Connection, leader: Connection, name: str, topic: str, partition: int) -> None:
        self._coordinator = coordinator
        self._leader = leader
        self._name = name
        self._topic = topic
        self._partition = partition
        self._producer_id = self._epoch = -1
        self._sequence = 0

    async def init(self) -> None:
        """As soon as the coordinator has read what it coordinates."""
        request = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=60_000)
        answer = await self._coordinator.ask(request, 4)
        while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            await asyncio.sleep(RETRY_SECONDS)
            answer = await self._coordinator.ask(request, 4)
        check(answer.error_code)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch

    async def transact(self) -> None:
        await self._add_partition()
        await self._produce()
        request = EndTxnRequest(
            transactional_id=self._name, producer_id=self._producer_id, producer_epoch=self._epoch, committed=True
        )
        check((await self._coordinator.ask(request, 3)).error_code)

    async def _add_partition(self) -> None:
        """As soon as the markers of the transaction before are written."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=[self._partition])],
        )
        while True:
            answer = await self._coordinator.ask(request, 3)
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if not code:
                return
            if not error_for(code).retriable:
                raise error_for(code)
            await asyncio.sleep(RETRY_SECONDS)

    async def _produce(self) -> None:
        builder = BatchBuilder()
        builder.append(int(time.time() * 1000), None, bytes(RECORD_BYTES))
        batch = builder.build(
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            is_transactional=True,
        )
        data = PartitionProduceData(index=self._partition, records=batch)
        topics = [TopicProduceData(name=self._topic, partition_data=[data])]
        request = ProduceRequest(transactional_id=self._name, acks=-1, timeout_ms=10_000, topic_data=topics)
        answer = await self._leader.ask(request, 9)
        check(answer.responses[0].partition_responses[0].error_code)
        self._sequence += 1

    def close(self) -> None:
        self._coordinator.close()
        self._leader.close()
