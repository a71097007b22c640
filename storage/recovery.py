"""After a crash: reading a log through from its recovery point.

The log ends at the first batch that is torn or wrong, and later segments go. Indexes, leader epochs and producers'
state are built anew on the way, so every batch is read once.

A file system may bring a later file to disk before an earlier one, so a log also ends where offsets are missing
between two segments. Compaction leaves such gaps too, but then there are others inside of segments.
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.batch import BatchView
from minikafka.storage.disk import Disk
from minikafka.storage.errors import CorruptLog
from minikafka.storage.index import RELATIVE_OFFSET_MAX
from minikafka.storage.replay import Replay
from minikafka.storage.scanning import read_batches
from minikafka.storage.segment import Segment
from minikafka.storage.segments import Segments


class _GoodPart(NamedTuple):
    """The batches of a segment up to the first that is wrong."""

    size: int
    next_offset: int
    flaw: CorruptLog | None


class _BadMarker(CorruptLog):
    """A batch that is whole and still cannot be taken in: no crash has made it, so nothing is cut off."""


class Recovery:
    """Checks everything from the recovery point on, and cuts off what is bad."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: Segments,
        replay: Replay,
        *,
        recovery_point: int,
        log_start_offset: int,
        is_compacted: bool,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self.replay = replay
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        # By its configuration; it may also have been once.
        self._is_compacted = is_compacted
        self.epochs: list[tuple[int, int]] = []
        """Each epoch with the first of its batches, from `restored_from` on."""
        self.restored_from = segments.holding(recovery_point).base_offset
        """The base offset of the first segment that was read."""

    def run(self) -> None:
        """CorruptLog if something is bad that was on disk already, and then no batch was touched."""
        self._replay_before()
        for segment in self._segments.from_offset(self._recovery_point):
            good = self._good_part(segment)
            if good.flaw is not None and good.next_offset < self._recovery_point:
                raise CorruptLog(
                    good.flaw.path,
                    good.flaw.position,
                    f"{good.flaw.reason}; offsets below {self._recovery_point} were on disk already",
                )
            has_gap = good.flaw is None and self._has_gap_after(segment, good.next_offset)
            if has_gap and self._is_deleted(segment):
                # With others that came after it, and is back alone.
                self._drop([each for each in self._segments if each.base_offset <= segment.base_offset])
                self.epochs, self.restored_from = [], self._segments.first.base_offset
                continue
            is_end = good.flaw is not None or (has_gap and good.next_offset >= self._recovery_point)
            if is_end:
                self._drop([each for each in self._segments if each.base_offset > segment.base_offset])
            segment.end_recovery(good.size, is_last=segment is self._segments.active)
            if is_end:
                break

    def _replay_before(self) -> None:
        """What came between the snapshot and the first segment to be read."""
        self.replay.recall(self._segments)
        for segment in self._segments.from_offset(self.replay.start):
            if segment.base_offset < self.restored_from:
                self.replay.take_segment(segment, self.restored_from)

    def _good_part(self, segment: Segment) -> _GoodPart:
        section, limit_offset = segment.section(), self._segments.next_base(segment)
        offset_max = segment.base_offset + RELATIVE_OFFSET_MAX if limit_offset is None else limit_offset - 1
        end, next_offset = 0, segment.base_offset
        segment.begin_recovery()
        try:
            for position, batch in read_batches(section, section.file.read):
                base_offset, last_offset = batch.base_offset, batch.last_offset
                if not next_offset <= base_offset <= last_offset <= offset_max:
                    raise CorruptLog(section.path, position, f"offset {base_offset} after {next_offset - 1}")
                batch.check_crc()
                self._take(batch, segment, position)
                self._is_compacted |= base_offset > next_offset
                segment.note(position, batch.size, last_offset, batch.max_timestamp)
                end, next_offset = position + batch.size, last_offset + 1
        except _BadMarker:
            raise
        except CorruptLog as flaw:
            return _GoodPart(end, next_offset, flaw)
        except CorruptRecord as error:
            return _GoodPart(end, next_offset, CorruptLog(section.path, end, str(error)))
        return _GoodPart(end, next_offset, None)

    def _take(self, batch: BatchView, segment: Segment, position: int) -> None:
        epoch = batch.leader_epoch
        if epoch >= 0 and (not self.epochs or self.epochs[-1][0] != epoch):
            self.epochs.append((epoch, batch.base_offset))
        if batch.producer_id >= 0:
            try:
                self.replay.take(batch, segment, fills_index=True)
            except CorruptRecord as error:
                raise _BadMarker(segment.log_path, position, str(error)) from error

    def _has_gap_after(self, segment: Segment, next_offset: int) -> bool:
        """Whether batches are missing between this segment and the next."""
        next_base = self._segments.next_base(segment)
        return next_base is not None and next_base > next_offset and not self._is_compacted

    def _is_deleted(self, segment: Segment) -> bool:
        """Whether the log begins behind all that a segment could hold, and not in the gap that follows it."""
        next_base = self._segments.next_base(segment)
        return next_base is not None and next_base <= self._log_start_offset

    def _drop(self, segments: list[Segment]) -> None:
        """Remove them, and for good: they must not come back once other batches have their offsets."""
        if not segments:
            return
        self._segments.replace(segments, ())
        for segment in reversed(segments):
            segment.rename_deleted(0)
            segment.unlink_deleted()
        self._disk.fsync_dir(self._directory)
