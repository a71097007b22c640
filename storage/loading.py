"""Opening a partition's directory, after a clean stop and after any other.

After a clean stop everything is believed as it lies there.  Otherwise the segments from the recovery
point on are read through: they end at the first batch that is torn or wrong, later segments go, and
indexes, leader epochs and producers' state are built anew from what is left.  That much can be missing
after a crash, since nobody promised more than the recovery point.  A bad batch below it is another
matter: it was on disk once, and cutting it off would throw away good copies.  That is a CorruptLog.

A file system may bring a later file to disk before an earlier one, so a log also ends where offsets are
missing between two segments.  Compaction leaves such gaps too, but then there are others inside of segments.
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.protocol.errors import CorruptRecord
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, join
from minikafka.storage.epochs import LeaderEpochs
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.formats import LOG_SUFFIX, parse_segment_name, segment_name
from minikafka.storage.index import RELATIVE_OFFSET_MAX
from minikafka.storage.leftovers import clear_leftovers
from minikafka.storage.log import Log
from minikafka.storage.replay import rebuild_producers
from minikafka.storage.scanning import read_batches
from minikafka.storage.segment import Segment
from minikafka.storage.segments import Segments
from minikafka.storage.state_files import StateFiles


class LoadedState(NamedTuple):
    """What the directory above knows of a partition's log."""

    is_clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0


def load_log(disk: Disk, directory: str, config: LogConfig, state: LoadedState, now_ms: int) -> Log:
    """Open a log, made if there is none; StorageError if the disk fails, CorruptLog if it lost something."""
    try:
        return _load(disk, directory, config, state, now_ms)
    except OSError as error:
        raise StorageError(f"{directory}: cannot be opened: {error}") from error


def _load(disk: Disk, directory: str, config: LogConfig, state: LoadedState, now_ms: int) -> Log:
    disk.mkdir(directory)
    clear_leftovers(disk, directory)
    segments = _find_segments(disk, directory, config, state.log_start_offset)
    state_files = StateFiles(disk, directory)
    restore_from = None if state.is_clean else _Recovery(disk, directory, segments, config, state).run()
    log_end_offset = segments.active.reopen()
    log_start_offset = min(max(state.log_start_offset, segments.first.base_offset), log_end_offset)
    epochs = _load_epochs(segments, state_files, restore_from, log_start_offset, log_end_offset)
    state_files.delete_snapshots(above=log_end_offset)
    producers = rebuild_producers(
        segments,
        state_files,
        config,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        now_ms=now_ms,
        restore_from=restore_from,
    )
    return Log(
        disk,
        directory,
        config,
        segments,
        epochs,
        producers,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        recovery_point=min(state.recovery_point, log_end_offset),
    )


def _find_segments(disk: Disk, directory: str, config: LogConfig, log_start_offset: int) -> Segments:
    named = [(name, parse_segment_name(name)) for name in disk.list(directory)]
    bases = {found[0] for _, found in named if found is not None and found[1] == LOG_SUFFIX}
    segments = [
        Segment(disk, directory, base, config, size=disk.size(join(directory, segment_name(base) + LOG_SUFFIX)))
        for base in bases
    ]
    return Segments(segments or [Segment.create(disk, directory, log_start_offset, config)])


# ----------------------------------------------------------------------------------------- recovery


class _GoodPart(NamedTuple):
    """The batches of a segment up to the first that is wrong."""

    size: int
    next_offset: int
    flaw: CorruptLog | None


class _Recovery:
    """Checks everything from the recovery point on, and cuts off what is bad."""

    def __init__(self, disk: Disk, directory: str, segments: Segments, config: LogConfig, state: LoadedState) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        # It may have been once, and no longer be by its configuration.
        self._is_compacted = config.cleanup_compact
        self._recovery_point = state.recovery_point
        self._log_start_offset = state.log_start_offset

    def run(self) -> int:
        """Returns the base offset of the first segment that was checked."""
        for segment in self._segments.from_offset(self._recovery_point):
            good = self._good_part(segment)
            if good.flaw is not None and good.next_offset < self._recovery_point:
                raise CorruptLog(
                    good.flaw.path,
                    good.flaw.position,
                    f"{good.flaw.reason}; offsets below {self._recovery_point} were on disk already",
                )
            has_gap = good.flaw is None and self._has_gap_after(segment, good.next_offset)
            if has_gap and good.next_offset <= self._log_start_offset:
                # It was deleted, with others that came after it, and is back alone.
                self._drop([each for each in self._segments if each.base_offset <= segment.base_offset])
                continue
            is_end = good.flaw is not None or (has_gap and good.next_offset >= self._recovery_point)
            if is_end:
                self._drop([each for each in self._segments if each.base_offset > segment.base_offset])
            segment.recover(good.size, is_last=segment is self._segments.active)
            if is_end:
                break
        return self._segments.holding(self._recovery_point).base_offset

    def _good_part(self, segment: Segment) -> _GoodPart:
        section, limit_offset = segment.section(), self._segments.next_base(segment)
        offset_max = segment.base_offset + RELATIVE_OFFSET_MAX if limit_offset is None else limit_offset - 1
        end, next_offset = 0, segment.base_offset
        try:
            for position, batch in read_batches(section, section.file.read):
                if not next_offset <= batch.base_offset <= batch.last_offset <= offset_max:
                    raise CorruptLog(section.path, position, f"offset {batch.base_offset} after {next_offset - 1}")
                batch.check_crc()
                self._is_compacted |= batch.base_offset > next_offset
                end, next_offset = position + batch.size, batch.next_offset
        except CorruptLog as flaw:
            return _GoodPart(end, next_offset, flaw)
        except CorruptRecord as error:
            return _GoodPart(end, next_offset, CorruptLog(section.path, end, str(error)))
        return _GoodPart(end, next_offset, None)

    def _has_gap_after(self, segment: Segment, next_offset: int) -> bool:
        """Whether batches are missing between this segment and the next."""
        next_base = self._segments.next_base(segment)
        return next_base is not None and next_base > next_offset and not self._is_compacted

    def _drop(self, segments: list[Segment]) -> None:
        """Remove them, and for good: they must not come back once other batches have their offsets."""
        if not segments:
            return
        self._segments.replace(segments, ())
        for segment in reversed(segments):
            segment.rename_deleted()
            segment.unlink_deleted()
        self._disk.fsync_dir(self._directory)


def _load_epochs(
    segments: Segments, state_files: StateFiles, restore_from: int | None, log_start_offset: int, log_end_offset: int
) -> LeaderEpochs:
    """What the file says, and after a crash what the batches say; from all batches if there is no good file."""
    epochs = state_files.read_epochs()
    if epochs is None:
        epochs, restore_from = LeaderEpochs(), segments.first.base_offset
    epochs.truncate_from_end(log_end_offset)
    if restore_from is not None:
        # The file may be older than a truncation, and have epochs where there are batches of lower ones now.
        epochs.truncate_from_end(restore_from)
        for segment in segments.from_offset(restore_from):
            for batch in segment.batches():
                if batch.leader_epoch >= 0:
                    epochs.assign(batch.leader_epoch, batch.base_offset)
    epochs.truncate_from_start(log_start_offset)
    return epochs
