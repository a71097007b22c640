"""The catalog of log directories: partitions by their folders, ends by checkpoints, times by indexes and headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from minikafka.client.structs import TopicPartition
from minikafka.protocol.records import iter_columns
from minikafka.spark_jobs.catalog import LossPolicy
from minikafka.spark_jobs.committed import Aborted
from minikafka.spark_jobs.direct.batches import iter_batches, map_segments
from minikafka.spark_jobs.direct.copies import Replica, find_replicas
from minikafka.spark_jobs.direct.files import Segment, find_segments, find_snapshots, read_small
from minikafka.spark_jobs.errors import BadOption, LogNotReadable
from minikafka.spark_jobs.offsets import TopicIds
from minikafka.spark_jobs.options import Selection, SourceOptions
from minikafka.storage.formats import (
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_ENTRY,
    TXN_INDEX_SUFFIX,
    AbortedTxn,
    BadFile,
    parse_aborted_txns,
    parse_snapshot,
    parse_time_index,
    segment_name,
)


class DirectCatalog:
    """See `catalog.Catalog`. What it finds is of one moment, that of its making."""

    def __init__(self, options: SourceOptions) -> None:
        self._selection = options.selection
        self._reads_committed = options.config.reads_committed
        policy = LossPolicy(options.fail_on_data_loss)
        self._replicas = find_replicas(options.log_dirs, lambda tp: _is_selected(options.selection, tp), policy)

    def replica(self, tp: TopicPartition) -> Replica:
        return self._replicas[tp]

    def partitions(self) -> tuple[TopicPartition, ...]:
        found = tuple(sorted(self._replicas))
        there: set[object] = {*found} if self._selection.partitions else {tp.topic for tp in found}
        missing = [each for each in (*self._selection.topics, *self._selection.partitions) if each not in there]
        if missing:
            raise BadOption(f"logDirs have no {', '.join(map(str, missing))}")
        return found

    def topic_ids(self) -> TopicIds:
        """No ids: the files are those of one moment, in which a name is one topic."""
        return {}

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: first_offset(self._replicas[tp]) for tp in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        ends = {}
        for tp in partitions:
            replica = self._replicas[tp]
            end = max(replica.stop, first_offset(replica))
            ends[tp] = last_stable_offset(replica, end) if self._reads_committed else end
        return ends

    def at_time(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        ends = self.latest(timestamps_ms)
        return {tp: _first_at(self._replicas[tp], stamp, ends[tp]) for tp, stamp in timestamps_ms.items()}


def _is_selected(selection: Selection, tp: TopicPartition) -> bool:
    if selection.pattern:
        return re.fullmatch(selection.pattern, tp.topic) is not None
    return tp in selection.partitions or tp.topic in selection.topics


def first_offset(replica: Replica) -> int:
    segments = find_segments(replica.directory)
    return max(replica.log_start, segments[0].base_offset if segments else 0)


def last_stable_offset(replica: Replica, end: int) -> int:
    """The first offset of a transaction that is open at `end`, or `end` if there is none."""
    start, opened = _known_producers(replica, end)
    for batch in iter_batches(map_segments(replica.directory, start, end), start, end):
        # Batches that end past `end` do not count, a marker among them.
        if not batch.is_transactional or batch.next_offset > end:
            continue
        if batch.is_control:
            opened.pop(batch.producer_id, None)
        else:
            opened.setdefault(batch.producer_id, batch.base_offset)
    return min([end, *opened.values()])


def _known_producers(replica: Replica, end: int) -> tuple[int, dict[int, int]]:
    """Producers with an open transaction by the last snapshot that can be read, and the offset it is of."""
    for offset in reversed(find_snapshots(replica.directory)):
        if offset <= end:
            entries = read_small(replica.directory / f"{segment_name(offset)}{SNAPSHOT_SUFFIX}", parse_snapshot)
            if entries is not None:
                opened = {entry.producer_id: entry.current_txn_first_offset for entry in entries}
                return offset, {producer: first for producer, first in opened.items() if first >= 0}
    return 0, {}


def aborted_transactions(directory: Path, start: int, stop: int) -> list[Aborted]:
    """The aborted transactions that reach into [start, stop)."""
    found: list[Aborted] = []
    for segment in find_segments(directory):
        # The index of the segment that a transaction ends in has it.
        if segment.stop is None or segment.stop > start:
            aborted = _read_aborted(segment.file(TXN_INDEX_SUFFIX))
            found += [
                Aborted(txn.producer_id, txn.first_offset, txn.last_offset)
                for txn in aborted
                if txn.last_offset >= start and txn.first_offset < stop
            ]
    return found


def _read_aborted(path: Path) -> list[AbortedTxn]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    try:
        # The last one may be on its way to the disk; it is of a transaction whose end is not committed yet.
        return parse_aborted_txns(data[: len(data) // TXN_ENTRY.size * TXN_ENTRY.size])
    except BadFile as error:
        raise LogNotReadable(f"{path} cannot be read: {error}") from error


def _first_at(replica: Replica, timestamp_ms: int, end: int) -> int | None:
    start = first_offset(replica)
    mapped = map_segments(replica.directory, start, end)
    later = [each for each in mapped if not _is_before(each.segment, timestamp_ms)]
    for batch in iter_batches(later, start, end):
        if batch.max_timestamp < timestamp_ms or batch.is_control:
            continue
        # A record that is too large to be looked into is left out here; reading says so.
        for columns in iter_columns(batch, on_too_large=lambda _: None):
            offsets = np.asarray(columns.offsets, np.int64)
            fits = (np.asarray(columns.timestamps_ms, np.int64) >= timestamp_ms) & (offsets >= start) & (offsets < end)
            if fits.any():
                return int(offsets[int(fits.argmax())])
    return None


def _is_before(segment: Segment, timestamp_ms: int) -> bool:
    """Whether the time index of a segment that is not written to any more says that all of it is earlier."""
    if segment.stop is None:
        return False
    entries = read_small(segment.file(TIME_INDEX_SUFFIX), lambda data: parse_time_index(data, segment.base_offset))
    return bool(entries) and max(stamp for stamp, _ in entries or ()) < timestamp_ms
