"""Telling the leaders of all partitions of a transaction how it ended, until every one of them has it.

What is decided is in the log of the coordinator, so whoever coordinates next may do this again; a marker that is
written twice ends nothing the second time. Markers for one broker that come up while it is being told others go
together in the next request.

A partition that does not exist any more needs none. ZooKeeper says so: that this broker has not heard of one does not
mean that, since who begins to coordinate is told of that first and of all topics afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.coordinators.transactions.shard import TransactionShard
from minikafka.broker.coordinators.transactions.transaction import Name, Transaction
from minikafka.broker.coordinators.transactions.writing import Marker, MarkerWriter, Outcomes
from minikafka.broker.metadata import NO_LEADER
from minikafka.broker.network.peer import PeerGone
from minikafka.broker.peers import Peers
from minikafka.broker.zookeeper.coord import CoordError
from minikafka.broker.zookeeper.topic_nodes import delete_topic_path, state_path
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

log: Final = logging.getLogger(__name__)

_VERSION: Final = 1
_VERSION_2: Final = 2
"""The first that says by which transaction version a transaction ended."""
_PAUSE_SECONDS: Final = 0.02
_PAUSE_SECONDS_MAX: Final = 1.0

_NOT_NEEDED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
"""The partition knows a later epoch of the producer, which nobody could have while this one was open there."""


class Markers:
    """See the module's description."""

    def __init__(self, context: Context, peers: Peers, writer: MarkerWriter) -> None:
        self._context = context
        self._peers = peers
        self._writer = writer
        self._desks: dict[int, _Desk] = {}

    def tell(self, shard: TransactionShard, txn: Transaction) -> None:
        """Tell all, then write down that all know."""
        self._context.work.spawn(self._tell_all(shard, txn), f"ending {txn.transactional_id}")

    async def _tell_all(self, shard: TransactionShard, txn: Transaction) -> None:
        left, pause_seconds = set(txn.partitions), _PAUSE_SECONDS
        while shard.is_current:
            by_leader = self._by_leader(left)
            asked = (self._tell_one(leader, self._marker(shard, txn, names)) for leader, names in by_leader.items())
            outcomes = [each for found in await asyncio.gather(*asked) for each in found.items()]
            if any(code == ErrorCode.TRANSACTION_COORDINATOR_FENCED for _, code in outcomes):
                log.warning("%s is coordinated by another broker by now", txn.transactional_id)
                return
            left -= {name for name, code in outcomes if not code or code in _NOT_NEEDED}
            left -= await self._gone(left)
            if not left:
                await shard.complete(txn)
                return
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _PAUSE_SECONDS_MAX)

    def _by_leader(self, left: set[Name]) -> dict[int, list[Name]]:
        found: dict[int, list[Name]] = {}
        for name in sorted(left):
            state = self._context.metadata.partition(*name)
            if state is not None and state.leader != NO_LEADER:
                found.setdefault(state.leader, []).append(name)
        return found

    async def _gone(self, left: Iterable[Name]) -> set[Name]:
        """Those that nobody will ever lead again."""
        metadata, coord = self._context.metadata, self._context.coord
        unknown = [name for name in left if metadata.partition(*name) is None]
        found = set()
        try:
            if unknown:
                await coord.sync()
            for topic, index in unknown:
                is_deleted = await coord.exists(delete_topic_path(topic)) is not None
                if is_deleted or await coord.exists(state_path(topic, index)) is None:
                    log.info("%s-%d is gone, it needs no marker", topic, index)
                    found.add((topic, index))
        except CoordError as error:
            log.info("whether %d partitions still exist is asked again: %s", len(unknown), error)
        return found

    @staticmethod
    def _marker(shard: TransactionShard, txn: Transaction, names: Iterable[Name]) -> Marker:
        return Marker(txn.producer_id, txn.epoch, txn.is_committing, shard.coordinator_epoch, tuple(names), txn.version)

    async def _tell_one(self, leader: int, marker: Marker) -> Outcomes:
        if leader == self._context.broker_id:
            return await self._writer.write(marker)
        desk = self._desks.get(leader)
        if desk is None:
            desk = self._desks[leader] = _Desk(leader, self._context, self._peers)
        return await desk.send(marker)


class _Desk:
    """The way to one broker: one request at a time, with all that has come up meanwhile."""

    def __init__(self, broker_id: int, context: Context, peers: Peers) -> None:
        self._broker_id = broker_id
        self._context = context
        self._peers = peers
        self._waiting: list[tuple[Marker, asyncio.Future[Outcomes]]] = []
        self._is_busy = False

    async def send(self, marker: Marker) -> Outcomes:
        """What became of it, partition by partition; nothing of those of which nobody knows."""
        future: asyncio.Future[Outcomes] = asyncio.get_running_loop().create_future()
        self._waiting.append((marker, future))
        if not self._is_busy:
            self._is_busy = True
            self._context.work.spawn(self._run(), f"markers for broker {self._broker_id}")
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                outcomes = await self._ask([marker for marker, _ in taken])
                for (_, future), outcome in zip(taken, outcomes, strict=True):
                    if not future.done():
                        future.set_result(outcome)
        finally:
            self._is_busy = False

    async def _ask(self, markers: list[Marker]) -> list[Outcomes]:
        request = WriteTxnMarkersRequest(markers=[_written(each) for each in markers])
        try:
            # It waits for replicas for as long as requests may take.
            timeout_seconds = 2 * self._context.config.broker.request_timeout_ms / 1000
            version = _VERSION_2 if self._context.metadata.knows_version_2(self._broker_id) else _VERSION
            answer: WriteTxnMarkersResponse = await self._peers.ask(self._broker_id, request, version, timeout_seconds)
        except PeerGone as error:
            log.info("markers will be sent again: %s", error)
            return [{} for _ in markers]
        # By producer, which has one transaction at a time.
        found = {each.producer_id: each.topics for each in answer.markers}
        return [
            {
                (topic.name, each.partition_index): ErrorCode(each.error_code)
                for topic in found.get(marker.producer_id, ())
                for each in topic.partitions
            }
            for marker in markers
        ]


def _written(marker: Marker) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in marker.partitions:
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.epoch,
        transaction_result=marker.is_committed,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.version,
    )
