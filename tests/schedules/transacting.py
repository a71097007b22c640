"""What schedules about transactions need: internal topics, and a producer that does one request at a time.

A `Transactor` speaks the protocol of one transaction version: up to 1 it adds partitions by itself and keeps its epoch,
with 2 the leader of a partition adds it, and every end brings the next epoch (KIP-890).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from minikafka.broker.internal_topics import GROUP_OFFSETS, TRANSACTION_STATE
from minikafka.broker.network.peer import PeerGone
from minikafka.broker.zookeeper.topic_nodes import StateNode, state_path
from minikafka.protocol.errors import ErrorCode, error_for
from minikafka.protocol.message import Request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.groups import FindCoordinatorRequest
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from minikafka.protocol.records import BatchBuilder, iter_records, read_whole_batches
from tests.sim.client import TOPIC, SimClient
from tests.sim.clock import WALL_MS
from tests.sim.cluster import SimCluster

ID: Final = "x"

SETTINGS: Final = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "request.timeout.ms": "3000",
}

_RETRIED: Final = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
_COMMITTED_ONLY: Final = 1


COORDINATOR: Final = 2


async def start() -> SimCluster:
    """Four brokers: 1 leads the topic, 2 coordinates transactions and 3 groups, 4 is the controller."""
    cluster = await SimCluster.start(4, SETTINGS)
    await cluster.create_topic()
    for topic, replicas in ((TRANSACTION_STATE, (2, 3, 4)), (GROUP_OFFSETS, (3, 4, 2))):
        await cluster.client.create_topic(4, [replicas], {}, topic)
    for key_type, coordinator in ((0, 3), (1, COORDINATOR)):
        request = FindCoordinatorRequest(key=ID, key_type=key_type)
        while (await cluster.client.ask(1, request, 1)).node_id != coordinator:
            await cluster.wait(0.05)
    return cluster


def state_of(cluster: SimCluster, topic: str = TRANSACTION_STATE) -> StateNode:
    path = state_path(topic, 0)
    return StateNode.decode(path, cluster.zookeeper.nodes[path].data)


def coordinator_of(cluster: SimCluster) -> int:
    return state_of(cluster).leader


async def read_committed(cluster: SimCluster) -> list[bytes]:
    """All values of partition 0 below its last stable offset that no aborted transaction wrote."""
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        session_epoch=-1,
        isolation_level=_COMMITTED_ONLY,
        topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
    )
    response = await cluster.client.ask(cluster.state().leader, request, 10)
    partition = response.responses[0].partitions[0]
    aborted = {(each.producer_id, each.first_offset) for each in partition.aborted_transactions or ()}
    values = []
    for batch in read_whole_batches(partition.records or b"")[0]:
        aborting = any(batch.producer_id == key and batch.base_offset >= first for key, first in aborted)
        if not batch.is_control and not aborting:
            values += [record.value or b"" for record in iter_records(batch)]
    return values


class Transactor:
    """A producer with the transactional id `ID`; each `via` is a host of its own, with its own connections."""

    def __init__(self, cluster: SimCluster, version: int = 0) -> None:
        self._cluster = cluster
        self._version = version
        self._clients: dict[str, SimClient] = {}
        self.producer_id = self.epoch = -1
        self.sequences = count()

    def client(self, via: str) -> SimClient:
        if via not in self._clients:
            self._clients[via] = SimClient(self._cluster.network, via, 2.0)
        return self._clients[via]

    async def init(self, via: str) -> None:
        request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
        response = await self._ask_coordinator(via, request, 4, lambda answer: answer.error_code)
        self.adopt(response.producer_id, response.producer_epoch)

    def adopt(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch, self.sequences = producer_id, epoch, count()

    async def add(self, via: str) -> None:
        """Add partition 0, which begins a transaction; version 2 leaves that to the leader."""
        if self._version >= 2:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        await self._ask_coordinator(
            via,
            request,
            3,
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )

    def produce_request(self, value: bytes) -> tuple[Request, int]:
        """The next batch as it goes over the wire, and in which version."""
        builder = BatchBuilder()
        builder.append(WALL_MS, None, value)
        batch = builder.build(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=next(self.sequences),
            is_transactional=True,
        )
        data = PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            transactional_id=ID,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        return request, 12 if self._version >= 2 else 9

    async def send_until_taken(self, via: str, request: Request, version: int) -> None:
        await self._ask_until(
            via,
            lambda: self._cluster.state().leader,
            request,
            version,
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )

    async def write(self, via: str, value: bytes) -> None:
        await self.send_until_taken(via, *self.produce_request(value))

    async def find_coordinator(self) -> None:
        """Have the topic of transactions made."""
        request = FindCoordinatorRequest(key=ID, key_type=1)
        while (await self._cluster.client.ask(1, request, 1)).error_code:
            await self._cluster.wait(0.05)

    def end_request(self, *, commit: bool) -> tuple[Request, int]:
        """The end of the open transaction as it goes over the wire, and in which version."""
        request = EndTxnRequest(
            transactional_id=ID, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        return request, 5 if self._version >= 2 else 3

    async def end(self, via: str, *, commit: bool) -> None:
        request, version = self.end_request(commit=commit)
        response = await self._ask_coordinator(via, request, version, lambda answer: answer.error_code)
        if self._version >= 2:
            self.adopt(response.producer_id, response.producer_epoch)

    async def _ask_coordinator(self, via: str, request: Request, version: int, code: Callable[[Any], int]) -> Any:
        return await self._ask_until(via, lambda: coordinator_of(self._cluster), request, version, code)

    async def _ask_until(
        self, via: str, where: Callable[[], int], request: Request, version: int, code: Callable[[Any], int]
    ) -> Any:
        """The answer that is not to be retried; an error is raised."""
        while True:
            try:
                response = await self.client(via).ask(where(), request, version)
                if not (error := code(response)):
                    return response
                if error not in _RETRIED:
                    raise error_for(error)
            except PeerGone:
                pass
            await asyncio.sleep(0.03)
