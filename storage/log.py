"""The log of one partition: segments, offsets, leader epochs and producers' state, kept together.

    log start offset <= last stable offset <= high watermark <= log end offset

Only the event loop changes a log.  What takes long (cold reads, syncs) leaves it as a plan that any
thread can carry out, and `generation` tells whether batches were cut off or replaced in the meantime.

A batch is written to the file first and taken into account after it, so a failed write leaves
everything as it was.  OSErrors become StorageErrors here: whoever gets one takes the directory offline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minikafka.protocol.errors import CorruptRecord, OffsetOutOfRangeError
from minikafka.protocol.records.batch import BatchView, read_whole_batches
from minikafka.protocol.records.control import EndMarker, read_marker
from minikafka.protocol.records.layout import TimestampType
from minikafka.protocol.varint import Buffer
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk
from minikafka.storage.epochs import LeaderEpochs
from minikafka.storage.errors import StorageError
from minikafka.storage.flushing import FlushPlan
from minikafka.storage.formats import AbortedTxn, BadFile
from minikafka.storage.producers import CompletedTxn, Origin, ProducerStates, Verification
from minikafka.storage.reading import ReadPlan
from minikafka.storage.replay import aborted_txn, restore_txn_index
from minikafka.storage.scanning import BatchAt
from minikafka.storage.segment import Segment
from minikafka.storage.segments import Segments
from minikafka.storage.state_files import StateFiles
from minikafka.storage.timestamps import LargestTimestampPlan, TimestampPlan
from minikafka.storage.validation import Limits, validate


class Appended(NamedTuple):
    """What an append did, or what an earlier one of the same batch did."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int = -1
    is_duplicate: bool = False


class Log:
    """See the module's description; `loading.load_log` makes one."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        segments: Segments,
        epochs: LeaderEpochs,
        producers: ProducerStates,
        *,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.config = config
        self.limits = _limits(config)
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.state_files = StateFiles(disk, directory)
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.high_watermark = log_start_offset
        self.generation = 0
        self.retired: list[Segment] = []
        """Segments that are no longer part of the log; their files stay for readers for a while."""
        self.epochs_changed = False
        self.has_new_names = True

    def reconfigure(self, config: LogConfig) -> None:
        """The topic's configuration changed; what is written from now on follows it."""
        self.config = config
        self.limits = _limits(config)

    # ------------------------------------------------------------------------------------- offsets

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended, and its end is replicated."""
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def update_high_watermark(self, offset: int) -> None:
        self.high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))
        self.producers.on_high_watermark(self.high_watermark)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch at or below the one asked for, and where it ends; (-1, -1) if there is none."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def start_epoch(self, epoch: int) -> None:
        """A leader's first act: the epoch begins here, whether or not anything is ever written in it."""
        self.epochs_changed |= self.epochs.assign(epoch, self.log_end_offset)

    # ----------------------------------------------------------------------------------- appending

    def append_as_leader(
        self,
        batch: BatchView,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        verification: Verification | None = None,
    ) -> Appended:
        """Check one batch, give it offsets, write it; the batch's buffer is changed in place."""
        batch = validate(batch, self.limits, now_ms, origin)
        marker = read_marker(batch) if batch.is_control else None
        if batch.producer_id >= 0:
            duplicate = self.producers.duplicate_of(batch) if origin is Origin.CLIENT else None
            if duplicate is not None:
                return Appended(
                    duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, duplicate.timestamp, True
                )
            self.producers.check(batch, origin, marker)
            if origin is Origin.CLIENT and batch.is_transactional:
                self.producers.check_verification(batch, verification)
        batch.patch(self.log_end_offset, leader_epoch)
        self._write(batch.data, ((batch, marker),), now_ms)
        append_time = batch.max_timestamp if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else -1
        return Appended(batch.base_offset, batch.last_offset, batch.max_timestamp, append_time)

    def append_as_follower(self, records: Buffer, now_ms: int) -> Appended | None:
        """Write what a leader sent, offsets and all; None if it holds no whole batch."""
        batches, _ = read_whole_batches(records)
        checked: list[tuple[BatchView, EndMarker | None]] = []
        next_offset = self.log_end_offset
        for batch in batches:
            if batch.base_offset < next_offset:
                raise CorruptRecord(f"batch at offset {batch.base_offset} where {next_offset} is next")
            batch.check_crc()
            # Compaction leaves control batches without their marker.
            has_marker = batch.is_control and batch.record_count
            checked.append((batch, read_marker(batch) if has_marker else None))
            next_offset = batch.next_offset
        if not checked:
            return None
        for group in self._groups(checked):
            self._write(_joined(records, group), group, now_ms)
        return Appended(batches[0].base_offset, batches[-1].last_offset, max(b.max_timestamp for b in batches))

    def _groups(
        self, batches: Sequence[tuple[BatchView, EndMarker | None]]
    ) -> list[list[tuple[BatchView, EndMarker | None]]]:
        """Batches that surely go into one segment together: at most an eighth of one."""
        groups: list[list[tuple[BatchView, EndMarker | None]]] = []
        room = 0
        for each in batches:
            if each[0].size > room:
                groups.append([])
                room = self.config.segment_bytes // 8
            groups[-1].append(each)
            room -= each[0].size
        return groups

    def _write(self, data: Buffer, batches: Sequence[tuple[BatchView, EndMarker | None]], now_ms: int) -> None:
        first, last = batches[0][0], batches[-1][0]
        try:
            segment = self._segment_for(first.base_offset, len(data), last, now_ms)
            segment.append(data, _placed(batches))
            self.log_end_offset = last.next_offset
            for batch, marker in batches:
                self._take_into_account(segment, batch, marker)
        except OSError as error:
            raise self.failure("append", error) from error

    def _take_into_account(self, segment: Segment, batch: BatchView, marker: EndMarker | None) -> None:
        if batch.leader_epoch >= 0:
            self.epochs_changed |= self.epochs.assign(batch.leader_epoch, batch.base_offset)
        if batch.producer_id >= 0:
            completed = self.producers.update(batch, marker)
            if completed is not None:
                self._end_transaction(segment, completed)

    def _end_transaction(self, segment: Segment, completed: CompletedTxn) -> None:
        if completed.is_aborted:
            segment.txn_index.append(aborted_txn(self.producers, completed))
        self.producers.complete(completed)

    # ------------------------------------------------------------------------------------- rolling

    def _segment_for(self, base_offset: int, size: int, last: BatchView, now_ms: int) -> Segment:
        active = self.segments.active
        timestamp = last.max_timestamp
        if active.is_due_to_roll(self.config, size, last.last_offset, timestamp if timestamp >= 0 else now_ms):
            return self._roll(base_offset)
        return active

    def roll(self) -> None:
        """Seal the active segment and start another at the log end offset, unless it is empty."""
        try:
            if self.segments.active.size:
                self._roll(self.log_end_offset)
        except OSError as error:
            raise self.failure("roll", error) from error

    def _roll(self, base_offset: int) -> Segment:
        segment = Segment.create(self.disk, self.directory, base_offset, self.config)
        # The state up to here, so that nothing before the new segment has to be replayed.
        self.state_files.write_snapshot(base_offset, self.producers.snapshot())
        sealed = self.segments.active
        sealed.seal()
        # Everything in the segment may be synced already, and then no flush would come to its indexes again.
        self.state_files.unsynced |= {sealed.offset_index.path, sealed.time_index.path}
        self.segments.add(segment)
        self.has_new_names = True
        return segment

    # ------------------------------------------------------------------------------------- reading

    def plan_read(self, offset: int, max_bytes: int, bound_offset: int) -> ReadPlan:
        """What to read for a fetch from `offset` of at most `max_bytes`, below `bound_offset`."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} is not within {self.log_start_offset} to {self.log_end_offset}"
            )
        if offset >= bound_offset:
            return ReadPlan(offset, bound_offset, max_bytes, (), True, -1)
        active = self.segments.active
        start = active.tail.batch_position(offset)
        limit = active.tail.boundary_position(bound_offset)
        if start is not None and limit is not None:
            return ReadPlan(offset, bound_offset, max_bytes, (active.section(start, limit),), True, -1)
        return self._plan_search(offset, max_bytes, bound_offset)

    def _plan_search(self, offset: int, max_bytes: int, bound_offset: int) -> ReadPlan:
        try:
            holding, *later = self.segments.from_offset(offset)
            holding.load_indexes()
            entry = holding.offset_index.lookup(offset)
            sections = [holding.section(min(entry.position, holding.size))]
            sections += [segment.section() for segment in later if segment.base_offset < bound_offset]
        except OSError as error:
            raise self.failure("read", error) from error
        return ReadPlan(offset, bound_offset, max_bytes, tuple(sections), False, entry.offset)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that a reader of these offsets has to skip."""
        found: list[AbortedTxn] = []
        try:
            for segment in self.segments.from_offset(from_offset):
                try:
                    some, is_complete = segment.txn_index.collect(from_offset, to_offset)
                except BadFile:
                    restore_txn_index(self.segments, segment, self.state_files, self.config)
                    some, is_complete = segment.txn_index.collect(from_offset, to_offset)
                found += some
                if is_complete:
                    break
        except OSError as error:
            raise self.failure("read", error) from error
        return found

    def plan_timestamp(self, timestamp: int) -> list[TimestampPlan]:
        """Where to look for the first record at or after a time, in this order."""
        return [
            TimestampPlan(timestamp, self.log_start_offset, segment.section(position), hint)
            for segment in self.segments.from_offset(self.log_start_offset)
            if segment.largest.timestamp >= timestamp
            for hint in [segment.time_index.lookup(timestamp)]
            for position in [segment.offset_index.lookup(hint.offset).position]
        ]

    def plan_largest_timestamp(self) -> LargestTimestampPlan | None:
        """Where to look for the record with the largest timestamp; None in a log without any."""
        segment = max(self.segments.from_offset(self.log_start_offset), key=lambda each: each.largest.timestamp)
        if segment.largest.timestamp < 0:
            return None
        position = segment.offset_index.lookup(segment.largest.offset).position
        return LargestTimestampPlan(segment.section(position), segment.largest)

    # ------------------------------------------------------------------------------------ flushing

    def prepare_flush(self) -> FlushPlan | None:
        """What has to be synced for everything up to the log end to be safe; None if it is already."""
        self.write_epochs()
        if self.recovery_point >= self.log_end_offset and not self.has_new_names and not self.state_files.unsynced:
            return None
        dirty = self.segments.from_offset(self.recovery_point)
        plan = FlushPlan(
            disk=self.disk,
            directory=self.directory,
            offset=self.log_end_offset,
            generation=self.generation,
            files=tuple(segment.file for segment in dirty),
            indexes=tuple(i for s in dirty if s.is_sealed for i in (s.offset_index, s.time_index)),
            paths=(*self.state_files.unsynced, *(segment.txn_index.path for segment in dirty)),
            has_new_names=self.has_new_names or bool(self.state_files.unsynced),
        )
        self.state_files.unsynced = set()
        self.has_new_names = False
        return plan

    def complete_flush(self, plan: FlushPlan) -> None:
        """A plan was carried out: everything below its offset is on disk, unless it was cut off since."""
        if plan.generation == self.generation:
            self.recovery_point = max(self.recovery_point, plan.offset)

    # ------------------------------------------------------------------------------------ the rest

    def write_epochs(self) -> None:
        """Not with every change: after a crash the batches themselves tell the newest epochs."""
        try:
            if self.epochs_changed:
                self.state_files.write_epochs(self.epochs)
                self.epochs_changed = False
        except OSError as error:
            raise self.failure("write epochs", error) from error

    def close(self) -> None:
        """Bring everything to disk as a clean start expects it, and let go of the files."""
        try:
            if self._needs_last_snapshot():
                self.state_files.write_snapshot(self.log_end_offset, self.producers.snapshot())
            self.segments.active.seal()
        except OSError as error:
            raise self.failure("close", error) from error
        plan = self.prepare_flush()
        if plan is not None:
            plan.run()
            self.complete_flush(plan)
        for segment in (*self.segments, *self.retired):
            segment.close()

    def _needs_last_snapshot(self) -> bool:
        """Not in an empty log, and not if nothing has happened since the snapshot of this offset was taken."""
        if self.log_end_offset == self.segments.first.base_offset:
            return False
        is_unchanged = self.generation == 0 and self.recovery_point >= self.log_end_offset
        return not (is_unchanged and self.state_files.has_snapshot(self.log_end_offset))

    def failure(self, what: str, error: OSError) -> StorageError:
        return StorageError(f"{self.directory}: cannot {what}: {error}")


def _limits(config: LogConfig) -> Limits:
    return Limits(
        max_message_bytes=config.max_message_bytes,
        segment_bytes=config.segment_bytes,
        timestamp_type=config.timestamp_type,
        timestamp_before_max_ms=config.timestamp_before_max_ms,
        timestamp_after_max_ms=config.timestamp_after_max_ms,
        is_compacted=config.cleanup_compact,
        compression=config.compression,
        compression_level=config.compression_level,
    )


def _placed(batches: Sequence[tuple[BatchView, EndMarker | None]]) -> list[BatchAt]:
    placed, position = [], 0
    for batch, _ in batches:
        placed.append(
            BatchAt(position, batch.size, batch.base_offset, batch.last_offset, batch.max_timestamp, batch.leader_epoch)
        )
        position += batch.size
    return placed


def _joined(records: Buffer, batches: Sequence[tuple[BatchView, EndMarker | None]]) -> Buffer:
    if len(batches) == 1:
        return batches[0][0].data
    return b"".join(batch.data for batch, _ in batches)
