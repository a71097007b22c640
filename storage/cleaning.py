"""The long part of compaction: reads segments, writes cleaned ones beside them, changes nothing that is in use.

Runs wherever there is time, in a child process or a worker: a plan is numbers and names only, and files are opened by
name. First the dirty part of the log is read for the newest offset of each key, as far as the map takes it. Then the
log is read from its start, and what stays is written to new segments, one for as many old ones as fit together.
Each group is handed over when it is on disk, so that it can be swapped in (`compaction.Compaction`) while the next
one is worked at, and the disk never holds much more than one segment twice.

Whatever makes a record superfluous outlives it by a round: the newer record of its key, a tombstone until its delete
horizon, which is set when the record goes, a marker until no record of its transaction was met. So an old segment that
comes back after a crash, though the records in it had been dropped, does no harm, and the next round drops them again.
Groups have to be used in their order for that.
"""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import le, sub
from typing import NamedTuple, cast

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.pieces import iter_pieces
from minikafka.storage.batch_filter import BatchFilter, LastBatch
from minikafka.storage.cleaned_segment import CleanedSegment, discard_cleaned
from minikafka.storage.cleaned_txns import CleanedTxns
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, join
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.formats import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, AbortedTxn, segment_name
from minikafka.storage.index import RELATIVE_OFFSET_MAX
from minikafka.storage.offset_map import KEYS_MAX, OffsetMap
from minikafka.storage.record_spans import find_spans
from minikafka.storage.scanning import Section, read_batches


class CompactionStopped(Exception):
    """The log changed meanwhile, or the disk is full: nothing has happened, and another time it may work."""


class Uncleanable(Exception):
    """Records that cannot be read, though they are what a client sent: trying again is no use."""


class SegmentSpan(NamedTuple):
    """A sealed segment: offsets from `base_offset` to before `end_offset` at most."""

    base_offset: int
    end_offset: int
    size: int


class CompactionPlan(NamedTuple):
    """All that has to be known of a log to clean it up to `end_offset`."""

    directory: str
    config: LogConfig
    generation: int
    segments: tuple[SegmentSpan, ...]
    """From the first of the log to the last before `end_offset`."""
    first_dirty_offset: int
    end_offset: int
    aborted: tuple[AbortedTxn, ...]
    """With any record in the segments."""
    last_batches: Mapping[int, LastBatch]
    """Of all producers that the log knows."""
    now_ms: int
    keys_max: int = KEYS_MAX


class CleanedGroup(NamedTuple):
    """A segment that is on disk as `.cleaned` and can take the place of old ones."""

    old: tuple[SegmentSpan, ...]
    new: SegmentSpan
    next_dirty_offset: int
    """Where the log is dirty from when this group and all others are in use."""

    @property
    def read_bytes(self) -> int:
        return sum(segment.size for segment in self.old)


def clean(disk: Disk, plan: CompactionPlan) -> Generator[CleanedGroup]:
    """Clean a log, group by group; closing the iterator stops it between two groups.

    Raises CompactionStopped and Uncleanable; CorruptLog for batches that rotted, StorageError if the disk fails. The
    group at work is removed then, those that were handed over are not.
    """
    with _translated(plan.directory):
        discard_cleaned(disk, plan.directory)
        newest = _newest_offsets(disk, plan)
        next_dirty_offset = newest.latest_offset + 1
        kept = BatchFilter(
            newest,
            CleanedTxns(plan.aborted),
            plan.last_batches,
            now_ms=plan.now_ms,
            delete_retention_ms=plan.config.delete_retention_ms,
        )
        for group in group_segments(disk, plan, next_dirty_offset):
            yield CleanedGroup(group, _clean_group(disk, plan, group, kept), next_dirty_offset)


@contextmanager
def _translated(directory: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise CompactionStopped(f"{directory}: {error}") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CompactionStopped(f"{directory}: {error}") from error
        raise StorageError(f"{directory}: cannot compact: {error}") from error


# ----------------------------------------------------------------------------------------- the map


def _newest_offsets(disk: Disk, plan: CompactionPlan) -> OffsetMap:
    newest = OffsetMap(plan.keys_max)
    newest.latest_offset = plan.first_dirty_offset - 1
    # A transaction that ended before says nothing about what its producer did next.
    txns = CleanedTxns([txn for txn in plan.aborted if txn.last_offset >= plan.first_dirty_offset])
    for segment in plan.segments:
        if segment.end_offset > plan.first_dirty_offset:
            _take_in(disk, plan, segment, newest, txns)
            if newest.is_full:
                break
    return newest


def _take_in(disk: Disk, plan: CompactionPlan, segment: SegmentSpan, newest: OffsetMap, txns: CleanedTxns) -> None:
    for _, batch in _batches(disk, plan, segment, plan.first_dirty_offset):
        try:
            if batch.is_control:
                txns.end(batch)
            elif not txns.is_aborted(batch):
                _put_records(newest, batch)
        except CorruptRecord as error:
            raise _uncleanable(plan, batch, error) from error
        newest.latest_offset = batch.last_offset
        if newest.is_full:
            return
    newest.latest_offset = segment.end_offset - 1


def _put_records(newest: OffsetMap, batch: BatchView) -> None:
    # A record that is too large to be looked into makes no other superfluous.
    for payload, count, _ in iter_pieces(batch, on_too_large=lambda _: None):
        spans = find_spans(payload, count)
        offsets = [batch.base_offset + delta for delta in spans.offset_deltas]
        keys = spans.keys
        if None in keys:
            offsets = [offset for key, offset in zip(keys, offsets, strict=True) if key is not None]
            keys = [key for key in keys if key is not None]
        newest.put(cast("list[bytes]", keys), offsets)


def _uncleanable(plan: CompactionPlan, batch: BatchView, error: CorruptRecord) -> Uncleanable:
    return Uncleanable(f"{plan.directory}: batch at offset {batch.base_offset}: {error}")


def _batches(
    disk: Disk, plan: CompactionPlan, segment: SegmentSpan, from_offset: int
) -> Iterator[tuple[int, BatchView]]:
    """The batches of a segment from an offset on, with their positions; CRCs are checked, but records may be bad."""
    path = _path(plan, segment, LOG_SUFFIX)
    file = disk.open(path, read_only=True)
    try:
        if file.size() < segment.size:
            raise CompactionStopped(f"{path}: has been shortened")
        for position, batch in read_batches(Section(path, file, 0, segment.size), file.read):
            if batch.last_offset < from_offset:
                continue
            try:
                batch.check_crc()
            except CorruptRecord as error:
                raise CorruptLog(path, position, str(error)) from error
            yield position, batch
    finally:
        file.close()


def _path(plan: CompactionPlan, segment: SegmentSpan, suffix: str) -> str:
    return join(plan.directory, segment_name(segment.base_offset) + suffix)


# ----------------------------------------------------------------------------------------- groups


def group_segments(disk: Disk, plan: CompactionPlan, next_dirty_offset: int) -> list[tuple[SegmentSpan, ...]]:
    """The segments to clean, in groups that fit into one segment even if nothing goes."""
    groups: list[list[SegmentSpan]] = []
    room = _Sizes(0, 0, 0)
    for segment in plan.segments:
        if segment.base_offset >= next_dirty_offset:
            break
        sizes = _sizes(disk, plan, segment)
        if groups and _is_near(groups[-1][0], segment) and all(map(le, sizes, room)):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            room = _Sizes(plan.config.segment_bytes, plan.config.segment_index_bytes, plan.config.segment_index_bytes)
        room = _Sizes(*map(sub, room, sizes))
    return [tuple(group) for group in groups]


def _is_near(first: SegmentSpan, segment: SegmentSpan) -> bool:
    """Whether the offsets of a segment fit into an index that begins with another; one without any always does."""
    return not segment.size or segment.end_offset - 1 - first.base_offset <= RELATIVE_OFFSET_MAX


class _Sizes(NamedTuple):
    log_bytes: int
    index_bytes: int
    time_index_bytes: int


def _sizes(disk: Disk, plan: CompactionPlan, segment: SegmentSpan) -> _Sizes:
    paths = [_path(plan, segment, suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
    return _Sizes(segment.size, *(disk.size(path) if disk.exists(path) else 0 for path in paths))


def _clean_group(disk: Disk, plan: CompactionPlan, group: Sequence[SegmentSpan], kept: BatchFilter) -> SegmentSpan:
    cleaned = CleanedSegment(disk, plan.directory, group[0].base_offset, plan.config)
    try:
        for segment in group:
            _clean_into(cleaned, disk, plan, segment, kept)
        cleaned.finish()
    except BaseException:
        cleaned.discard()
        raise
    return SegmentSpan(cleaned.base_offset, group[-1].end_offset, cleaned.size)


def _clean_into(
    cleaned: CleanedSegment, disk: Disk, plan: CompactionPlan, segment: SegmentSpan, kept: BatchFilter
) -> None:
    is_last = segment == next((each for each in reversed(plan.segments) if each.size), None)
    for position, batch in _batches(disk, plan, segment, segment.base_offset):
        try:
            left, aborted = kept.filter(batch, is_last=is_last and position + batch.size == segment.size)
        except CorruptRecord as error:
            raise _uncleanable(plan, batch, error) from error
        if left is not None:
            # Delete horizons make timestamps longer.
            if not cleaned.has_room_for(left):
                raise Uncleanable(f"{_path(plan, segment, LOG_SUFFIX)}: does not fit into a segment when cleaned")
            cleaned.add(left, aborted)
