"""Requests to the coordinators of a simulated cluster, by a client that goes to whoever ZooKeeper says is in charge."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from minikafka.broker.internal_topics import GROUP_OFFSETS, TRANSACTION_STATE
from minikafka.broker.zookeeper.topic_nodes import StateNode, TopicNode, state_path, topic_path
from minikafka.protocol.errors import ErrorCode, error_for
from minikafka.protocol.messages.groups import FindCoordinatorRequest
from minikafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from minikafka.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.sim.client import TOPIC, SimClient
from tests.sim.cluster import SimCluster

GROUP = "g"
TXN_ID = "x"
COORDINATORS = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
}
"""Settings of a cluster with one partition for all groups, and one for all transactions."""

_RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
_RETRY_SECONDS = 0.05


class Producer(NamedTuple):
    """A transactional producer."""

    producer_id: int
    epoch: int


class GroupClient:
    """One group, and one transactional id."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._client = SimClient(cluster.network, "group client", 5.0)

    async def start(self) -> None:
        """Have the internal topics made, and followed by all their replicas."""
        for key_type in (0, 1):
            while (await self.find(1, key_type)).error_code:  # noqa: ASYNC110
                await asyncio.sleep(_RETRY_SECONDS)
        await self._cluster.wait(1)

    async def find(self, broker_id: int, key_type: int = 0) -> Any:
        return await self._client.ask(broker_id, FindCoordinatorRequest(key=GROUP, key_type=key_type), 1)

    def coordinator(self, topic: str = GROUP_OFFSETS) -> int:
        """The leader of the one partition of an internal topic."""
        path = state_path(topic, 0)
        return StateNode.decode(path, self._cluster.zookeeper.nodes[path].data).leader

    def replicas(self, topic: str = GROUP_OFFSETS) -> list[int]:
        """The brokers that have the one partition of an internal topic."""
        path = topic_path(topic)
        return list(TopicNode.decode(path, self._cluster.zookeeper.nodes[path].data).partitions[0].replicas)

    def is_coordinated(self, topic: str = GROUP_OFFSETS) -> bool:
        """Whether the broker that ZooKeeper says is in charge is up and leads."""
        leader = self.coordinator(topic)
        if leader < 0 or not self._cluster.nodes[leader].is_running:
            return False
        context = self._cluster.nodes[leader].broker.context
        partition = None if context is None else context.partitions.all.get((topic, 0))
        return partition is not None and partition.leadership is not None

    # ------------------------------------------------------------------------------------------------------ offsets

    async def commit(self, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
        await self._retry(GROUP_OFFSETS, OffsetCommitRequest(group_id=GROUP, topics=topics), 7, _first_error)

    async def fetch(self) -> int:
        """The committed offset, -1 if there is none; the error as an exception."""
        response = await self._retry(GROUP_OFFSETS, _offset_fetch(), 7, _fetch_error)
        return int(response.topics[0].partitions[0].committed_offset)

    async def fetch_from(self, broker_id: int) -> int:
        """What one broker says, whether or not it is the coordinator."""
        response = await self._client.ask(broker_id, _offset_fetch(), 7)
        if code := _fetch_error(response):
            raise error_for(code)
        return int(response.topics[0].partitions[0].committed_offset)

    # ------------------------------------------------------------------------------------------------- transactions

    async def init_producer(self, timeout_ms: int = 60_000) -> Producer:
        request = InitProducerIdRequest(transactional_id=TXN_ID, transaction_timeout_ms=timeout_ms)
        response = await self._retry(TRANSACTION_STATE, request, 4, _error)
        return Producer(response.producer_id, response.producer_epoch)

    async def commit_within(self, producer: Producer, offset: int) -> None:
        """Commit an offset within a transaction, which stays open."""
        request = AddOffsetsToTxnRequest(
            transactional_id=TXN_ID, producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id=GROUP
        )
        await self._retry(TRANSACTION_STATE, request, 3, _error)
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        commit = TxnOffsetCommitRequest(
            transactional_id=TXN_ID,
            group_id=GROUP,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        await self._retry(GROUP_OFFSETS, commit, 3, _first_error)

    async def add_partition(self, producer: Producer) -> None:
        """Begin a transaction with partition 0 of the topic."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TXN_ID,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        await self._retry(TRANSACTION_STATE, request, 3, _added)

    async def verify(self, broker_id: int, producer: Producer) -> ErrorCode:
        """What one broker tells a leader that asks whether partition 0 is in the transaction."""
        wanted = AddPartitionsToTxnTransaction(
            transactional_id=TXN_ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        response = await self._client.ask(broker_id, AddPartitionsToTxnRequest(transactions=[wanted]), 4)
        result = response.results_by_transaction[0].topic_results[0].results_by_partition[0]
        return ErrorCode(result.partition_error_code)

    async def end(self, producer: Producer, *, committed: bool = True) -> None:
        request = EndTxnRequest(
            transactional_id=TXN_ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=committed,
        )
        await self._retry(TRANSACTION_STATE, request, 3, _error)

    async def describe_transaction(self, broker_id: int) -> ErrorCode:
        """What one broker says of the transactional id, whether or not it is the coordinator."""
        request = DescribeTransactionsRequest(transactional_ids=[TXN_ID])
        response = await self._client.ask(broker_id, request, 0)
        return ErrorCode(response.transaction_states[0].error_code)

    async def _retry(self, topic: str, request: Any, version: int, code_of: Any) -> Any:
        while True:
            response = await self._client.ask(self.coordinator(topic), request, version)
            code = ErrorCode(code_of(response))
            if not code:
                return response
            if code not in _RETRIABLE:
                raise error_for(code)
            await asyncio.sleep(_RETRY_SECONDS)


def _offset_fetch() -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    return OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=True)


def _error(response: Any) -> int:
    return int(response.error_code)


def _added(response: Any) -> int:
    return int(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def _first_error(response: Any) -> int:
    return int(response.topics[0].partitions[0].error_code)


def _fetch_error(response: Any) -> int:
    return int(response.error_code) or _first_error(response)
