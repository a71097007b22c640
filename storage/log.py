"""The log of one partition: segments, offsets, leader epochs and producers' state, kept together.

    log start offset <= last stable offset <= high watermark <= log end offset

Only the event loop changes a log.  What takes long (cold reads, syncs) leaves it as a plan that any
thread can carry out, and `generation` tells whether batches were cut off or replaced in the meantime.

A batch is written to the file first and taken into account after it, so a failed write leaves
everything as it was.  OSErrors become StorageErrors here: whoever gets one takes the directory offline,
and the log itself takes nothing more, since what is on disk is no longer known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minikafka.protocol.errors import OffsetOutOfRangeError
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import EndMarker, read_marker
from minikafka.protocol.records.layout import CONTROL_BIT, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT
from minikafka.protocol.varint import Buffer
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk
from minikafka.storage.epochs import LeaderEpochs
from minikafka.storage.errors import StorageError
from minikafka.storage.flushing import FlushPlan, plan_syncs
from minikafka.storage.following import Fetched, check_fetched, grouped, placed
from minikafka.storage.formats import AbortedTxn, BadFile
from minikafka.storage.producers import CompletedTxn, Origin, ProducerStates
from minikafka.storage.reading import ReadPlan, plan_search
from minikafka.storage.replay import aborted_txn, restore_txn_index
from minikafka.storage.scanning import Section
from minikafka.storage.segment import RollLimits, Segment
from minikafka.storage.segments import Segments
from minikafka.storage.state_files import StateFiles
from minikafka.storage.swapping import Swap
from minikafka.storage.timestamps import (
    LargestTimestampPlan,
    TimestampPlan,
    plan_largest_timestamp,
    plan_timestamp,
)
from minikafka.storage.validation import Inspected, Limits, validate
from minikafka.storage.verification import Verification

# Looking a member up in its class takes longer than comparing it.
_CLIENT = Origin.CLIENT


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
        self.limits = Limits.of(config)
        self._roll_limits = RollLimits(config.segment_bytes, config.roll_ms)
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
        self.has_new_names = True
        self.retirements = 0
        self._planned_retirements = self._synced_retirements = 0
        self.swap: Swap | None = None
        """An exchange of segments by compaction that is under way."""
        self.is_failed = False

    def reconfigure(self, config: LogConfig) -> None:
        """The topic's configuration changed; what is written from now on follows it."""
        self.config = config
        self.limits = Limits.of(config)
        self._roll_limits = RollLimits(config.segment_bytes, config.roll_ms)

    # ------------------------------------------------------------------------------------- offsets

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended, and its end is replicated; or what it wrote was deleted."""
        unstable = self.producers.first_unstable_offset
        stable = self.high_watermark if unstable is None else min(unstable, self.high_watermark)
        return max(stable, self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def update_high_watermark(self, offset: int) -> None:
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        self.high_watermark = offset if offset > self.log_start_offset else self.log_start_offset
        self.producers.on_high_watermark(self.high_watermark)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch at or below the one asked for, and where it ends; (-1, -1) if there is none."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def start_epoch(self, epoch: int) -> None:
        """A leader's first act: the epoch begins here, whether or not anything is ever written in it."""
        self.epochs.assign(epoch, self.log_end_offset)

    # ----------------------------------------------------------------------------------- appending

    def append_as_leader(
        self,
        batch: BatchView,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        verification: Verification | None = None,
        inspected: Inspected | None = None,
    ) -> Appended:
        """Check one batch, give it offsets, write it; its buffer is changed in place. Costly as in `validate`."""
        batch = validate(batch, self.limits, now_ms, origin, inspected)
        marker = read_marker(batch) if batch.attributes & CONTROL_BIT else None
        if batch.producer_id >= 0:
            duplicate = self.producers.duplicate_of(batch) if origin is _CLIENT else None
            if duplicate is not None:
                stamp = duplicate.timestamp
                return Appended(duplicate.first_offset, duplicate.last_offset, stamp, stamp, True)
            # Before epoch and sequence, as in Kafka: a batch of no known transaction has no say in either.
            if marker is None and batch.attributes & TRANSACTIONAL_BIT:
                self.producers.check_verification(batch, verification)
            self.producers.check(batch, origin, marker)
        base_offset = self.log_end_offset
        last_offset = base_offset + batch.last_offset_delta
        max_timestamp = batch.max_timestamp
        batch.patch(base_offset, leader_epoch)
        try:
            segment = self._segment_for(base_offset, batch.size, last_offset, max_timestamp, now_ms)
            segment.append_batch(batch, last_offset)
            self.log_end_offset = last_offset + 1
            if batch.producer_id >= 0 or leader_epoch != self.epochs.latest_epoch:
                self._take_into_account(segment, batch, marker)
        except OSError as error:
            raise self.failure("append", error) from error
        append_time_ms = max_timestamp if batch.attributes & TIMESTAMP_TYPE_BIT else -1
        return Appended(base_offset, last_offset, max_timestamp, append_time_ms)

    def append_as_follower(self, records: Buffer, now_ms: int) -> Appended | None:
        """Write what a leader sent, offsets and all; None if it holds no whole batch."""
        batches = check_fetched(records, self.log_end_offset)
        if not batches:
            return None
        for group in grouped(batches, self.config.segment_bytes):
            self._write(group, now_ms)
        stamp = max(batch.max_timestamp for batch, _ in batches)
        return Appended(batches[0][0].base_offset, batches[-1][0].last_offset, stamp)

    def _write(self, batches: Sequence[Fetched], now_ms: int) -> None:
        first, last = batches[0][0], batches[-1][0]
        where, size = placed(batches)
        try:
            segment = self._segment_for(first.base_offset, size, last.last_offset, last.max_timestamp, now_ms)
            segment.append(b"".join(batch.data for batch, _ in batches), where)
            self.log_end_offset = last.next_offset
            for batch, marker in batches:
                self._take_into_account(segment, batch, marker)
        except OSError as error:
            raise self.failure("append", error) from error

    def _take_into_account(self, segment: Segment, batch: BatchView, marker: EndMarker | None) -> None:
        if batch.leader_epoch >= 0:
            self.epochs.assign(batch.leader_epoch, batch.base_offset)
        if batch.producer_id >= 0:
            completed = self.producers.update(batch, marker)
            if completed is not None:
                self._end_transaction(segment, completed)

    def _end_transaction(self, segment: Segment, completed: CompletedTxn) -> None:
        if completed.is_aborted:
            segment.txn_index.append(aborted_txn(self.producers, completed))
        self.producers.complete(completed)

    # ------------------------------------------------------------------------------------- rolling

    def _segment_for(self, base_offset: int, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        if self.is_failed:
            self.check_usable()
        active = self.segments.active
        if max_timestamp < 0:
            max_timestamp = now_ms
        return (
            self._roll(base_offset) if active.is_full(self._roll_limits, size, last_offset, max_timestamp) else active
        )

    def roll(self) -> None:
        """Seal the active segment and start another at the log end offset, unless it is empty."""
        self.check_usable()
        try:
            if self.segments.active.size:
                self._roll(self.log_end_offset)
        except OSError as error:
            raise self.failure("roll", error) from error

    def _roll(self, base_offset: int) -> Segment:
        segment = Segment.create(self.disk, self.directory, base_offset, self.config)
        # The state up to here, so that nothing before the new segment has to be replayed.
        self.state_files.write_snapshot(base_offset, self.producers.snapshot())
        self.segments.active.seal()
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
            return ReadPlan(offset, bound_offset, max_bytes, (), 0, True, 0)
        active = self.segments.active
        start = active.tail.batch_position(offset)
        limit = active.tail.boundary_position(bound_offset)
        if start is not None and limit is not None:
            sections = (Section(active.log_path, active.file, start, limit),)
            return ReadPlan(offset, bound_offset, max_bytes, sections, active.base_offset, True, 1)
        try:
            return plan_search(self.segments, offset, max_bytes, bound_offset, limit)
        except OSError as error:
            raise self.failure("read", error) from error

    def has_aborted_from(self, offset: int) -> bool:
        """Whether there are aborted transactions at all that a reader from an offset on may have to skip."""
        try:
            return any(len(segment.txn_index) for segment in self.segments.from_offset(offset))
        except OSError as error:
            raise self.failure("read", error) from error

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that a reader of these offsets has to skip."""
        found: list[AbortedTxn] = []
        try:
            for segment in self.segments.from_offset(from_offset):
                try:
                    some, is_complete = segment.aborted(from_offset, to_offset)
                except BadFile:
                    restore_txn_index(self.segments, segment, self.state_files)
                    some, is_complete = segment.txn_index.collect(from_offset, to_offset)
                found += some
                if is_complete:
                    break
        except OSError as error:
            raise self.failure("read", error) from error
        return found

    def plan_timestamp(self, timestamp: int, from_offset: int = 0) -> TimestampPlan | None:
        """Where to look first for a record at or after a time; a plan without a find says where to look next."""
        try:
            return plan_timestamp(self.segments, max(from_offset, self.log_start_offset), timestamp)
        except OSError as error:
            raise self.failure("read", error) from error

    def plan_largest_timestamp(self) -> LargestTimestampPlan | None:
        """Where to look for the record with the largest timestamp; None in a log without any."""
        try:
            return plan_largest_timestamp(self.segments, self.log_start_offset)
        except OSError as error:
            raise self.failure("read", error) from error

    # ------------------------------------------------------------------------------------ flushing

    def prepare_flush(self) -> FlushPlan | None:
        """What has to be synced for everything up to the log end to be safe; None if it is already.

        One plan at a time: what a plan has taken on, the next one leaves out.
        """
        self.check_usable()
        self.write_epochs()
        if self.recovery_point >= self.log_end_offset and not self.has_new_names and not self.state_files.unsynced:
            return None
        has_new_names = self.has_new_names or bool(self.state_files.unsynced)
        try:
            # The segment before the recovery point too: if it was rolled right there, its indexes are not on disk yet.
            dirty = self.segments.from_offset(self.recovery_point - 1)
            work = plan_syncs(dirty, sorted(self.state_files.unsynced))
        except OSError as error:
            raise self.failure("flush", error) from error
        self.state_files.unsynced = set()
        self.has_new_names = False
        self._planned_retirements = self.retirements
        return FlushPlan(self.disk, self.directory, self.log_end_offset, self.generation, work, has_new_names)

    def complete_flush(self, plan: FlushPlan) -> None:
        """A plan was carried out: everything below its offset is on disk, unless it was cut off since."""
        self.retirements_synced(self._planned_retirements)
        if plan.generation == self.generation:
            self.recovery_point = max(self.recovery_point, plan.offset)

    # ------------------------------------------------------------------------------------ the rest

    def exchange(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put segments in the place of others, whose files have been renamed."""
        self.segments.replace(old, new)
        self.retired += old
        self.retirements += 1
        self.has_new_names = True

    @property
    def unsynced_retirements(self) -> int:
        """A number to give to `retirements_synced` once the directory is synced; 0 if there is no need."""
        return self.retirements if self.retirements > self._synced_retirements else 0

    def retirements_synced(self, number: int) -> None:
        self._synced_retirements = max(self._synced_retirements, number)

    def sync_retirements(self) -> None:
        """Have on disk that segments were renamed, unless somebody has seen to it already."""
        if self.unsynced_retirements:
            self.disk.fsync_dir(self.directory)
            self._synced_retirements = self.retirements

    def write_epochs(self) -> None:
        """Not with every change: after a crash the batches themselves tell the newest epochs."""
        try:
            if self.epochs.is_dirty:
                self.state_files.write_epochs(self.epochs)
                self.epochs.is_dirty = False
        except OSError as error:
            raise self.failure("write epochs", error) from error

    def close(self) -> None:
        """Bring everything to disk as a clean start expects it, and let go of the files."""
        if self.swap is not None:
            self.swap.complete()
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

    def check_usable(self) -> None:
        if self.is_failed:
            raise StorageError(f"{self.directory}: has failed before")

    def failure(self, what: str, error: OSError) -> StorageError:
        self.is_failed = True
        return StorageError(f"{self.directory}: cannot {what}: {error}")
