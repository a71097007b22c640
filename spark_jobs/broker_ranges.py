"""Ranges read from brokers, each answer asked for while the one before it is being read.

Retriable errors (a leader that has moved, a broker that is gone) are tried again with fresh metadata until
`default.api.timeout.ms` is over. A range ends below the high watermark of the time when it was planned, so what it
holds is committed and will be there with any leader, unless it is deleted. It is fetched by the id of its topic where
that is known, so a topic that was created again under the name is not taken for it (KIP-516).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Final, Self

from minikafka.client.cluster import Cluster
from minikafka.client.consumer.config import Isolation
from minikafka.client.consumer.offsets import ask_offsets
from minikafka.client.metadata import Metadata
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import (
    CorruptRecord,
    KafkaError,
    LeaderNotAvailableError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
    error_for,
)
from minikafka.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from minikafka.protocol.records import BatchView, read_whole_batches
from minikafka.protocol.schema import ZERO_UUID
from minikafka.spark_jobs.broker_catalog import timeout_for
from minikafka.spark_jobs.catalog import LossPolicy
from minikafka.spark_jobs.committed import Aborted, Visibility
from minikafka.spark_jobs.errors import LogNotReadable
from minikafka.spark_jobs.link import Link
from minikafka.spark_jobs.options import EARLIEST, LATEST, ReaderConfig
from minikafka.spark_jobs.planning import OffsetRange

_PURPOSE: Final = "fetch"
# From version 13 on topics go by their ids.
_NAMES_VERSION_MAX: Final = 12
_VERSION_MAX: Final = 17
_FETCH_BYTES_MAX: Final = 1 << 30
# A leader that says it lacks an offset, and then that it has it, may have changed in between; not many times, though.
_REFUSALS_MAX: Final = 10
# Beside what a range is thought to take: batches are not all alike.
_SPARE_BYTES: Final = 1 << 16
_SPARE_SHARE: Final = 1.25

# What an offset took where this worker last read a partition, in bytes. An estimate: being wrong costs a request.
_bytes_per_offset: Final[dict[TopicPartition, float]] = {}


class TopicReplaced(KafkaError):
    """The topic of the range was deleted, and another one has its name."""


class RangeReader:
    """Batches of one range, in order."""

    def __init__(self, link: Link[ReaderConfig], policy: LossPolicy, wanted: OffsetRange) -> None:
        self._link = link
        self._config = link.config
        self._policy = policy
        self._wanted = wanted
        self._tp = TopicPartition(wanted.topic, wanted.partition)
        self._max_bytes = link.config.max_partition_fetch_bytes
        self._estimates = True
        self._refusals = 0
        # Where an answer had no records, though there should be some.
        self._empty_at = -1
        self._first: Future[FetchablePartitionResponse] | None = None

    def begin(self) -> Self:
        """Ask for the first batches now, to have them when they are wanted."""
        self._first = self._ask(self._wanted.start)
        return self

    def batches(self) -> Iterator[BatchView]:
        """The batches that a reader may see. The first and last may reach over the ends of the range."""
        try:
            yield from self._batches()
        except UnknownTopicOrPartitionError:
            self._policy.report(f"{self._wanted} was to be read, but that partition cannot be found any more")
        except TopicReplaced:
            self._policy.report(f"{self._wanted} was to be read, but that topic was deleted and created again")

    def _batches(self) -> Iterator[BatchView]:
        offset = self._wanted.start
        asked = self._first or self._ask(offset)
        while offset < self._wanted.stop:
            try:
                answer = asked.result()
            except OffsetOutOfRangeError:
                offset = self._skip_lost(offset)
                asked = self._ask(offset)
                continue
            batches = self._read(answer, offset)
            start, offset = offset, self._next_offset(answer, batches, offset)
            if offset < self._wanted.stop:
                # On its way while these batches are read.
                asked = self._ask(offset)
            yield from self._visible(answer, batches, start)

    def _ask(self, offset: int) -> Future[FetchablePartitionResponse]:
        return self._link.submit(lambda cluster: self._fetch(cluster, offset))

    def _read(self, answer: FetchablePartitionResponse, offset: int) -> list[BatchView]:
        try:
            batches, size = read_whole_batches(answer.records or b"")
        except CorruptRecord as error:
            where = f"{self._tp.topic}-{self._tp.partition} after offset {offset}"
            raise LogNotReadable(f"what was fetched of {where} is damaged: {error}") from error
        if not batches and answer.records and size < len(answer.records):
            # Brokers send one whole batch however large it is, but they need not.
            self._max_bytes = min(self._max_bytes * 2, _FETCH_BYTES_MAX)
            self._estimates = False
        elif batches and batches[-1].next_offset > offset:
            _bytes_per_offset[self._tp] = size / (batches[-1].next_offset - batches[0].base_offset)
        return batches

    def _bytes_wanted(self, offset: int) -> int:
        """No more than is left of the range: a broker would read and send it in vain."""
        each = _bytes_per_offset.get(self._tp) if self._estimates else None
        if each is None:
            return self._max_bytes
        left = int((self._wanted.stop - offset) * each * _SPARE_SHARE)
        return min(self._max_bytes, left + _SPARE_BYTES)

    def _next_offset(self, answer: FetchablePartitionResponse, batches: list[BatchView], offset: int) -> int:
        if batches:
            return max(offset, batches[-1].next_offset)
        # An answer without records says that compaction has left nothing of the rest; see `_fetch_once`.
        return offset if answer.records else self._wanted.stop

    def _visible(self, answer: FetchablePartitionResponse, batches: list[BatchView], start: int) -> Iterator[BatchView]:
        aborted = [Aborted(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
        visibility = Visibility(aborted if self._config.reads_committed else None)
        for batch in batches:
            if batch.base_offset >= self._wanted.stop:
                return
            if visibility.shows(batch) and batch.next_offset > start and batch.record_count:
                yield batch

    def _skip_lost(self, offset: int) -> int:
        """Where to go on after a leader has said that it does not have an offset."""
        earliest, latest = self._link.run(self._ends)
        if latest <= offset:
            self._policy.report(f"{self._tp.topic}-{self._tp.partition} ends at {latest}, before {self._wanted}")
            return self._wanted.stop
        self._refusals += 1
        if earliest <= offset and self._refusals > _REFUSALS_MAX:
            raise LogNotReadable(f"{self._tp.topic}-{self._tp.partition} has offset {offset}, but cannot be read there")
        return self._policy.clip(self._tp, offset, earliest)

    async def _ends(self, cluster: Cluster) -> tuple[int, int]:
        async def ask(timestamp: int) -> int:
            return await cluster.retry(
                lambda: self._ask_offset(cluster, timestamp), timeout_ms=timeout_for(self._config)
            )

        return await ask(EARLIEST), await ask(LATEST)

    async def _ask_offset(self, cluster: Cluster, timestamp: int) -> int:
        answer = (await ask_offsets(cluster, {self._tp: timestamp}, Isolation.READ_UNCOMMITTED))[self._tp]
        if isinstance(answer, KafkaError):
            raise answer
        return answer.offset

    async def _fetch(self, cluster: Cluster, offset: int) -> FetchablePartitionResponse:
        timeout_ms = timeout_for(self._config)
        await cluster.wait_metadata([self._tp.topic], timeout_ms=timeout_ms)
        return await cluster.retry(lambda: self._fetch_once(cluster, offset), timeout_ms=timeout_ms)

    async def _fetch_once(self, cluster: Cluster, offset: int) -> FetchablePartitionResponse:
        await self._check_topic(cluster)
        leader = self._leader(cluster)
        bytes_max = self._bytes_wanted(offset)
        partition = FetchPartition(
            partition=self._tp.partition,
            current_leader_epoch=cluster.leader_epoch(*self._tp),
            fetch_offset=offset,
            partition_max_bytes=bytes_max,
        )
        request = FetchRequest(
            max_wait_ms=self._config.fetch_max_wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            isolation_level=int(self._config.reads_committed),
            rack_id=self._config.client_rack or "",
            topics=[FetchTopic(topic=self._tp.topic, topic_id=self._wanted.topic_id, partitions=[partition])],
        )
        found = await self._ask_node(cluster, leader, request)
        answer = self._checked(found)
        if not answer.records and answer.preferred_read_replica >= 0:
            found = await self._ask_node(cluster, answer.preferred_read_replica, request)
            answer = self._checked(found)
        if not answer.records:
            await self._check_end(cluster, answer, found.throttle_time_ms, offset)
        return answer

    async def _ask_node(self, cluster: Cluster, node_id: int, request: FetchRequest) -> FetchResponse:
        version_max = _NAMES_VERSION_MAX if self._wanted.topic_id == ZERO_UUID else _VERSION_MAX
        found: FetchResponse = await cluster.request(
            node_id, request, purpose=_PURPOSE, min_version=4, max_version=version_max
        )
        return found

    async def _check_topic(self, cluster: Cluster) -> None:
        """TopicReplaced if the name stands for another topic by now. A worker may know less than the driver."""
        if self._is_other(cluster.metadata) and self._is_other(await cluster.refresh()):
            raise TopicReplaced

    def _is_other(self, metadata: Metadata) -> bool:
        topic, topic_id = metadata.topics.get(self._tp.topic), self._wanted.topic_id
        return topic is not None and ZERO_UUID not in (topic.topic_id, topic_id) and topic.topic_id != topic_id

    def _leader(self, cluster: Cluster) -> int:
        leader = cluster.leader(*self._tp)
        name = f"{self._tp.topic}-{self._tp.partition}"
        if leader is None and cluster.metadata.partition(*self._tp) is None:
            raise UnknownTopicOrPartitionError(name)
        if leader is None:
            raise LeaderNotAvailableError(f"{name} has no leader at the moment")
        return leader

    async def _check_end(
        self, cluster: Cluster, answer: FetchablePartitionResponse, throttle_ms: int, offset: int
    ) -> None:
        """Raise, for it to be asked again, unless an answer without records means that there are none."""
        if throttle_ms:
            await asyncio.sleep(throttle_ms / 1000)
        name = f"{self._tp.topic}-{self._tp.partition}"
        visible_end = answer.last_stable_offset if self._config.reads_committed else answer.high_watermark
        if throttle_ms or visible_end < self._wanted.stop:
            # A new leader learns how far it may show its records with the next fetches of its followers, and until then
            # does not say where its log ends (KIP-207). One that does has no more.
            if not throttle_ms and await self._ask_offset(cluster, LATEST) <= offset:
                raise OffsetOutOfRangeError(f"{name} ends before {self._wanted}")
            raise RequestTimedOutError(f"{name} can be read up to {visible_end} yet, not up to {self._wanted.stop}")
        if self._empty_at != offset:
            # A broker may have other reasons to send nothing, and what is believed here is left out for good.
            self._empty_at = offset
            raise RequestTimedOutError(f"{name} has sent no records after {offset} yet")

    def _checked(self, found: FetchResponse) -> FetchablePartitionResponse:
        if found.error_code:
            raise error_for(found.error_code)
        (partition,) = found.responses[0].partitions
        if partition.error_code:
            raise error_for(partition.error_code, f"{self._tp.topic}-{self._tp.partition}")
        return partition
