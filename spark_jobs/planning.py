"""How much a micro-batch takes of each partition, and into which pieces its ranges are cut. Pure arithmetic."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from minikafka.client.structs import TopicPartition
from minikafka.protocol.schema import ZERO_UUID
from minikafka.spark_jobs.offsets import Positions, TopicIds

SHARED_OFFSETS_MAX: Final = 1_000
"""Starting a task of Python takes Spark some 25 ms of a processor, in which it could read more than this. But of
records of a megabyte these are a lot, and they should be spread."""


class OffsetRange(NamedTuple):
    """Offsets of one partition, from `start` up to but not including `stop`. Not every offset has a record."""

    topic: str
    partition: int
    start: int
    stop: int
    topic_id: bytes = ZERO_UUID
    """Which topic of that name, if it is known."""

    @property
    def size(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.stop})"


def lag_of(start: Positions, latest: Positions) -> dict[TopicPartition, int]:
    """How many offsets are ahead in each partition of `latest`; none of one that has gone backwards."""
    return {tp: max(0, end - start.get(tp, end)) for tp, end in latest.items()}


def limit_by_lag(start: Positions, latest: Positions, offsets_max: int) -> dict[TopicPartition, int]:
    """Where a batch of about `offsets_max` offsets ends, shared out in proportion to what is ahead.

    A partition with anything ahead gets at least one offset, or a large one beside it could starve it. The batch may
    be larger by as many offsets as there are partitions that get one for this reason.
    """
    lag = lag_of(start, latest)
    total = sum(lag.values())
    if total <= offsets_max:
        return {tp: max(end, start.get(tp, end)) for tp, end in latest.items()}
    return {
        tp: latest[tp] - ahead + min(ahead, max(1, offsets_max * ahead // total))
        if ahead
        else start.get(tp, latest[tp])
        for tp, ahead in lag.items()
    }


def make_ranges(start: Positions, stop: Positions, topic_ids: TopicIds) -> list[OffsetRange]:
    """The ranges that have anything in them, in the order of their partitions."""
    return [
        OffsetRange(tp.topic, tp.partition, start[tp], end, topic_ids.get(tp.topic, ZERO_UUID))
        for tp, end in sorted(stop.items())
        if start[tp] < end
    ]


def make_tasks(
    ranges: Sequence[OffsetRange], tasks_min: int | None = None, records_max: int | None = None
) -> list[tuple[OffsetRange, ...]]:
    """The ranges by the tasks that read them, in their order: at least `tasks_min` tasks, none above `records_max`.

    There are fewer only if there are fewer offsets. Small neighbours share a task, so that a minimum is one and not
    the number of partitions.
    """
    pieces = split_ranges(ranges, records_max=records_max)
    if tasks_min is not None and len(pieces) < tasks_min:
        return [(piece,) for piece in split_ranges(ranges, tasks_min, records_max)]
    limit = min(SHARED_OFFSETS_MAX, records_max or SHARED_OFFSETS_MAX)
    if tasks_min is not None:
        # The less fits into a task, the more there are; with 0 each piece has its own.
        too_few = bisect_left(range(limit + 1), True, key=lambda size: len(share_tasks(pieces, size)) < tasks_min)
        limit = too_few - 1
    return share_tasks(pieces, limit)


def split_ranges(
    ranges: Sequence[OffsetRange], pieces_min: int | None = None, records_max: int | None = None
) -> list[OffsetRange]:
    """The same offsets in at least so many pieces, none larger than `records_max`, and all about as large as others.

    There are fewer only if there are fewer offsets.
    """
    counts = {whole: 1 if records_max is None else -(-whole.size // records_max) for whole in ranges}
    if pieces_min is not None:
        _add_pieces(counts, pieces_min)
    return [piece for whole in ranges for piece in _cut(whole, counts[whole])]


def _add_pieces(pieces: dict[OffsetRange, int], wanted: int) -> None:
    """Cut the range with the largest pieces once more, until there are enough."""
    largest = [(-each.size / count, each) for each, count in pieces.items() if count < each.size]
    heapq.heapify(largest)
    missing = wanted - sum(pieces.values())
    while missing > 0 and largest:
        _, each = heapq.heappop(largest)
        pieces[each] += 1
        missing -= 1
        if pieces[each] < each.size:
            heapq.heappush(largest, (-each.size / pieces[each], each))


def _cut(whole: OffsetRange, count: int) -> Iterable[OffsetRange]:
    for index in range(count):
        start = whole.start + whole.size * index // count
        stop = whole.start + whole.size * (index + 1) // count
        yield whole._replace(start=start, stop=stop)


def share_tasks(ranges: Iterable[OffsetRange], offsets_max: int = SHARED_OFFSETS_MAX) -> list[tuple[OffsetRange, ...]]:
    """The ranges by the tasks that read them, in their order: neighbours share one while they are small together."""
    tasks: list[tuple[OffsetRange, ...]] = []
    size = offsets_max
    for piece in ranges:
        if size + piece.size <= offsets_max:
            tasks[-1] += (piece,)
            size += piece.size
        else:
            tasks.append((piece,))
            size = piece.size
    return tasks


class Trigger:
    """Whether enough is ahead to be worth a batch, or has waited for long enough."""

    def __init__(self, offsets_min: int | None, delay_ms_max: int) -> None:
        self._offsets_min = offsets_min
        self._delay_ms_max = delay_ms_max
        self._last_ms: int | None = None

    def fires(self, lag: Mapping[TopicPartition, int], now_ms: int) -> bool:
        """The time counts from the last batch; the first one after a start does not wait."""
        if self._offsets_min is None:
            return True
        is_late = self._last_ms is None or now_ms - self._last_ms >= self._delay_ms_max
        if sum(lag.values()) < self._offsets_min and not is_late:
            return False
        self._last_ms = now_ms
        return True
