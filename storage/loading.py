"""Opening a partition's directory, after a clean stop and after any other.

After a clean stop everything is believed as it lies there.  Otherwise the segments from the recovery
point on are read through: they end at the first batch that is torn or wrong, later segments go, and
indexes, leader epochs and producers' state are built anew from what is left.  That much can be missing
after a crash, since nobody promised more than the recovery point.  A bad batch below it is another
matter: it was on disk once, and cutting it off would throw away good copies.  That is a CorruptLog.
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.protocol.errors import CorruptRecord
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, join
from minikafka.storage.epochs import LeaderEpochs
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.formats import LOG_SUFFIX, parse_segment_name, segment_name
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
    restore_from = None if state.is_clean else _recover(disk, segments, state)
    log_end_offset = _open_last(segments)
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
    log = Log(
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
    # What the batches told has to get into the file, since a clean start asks only the file.
    log.epochs_changed = epochs.is_dirty and len(epochs) > 0
    return log


def _find_segments(disk: Disk, directory: str, config: LogConfig, log_start_offset: int) -> Segments:
    named = [(name, parse_segment_name(name)) for name in disk.list(directory)]
    bases = {found[0] for _, found in named if found is not None and found[1] == LOG_SUFFIX}
    segments = [
        Segment(disk, directory, base, config, size=disk.size(join(directory, segment_name(base) + LOG_SUFFIX)))
        for base in bases
    ]
    return Segments(segments or [Segment.create(disk, directory, log_start_offset, config)])


# ----------------------------------------------------------------------------------------- recovery


def _recover(disk: Disk, segments: Segments, state: LoadedState) -> int:
    """Check everything from the recovery point on; returns the base offset of the first segment checked."""
    suspects = segments.from_offset(state.recovery_point)
    for number, segment in enumerate(suspects):
        limit = segments.next_base(segment)
        good_bytes, next_offset, flaw = _good_part(segment, limit)
        if flaw is not None:
            if next_offset < state.recovery_point:
                raise CorruptLog(
                    flaw.path,
                    flaw.position,
                    f"{flaw.reason}; offsets below {state.recovery_point} were on disk already",
                )
            _drop(segments, suspects[number + 1 :])
        segment.recover(good_bytes)
        if flaw is not None:
            break
    return suspects[0].base_offset


def _good_part(segment: Segment, limit_offset: int | None) -> tuple[int, int, CorruptLog | None]:
    """How many bytes of a segment are good, the offset after them, and what comes then."""
    section = segment.section()
    end, next_offset = 0, segment.base_offset
    try:
        for position, batch in read_batches(section, section.file.read):
            if batch.base_offset < next_offset or (limit_offset is not None and batch.last_offset >= limit_offset):
                raise CorruptLog(section.path, position, f"offset {batch.base_offset} after {next_offset - 1}")
            batch.check_crc()
            end, next_offset = position + batch.size, batch.next_offset
    except CorruptLog as flaw:
        return end, next_offset, flaw
    except CorruptRecord as error:
        return end, next_offset, CorruptLog(section.path, end, str(error))
    return end, next_offset, None


def _drop(segments: Segments, later: list[Segment]) -> None:
    if later:
        segments.replace(later, ())
    for segment in later:
        segment.rename_deleted()
        segment.unlink_deleted()


def _open_last(segments: Segments) -> int:
    """Make the last segment writable; returns the offset after its last batch."""
    active = segments.active
    next_offset = active.base_offset
    active.load_indexes()
    for batch in active.batches(active.offset_index.lookup(active.offset_index.last_offset).position):
        next_offset = batch.last_offset + 1
    active.reopen(next_offset)
    return next_offset


def _load_epochs(
    segments: Segments, state_files: StateFiles, restore_from: int | None, log_start_offset: int, log_end_offset: int
) -> LeaderEpochs:
    """What the file says, and after a crash what the batches say; from all batches if there is no good file."""
    epochs = state_files.read_epochs()
    if epochs is None:
        epochs, restore_from = LeaderEpochs(), segments.first.base_offset
    epochs.truncate_from_end(log_end_offset)
    if restore_from is not None:
        for segment in segments.from_offset(restore_from):
            for batch in segment.batches():
                if batch.leader_epoch > (epochs.latest_epoch if epochs.latest_epoch is not None else -1):
                    epochs.assign(batch.leader_epoch, batch.base_offset)
    epochs.truncate_from_start(log_start_offset)
    return epochs
