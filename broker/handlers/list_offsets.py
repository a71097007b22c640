"""ListOffsets and OffsetForLeaderEpoch: where a log begins, ends, and was at a time or an epoch.

- Timestamps below zero are questions: latest, earliest, the largest timestamp. Nothing is tiered here, so the earliest
  local offset is the earliest, and there is no latest tiered one.
- A consumer sees offsets up to its bound: the high watermark, or with read_committed the last stable offset. A leader
  that has just been elected does not know yet what is committed: until it does, the end and what may lie beyond what it
  knows are OFFSET_NOT_AVAILABLE, before v5 LEADER_NOT_AVAILABLE.
- v0 answers with the first offsets of segments, newest first, up to as many as were asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.handlers.slices import AT_ONCE_MAX, in_slices
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.broker.replicas.bound import Bound
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.work import Work
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import (
    InvalidRequestError,
    KafkaError,
    LeaderNotAvailableError,
    OffsetNotAvailableError,
    UnsupportedVersionError,
)
from minikafka.protocol.messages.list_offsets import (
    LeaderEpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from minikafka.storage.errors import CorruptLog, ReadOvertaken, StorageError
from minikafka.storage.log import Log
from minikafka.storage.retention import largest_timestamp_ms
from minikafka.storage.timestamps import FoundRecord

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

# The first version in which each question may be asked.
_SINCE: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_NOT_AVAILABLE_VERSION: Final = 5
_DEBUGGING_CONSUMER: Final = -2
_READ_COMMITTED: Final = 1
_NOTHING: Final = FoundRecord(-1, -1, -1)


def routes(context: Context) -> list[Route]:
    handler = _OffsetsHandler(context)
    return [
        Route(APIS[2], handler.list_offsets, Operation.DESCRIBE, Resource.TOPIC),
        Route(APIS[23], handler.end_of_epochs, Operation.DESCRIBE, Resource.TOPIC),
    ]


class _OffsetsHandler:
    """See the module's description."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def list_offsets(self, call: Call) -> Awaitable[ListOffsetsResponse]:
        return self._list_offsets(call.request, call.version)

    async def _list_offsets(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        counts: dict[tuple[str, int], int] = {}
        for topic in request.topics:
            for each in topic.partitions:
                name = (topic.name, each.partition_index)
                counts[name] = counts.get(name, 0) + 1
        repeated = {name for name, count in counts.items() if count > 1}
        answer = ListOffsetsResponse(topics=[])
        looks = 0
        for topic in request.topics:
            parts = []
            for each in topic.partitions:
                looks += 1
                if looks % AT_ONCE_MAX == 0:
                    # Most are answered from memory, without a pause.
                    await asyncio.sleep(0)
                parts.append(await self._list_one(topic.name, each, request, version, repeated))
            answer.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        return answer

    async def _list_one(
        self,
        topic: str,
        asked: ListOffsetsPartition,
        request: ListOffsetsRequest,
        version: int,
        repeated: set[tuple[str, int]],
    ) -> ListOffsetsPartitionResponse:
        answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
        try:
            if (topic, asked.partition_index) in repeated:
                raise InvalidRequestError("the partition is there twice")
            if version < _SINCE.get(asked.timestamp, 0) or asked.timestamp < LATEST_TIERED:
                raise UnsupportedVersionError(f"there is no timestamp {asked.timestamp} in version {version}")
            partition = self._context.partitions.get(topic, asked.partition_index)
            partition.check_epoch(asked.current_leader_epoch)
            if request.replica_id != _DEBUGGING_CONSUMER:
                partition.check_leader()
            if request.replica_id < 0:
                self._context.contact.check(partition)
            partition.check_online()
            if version == 0:
                answer.old_style_offsets = _segment_offsets(partition, asked)
            else:
                bound = _bound(partition, request)
                if asked.timestamp == LATEST:
                    _check_known(partition, request, version)
                found = await _find(partition, asked.timestamp, bound, self._context.work)
                if found is _NOTHING and asked.timestamp != LATEST_TIERED:
                    _check_known(partition, request, version)
                answer.timestamp, answer.offset, answer.leader_epoch = found
        except KafkaError as error:
            answer.error_code = error.code
        return answer

    def end_of_epochs(self, call: Call) -> OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse]:
        request: OffsetForLeaderEpochRequest = call.request
        asked = [(topic.topic, each) for topic in request.topics for each in topic.partitions]

        def finish(ends: list[LeaderEpochEndOffset]) -> OffsetForLeaderEpochResponse:
            topics: dict[str, list[LeaderEpochEndOffset]] = {topic.topic: [] for topic in request.topics}
            for (topic, _), end in zip(asked, ends, strict=True):
                topics[topic].append(end)
            return OffsetForLeaderEpochResponse(
                topics=[OffsetForLeaderTopicResult(topic=topic, partitions=some) for topic, some in topics.items()]
            )

        return in_slices(asked, lambda each: self._end_of_epoch(*each), finish)

    def _end_of_epoch(self, topic: str, asked: OffsetForLeaderPartition) -> LeaderEpochEndOffset:
        answer = LeaderEpochEndOffset(partition=asked.partition)
        try:
            partition = self._context.partitions.get(topic, asked.partition)
            partition.check_epoch(asked.current_leader_epoch)
            partition.check_leader()
            self._context.contact.check(partition)
            answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
        except KafkaError as error:
            answer.error_code = error.code
        return answer


def _bound(partition: Partition, request: ListOffsetsRequest) -> Bound:
    """Up to where the one who asks may know: a consumer less than a follower."""
    is_follower = request.replica_id >= 0
    is_committed = request.isolation_level == _READ_COMMITTED
    return partition.bound(is_committed=is_committed, is_follower=is_follower)


def _check_known(partition: Partition, request: ListOffsetsRequest, version: int) -> None:
    """What the leader before us has shown may be above what we know to be committed."""
    leadership, is_follower = partition.leadership, request.replica_id >= 0
    if leadership is not None and not is_follower and partition.log.high_watermark < leadership.start_offset:
        error = OffsetNotAvailableError if version >= _NOT_AVAILABLE_VERSION else LeaderNotAvailableError
        raise error(f"{partition}: not yet known how far it is committed")


async def _find(partition: Partition, timestamp: int, bound: Bound, work: Work) -> FoundRecord:
    log = partition.log
    if timestamp == LATEST:
        return FoundRecord(-1, bound.offset, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epochs.epoch_for_offset(log.log_start_offset)
        return FoundRecord(-1, log.log_start_offset, partition.leader_epoch if epoch is None else epoch)
    if timestamp == LATEST_TIERED:
        return _NOTHING
    found = await _search(partition, timestamp, work)
    # What is not committed for this reader is not there for it.
    is_visible = found is not None and (found.offset < bound.offset or timestamp == MAX_TIMESTAMP)
    return found if found is not None and is_visible else _NOTHING


async def _search(partition: Partition, timestamp: int, work: Work) -> FoundRecord | None:
    while True:
        try:
            return await _search_once(partition, timestamp, work)
        except ReadOvertaken:
            # Retention or compaction took a segment away before it was looked at; the log has others now.
            partition.check_online()


async def _search_once(partition: Partition, timestamp: int, work: Work) -> FoundRecord | None:
    log = partition.log
    try:
        if timestamp == MAX_TIMESTAMP:
            largest = log.plan_largest_timestamp()
            return None if largest is None else await work.run_blocking(largest.run)
        offset: int | None = 0
        while offset is not None and (plan := log.plan_timestamp(timestamp, offset)) is not None:
            found = await work.run_blocking(plan.run)
            if found is not None:
                return found
            offset = plan.next_offset
    except CorruptLog as error:
        raise partition.corruption(error) from error
    except StorageError as error:
        raise partition.disk_failure(error) from error
    return None


def _segment_offsets(partition: Partition, asked: ListOffsetsPartition) -> list[int]:
    """The first offsets of segments that are older than a time, newest first, after them where the log begins."""
    log = partition.log
    offsets = _old_offsets(log, asked.timestamp)
    return [each for each in offsets if each <= log.high_watermark][: max(0, asked.max_num_offsets)]


def _old_offsets(log: Log, timestamp: int) -> list[int]:
    starts = [max(segment.base_offset, log.log_start_offset) for segment in log.segments]
    if timestamp == EARLIEST:
        return starts[:1]
    found = [
        start
        for start, segment in zip(starts, log.segments, strict=True)
        if timestamp == LATEST or largest_timestamp_ms(log.disk, segment) <= timestamp
    ]
    # The end counts as a segment that begins there.
    if log.log_end_offset > starts[-1] and (timestamp == LATEST or len(found) == len(starts)):
        found.append(log.high_watermark)
    return found[::-1]
