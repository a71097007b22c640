"""One broker that leads a partition of transactions, one of groups and one of data, and is told when it does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from minikafka.broker.context import Context
from minikafka.broker.coordinators.all import Coordinators
from minikafka.broker.coordinators.transactions.states import State
from minikafka.broker.coordinators.transactions.transaction import Identity
from minikafka.broker.handlers import fetch, list_offsets, offsets, produce, producers, transactions, txn_offsets
from minikafka.broker.internal_topics import GROUP_OFFSETS, TRANSACTION_STATE
from minikafka.broker.network.dispatch import Route
from minikafka.broker.replicas.leadership import FollowerFetch
from minikafka.broker.replicas.partition import Partition
from minikafka.protocol.control import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.protocol.records import BatchBuilder
from tests.broker.eventually import eventually
from tests.broker.handlers.station import Station, coordinators, station

DATA = ("t", 0)
TOPICS = (TRANSACTION_STATE, GROUP_OFFSETS, DATA[0])


class TxnBench:
    """See the module's description."""

    def __init__(self, made: Station, all_coordinators: Coordinators) -> None:
        self.station = made
        self.all = all_coordinators
        self.transactions = all_coordinators.transactions
        made.context.partitions.on_role_changed = self.all.on_role_changed
        self._epochs: dict[str, int] = {}

    def partition(self, topic: str) -> Partition:
        return self.station.context.partitions.get(topic, 0)

    async def lead(
        self, *topics: str, leader: int = 1, replicas: tuple[int, ...] = (1,), is_awaited: bool = True
    ) -> None:
        """Have a broker lead partitions in the next epoch; all if none are named."""
        for topic in topics or TOPICS:
            self._epochs[topic] = epoch = self._epochs.get(topic, 0) + 1
            state = PartitionState(
                topic=topic,
                topic_id=topic.encode().ljust(16, b"\0")[:16],
                partition=0,
                leader=leader,
                leader_epoch=epoch,
                isr=list(replicas),
                replicas=list(replicas),
                partition_epoch=epoch,
                controller_epoch=1,
                is_new=epoch == 1,
            )
            self.station.update_metadata(partitions=[state])
            assert await self.station.context.partitions.apply([state], is_full=False) == {}
        shards = (self.transactions.shards, self.all.groups.shards)
        await eventually(lambda: not is_awaited or not any(each.is_loading for each in shards))

    def follow(self, topic: str, *broker_ids: int) -> None:
        """Followers have all there is."""
        partition = self.partition(topic)
        for each in broker_ids:
            partition.on_follower_fetch(FollowerFetch(each, each, partition.log.log_end_offset, 0))

    # ------------------------------------------------------------------------------------------ as a producer would

    async def begin(self, expected: Identity | None = None, timeout_ms: int = 60_000) -> Identity:
        return await self.transactions.begin_session("x", timeout_ms, expected)

    async def add(self, who: Identity, *topics: str) -> None:
        await self.transactions.add_partitions("x", who, [(topic, 0) for topic in topics or DATA[:1]])

    @staticmethod
    def batch(who: Identity, sequence: int = 0) -> bytearray:
        builder = BatchBuilder()
        builder.append(1, None, b"value")
        return builder.build(
            producer_id=who.producer_id, producer_epoch=who.epoch, base_sequence=sequence, is_transactional=True
        )

    async def produce(self, who: Identity, sequence: int = 0, version: int = 9) -> ErrorCode:
        (code,) = await self.produce_all({"t": self.batch(who, sequence)}, version)
        return code

    async def produce_all(self, batches: Mapping[str, bytes | bytearray], version: int = 9) -> list[ErrorCode]:
        """Batches by topic, in one request."""
        data = [
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(batch))])
            for topic, batch in batches.items()
        ]
        asked = ProduceRequest(transactional_id="x", acks=-1, timeout_ms=1000, topic_data=data)
        answer = await self.station.ask(asked, version)
        return [ErrorCode(each.error_code) for topic in answer.responses for each in topic.partition_responses]

    async def commit_offset(self, who: Identity, offset: int, version: int = 3, **member: Any) -> ErrorCode:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        asked = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
            **member,
        )
        answer = await self.station.ask(asked, version)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def committed_offset(self, *, is_stable: bool = True) -> int | ErrorCode:
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        answer = await self.station.ask(OffsetFetchRequest(group_id="g", topics=topics, require_stable=is_stable), 7)
        found = answer.topics[0].partitions[0]
        return ErrorCode(found.error_code) if found.error_code else int(found.committed_offset)

    async def end(self, who: Identity, *, is_committed: bool = True) -> None:
        await self.transactions.end("x", who, is_committed=is_committed)

    # ------------------------------------------------------------------------------------------------------ looking

    @property
    def state(self) -> State:
        return self.transactions.describe("x").state

    async def wait_state(self, state: State) -> None:
        await eventually(lambda: self.state is state)

    @property
    def is_stable(self) -> bool:
        """Whether readers of committed data see all there is."""
        log = self.partition("t").log
        return log.last_stable_offset == log.log_end_offset


@asynccontextmanager
async def txn_bench(**settings: str) -> AsyncIterator[TxnBench]:
    made_coordinators: list[Coordinators] = []

    def routes(context: Context) -> list[Route]:
        all_of_them = coordinators(context)
        made_coordinators.append(all_of_them)
        return [
            *fetch.routes(context),
            *list_offsets.routes(context),
            *offsets.routes(context, all_of_them.groups, all_of_them.confirmer),
            *produce.routes(context, all_of_them.verifier),
            *producers.routes(context, all_of_them.transactions),
            *transactions.routes(
                *(context, all_of_them.transactions, all_of_them.groups, all_of_them.writer),
                *(all_of_them.late_markers, all_of_them.confirmer),
            ),
            *txn_offsets.routes(context, all_of_them.groups),
        ]

    given = {"min.insync.replicas": "1", "transaction.state.log.min.isr": "1", "request.timeout.ms": "300"}
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    async with station(routes, {**given, **dotted}) as made:
        yield TxnBench(made, made_coordinators[0])
