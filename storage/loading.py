"""Opening a partition's directory, after a clean stop and after any other.

After a clean stop everything is believed as it lies there.  Otherwise what is above the recovery point is
read through (`recovery`) and cut off where it is bad.  That much can be missing after a crash, since nobody
promised more than the recovery point.  A bad batch below it is another matter: it was on disk once, and
cutting it off would throw away good copies.  That is a CorruptLog.
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, join
from minikafka.storage.epochs import LeaderEpochs
from minikafka.storage.errors import StorageError
from minikafka.storage.formats import LOG_SUFFIX, parse_segment_name, segment_name
from minikafka.storage.leftovers import clear_leftovers
from minikafka.storage.log import Log
from minikafka.storage.recovery import Recovery
from minikafka.storage.replay import Replay, rebuild_producers
from minikafka.storage.segment import Segment
from minikafka.storage.segments import Segments
from minikafka.storage.state_files import StateFiles


class LoadedState(NamedTuple):
    """What the directory above knows of a partition's log."""

    is_clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    was_compacted: bool = False
    """Then offsets may be missing by right, whatever the topic's configuration says today."""


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
    recovery = None
    if not state.is_clean:
        recovery = _recover(disk, directory, config, state, segments, state_files, now_ms)
    log_end_offset = segments.active.reopen()
    log_start_offset = min(max(state.log_start_offset, segments.first.base_offset), log_end_offset)
    epochs = _load_epochs(segments, state_files, recovery, log_start_offset, log_end_offset)
    state_files.delete_snapshots(above=log_end_offset)
    if recovery is None:
        offsets = {"log_start_offset": log_start_offset, "end_offset": log_end_offset}
        producers = rebuild_producers(segments, state_files, **offsets, now_ms=now_ms)
    else:
        producers = recovery.replay.finish(log_end_offset)
    state_files.delete_stray_snapshots({segment.base_offset for segment in segments})
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


def _recover(
    disk: Disk,
    directory: str,
    config: LogConfig,
    state: LoadedState,
    segments: Segments,
    state_files: StateFiles,
    now_ms: int,
) -> Recovery:
    replay = Replay(
        state_files,
        log_start_offset=max(state.log_start_offset, segments.first.base_offset),
        snapshot_max=segments.holding(state.recovery_point).base_offset,
        now_ms=now_ms,
    )
    recovery = Recovery(
        disk,
        directory,
        segments,
        replay,
        recovery_point=state.recovery_point,
        log_start_offset=state.log_start_offset,
        is_compacted=config.cleanup_compact or state.was_compacted,
    )
    recovery.run()
    return recovery


def _find_segments(disk: Disk, directory: str, config: LogConfig, log_start_offset: int) -> Segments:
    named = [(name, parse_segment_name(name)) for name in disk.list(directory)]
    bases = {found[0] for _, found in named if found is not None and found[1] == LOG_SUFFIX}
    segments = [
        Segment(disk, directory, base, config, size=disk.size(join(directory, segment_name(base) + LOG_SUFFIX)))
        for base in bases
    ]
    return Segments(segments or [Segment.create(disk, directory, log_start_offset, config)])


def _load_epochs(
    segments: Segments, state_files: StateFiles, recovery: Recovery | None, log_start_offset: int, log_end_offset: int
) -> LeaderEpochs:
    """What the file says, and after a crash what the batches say; from all batches if there is no good file."""
    epochs = state_files.read_epochs()
    if epochs is None:
        epochs = LeaderEpochs()
        for segment in segments:
            if recovery is None or segment.base_offset < recovery.restored_from:
                for batch in segment.batches():
                    if batch.leader_epoch >= 0:
                        epochs.assign(batch.leader_epoch, batch.base_offset)
    epochs.truncate_from_end(log_end_offset)
    if recovery is not None:
        # The file may be older than a truncation, and have epochs where there are batches of lower ones now.
        epochs.truncate_from_end(recovery.restored_from)
        for epoch, start_offset in recovery.epochs:
            epochs.assign(epoch, start_offset)
    epochs.truncate_from_start(log_start_offset)
    return epochs
