"""Cutting a log: at its end, where a follower differs from its leader, and at its start, where records expire.

Segments that go are renamed first and stay readable; `Log.retired` holds them until somebody unlinks
them, after `file.delete.delay.ms`.  A sealed segment is never shortened in place, since a reader may have
it mapped: the part that stays is written to a new file, which then takes the place of the old one.

What is cut off at the end is gone from the disk before the call returns.  Otherwise it could come back after
a power cut, behind or between batches that another leader has written since, and nothing would show it.
Whoever keeps recovery points on disk lowers the log's to `end_after_cut` before it is cut: else a crash in
the middle of it looks like the loss of something that was safe.
"""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.protocol.records.batch import read_whole_batches
from minikafka.protocol.varint import Buffer
from minikafka.storage.disk import Disk
from minikafka.storage.errors import CorruptLog
from minikafka.storage.formats import TMP_SUFFIX, BadFile
from minikafka.storage.log import Log
from minikafka.storage.producers import ProducerStates
from minikafka.storage.replay import RebuildPlan, restore_txn_index
from minikafka.storage.scanning import Section, held
from minikafka.storage.segment import Segment

_COPY_BYTES = 1 << 20


def end_after_cut(log: Log, offset: int) -> int:
    """The log end offset that `truncate_to` would leave: batches go whole."""
    if not log.segments.first.base_offset <= offset < log.log_end_offset:
        return min(offset, log.log_end_offset)
    try:
        return _cut_at(log, log.segments.holding(offset), offset)[1]
    except OSError as error:
        raise log.failure("truncate", error) from error


class CutPlan:
    """What takes long about a cut, done beforehand on any thread: `truncate_to` uses it if the log has not changed.

    That is building the producers' state, for which a segment may have to be read, and copying what stays of a sealed
    one. The rest is small: an index lookup and some batches near the cut.
    """

    def __init__(self, log: Log, offset: int, now_ms: int) -> None:
        self._log = log
        self._segment = log.segments.holding(offset)
        self._position, self.end = _cut_at(log, self._segment, offset)
        self._version = _version(log)
        self._section = self._segment.section()
        self._needs_copy = _needs_copy(self._segment, self._position)
        self._rebuild = None if log.producers.changed_end_offset <= self.end else _plan_rebuild(log, self.end, now_ms)
        self.producers: ProducerStates | None = None
        self.is_done = False

    def run(self) -> None:
        """On any thread; CorruptLog if there is a bad batch, ReadOvertaken if the log has changed."""
        if self._rebuild is not None:
            self.producers = self._rebuild.run()
        with held([self._section]):
            if self._needs_copy:
                _copy_prefix(self._log.disk, self._section, self._position)
            else:
                # So that the sync after the cut has nothing else to write.
                self._section.file.sync()
        self.is_done = True

    def fits(self, segment: Segment, position: int) -> bool:
        """Whether it is still about this log as it is. A segment that was sealed meanwhile has to be copied."""
        is_same_place = segment is self._segment and position == self._position
        is_same_work = self._needs_copy is _needs_copy(segment, position)
        return self.is_done and is_same_place and is_same_work and self._version == _version(self._log)


def plan_cut(log: Log, offset: int, now_ms: int) -> CutPlan | None:
    """Made on the loop before a log is cut at an offset; None if that takes no preparation."""
    if not log.segments.first.base_offset <= offset < log.log_end_offset:
        return None
    log.check_usable()
    try:
        return CutPlan(log, offset, now_ms)
    except OSError as error:
        raise log.failure("truncate", error) from error


def _needs_copy(segment: Segment, position: int) -> bool:
    """Whether what is before a position goes to another file; a cut of the active segment is one in place."""
    return segment.is_sealed and position < segment.size


def _version(log: Log) -> tuple[int, int, int]:
    return log.generation, log.retirements, log.log_start_offset


def _plan_rebuild(log: Log, end: int, now_ms: int) -> RebuildPlan:
    return RebuildPlan(
        log.segments, log.state_files, log_start_offset=min(log.log_start_offset, end), end_offset=end, now_ms=now_ms
    )


def truncate_to(log: Log, offset: int, now_ms: int, plan: CutPlan | None = None) -> bool:
    """Cut off everything from the batch that holds the offset on; False if there is nothing to cut.

    What a plan has not prepared for the log as it is now is done on the spot.
    """
    if offset >= log.log_end_offset:
        # An epoch may have begun at the end without a batch, and the leader knows nothing of it.
        log.epochs.truncate_from_end(offset)
        return False
    if offset < log.segments.first.base_offset:
        truncate_fully(log, offset)
        return True
    log.check_usable()
    finish_swap(log)
    try:
        last = log.segments.holding(offset)
        position, end = _cut_at(log, last, offset)
        if plan is not None and not plan.fits(last, position):
            plan = None
        # Whatever happens from here on, nobody reads what is to go.
        log.generation += 1
        log.log_end_offset = end
        log.log_start_offset = min(log.log_start_offset, end)
        log.recovery_point = min(log.recovery_point, end)
        log.epochs.truncate_from_end(end)
        log.update_high_watermark(log.high_watermark)
        # The last first, so that no hole is left if it ends in the middle.
        retire(log, reversed([segment for segment in log.segments if segment.base_offset > last.base_offset]))
        log.state_files.delete_snapshots(above=end)
        log.disk.fsync_dir(log.directory)
        _truncate_segment(log, last, position, end, is_copied=plan is not None)
        if log.producers.changed_end_offset <= end:
            log.producers.map_end_offset = end
        elif plan is not None and plan.producers is not None:
            log.producers = plan.producers
        else:
            log.producers = _plan_rebuild(log, end, now_ms).run()
        log.update_high_watermark(log.high_watermark)
    except OSError as error:
        raise log.failure("truncate", error) from error
    return True


def truncate_fully(log: Log, offset: int) -> None:
    """Throw everything away and go on at an offset, as a follower does that fell behind its leader's start."""
    log.check_usable()
    finish_swap(log)
    try:
        log.generation += 1
        log.log_start_offset = log.log_end_offset = offset
        log.recovery_point = min(log.recovery_point, offset)
        log.producers.truncate_fully(offset)
        log.update_high_watermark(offset)
        old = list(log.segments)
        for segment in reversed(old):
            segment.rename_deleted(log.retirements)
        log.state_files.delete_snapshots(above=-1)
        # No batch will tell that the file is out of date.
        log.epochs.clear()
        log.write_epochs()
        log.disk.fsync_dir(log.directory)
        fresh = Segment.create(log.disk, log.directory, offset, log.config)
        log.exchange(old, [fresh])
    except OSError as error:
        raise log.failure("truncate", error) from error


def earlier_start(log: Log, records: Buffer) -> int | None:
    """Where an empty log has to begin to take what its leader sent; None if it can as it is.

    The leader's log may start within a batch, and batches are sent whole.  So the log has to be thrown away and begun
    with the batch; once that is written, its start offset can be the leader's.
    """
    if log.log_start_offset < log.log_end_offset:
        return None
    batches, _ = read_whole_batches(records)
    if batches and batches[0].base_offset < log.log_end_offset <= batches[0].last_offset:
        return batches[0].base_offset
    return None


def advance_log_start(log: Log, offset: int) -> None:
    """Records below the offset are gone for readers; segments that hold no others wait to be retired."""
    if offset <= log.log_start_offset:
        return
    log.check_usable()
    log.log_start_offset = min(offset, log.log_end_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    log.producers.on_log_start_offset(log.log_start_offset)
    log.update_high_watermark(max(log.high_watermark, log.log_start_offset))


def retire_below_log_start(log: Log, count_max: int | None = None) -> list[Segment]:
    """Retire the segments that hold nothing from the log start offset on, or the first of them.

    They have to vanish from the disk in this order as well.  If power is cut while the first is still there and the
    second is not, recovery finds a gap, and a gap looks like batches that were lost: it would end the log there.
    So there is a sync before each; whoever must not wait for it sees to it before (`Log.unsynced_retirements`), and
    takes one segment at a time.
    """
    expired: list[Segment] = []
    for segment in log.segments if log.swap is None else ():
        if not _is_below_log_start(log, segment) or len(expired) == count_max:
            break
        expired.append(segment)
    if not expired:
        return []
    log.check_usable()
    try:
        for segment in expired:
            log.sync_retirements()
            retire(log, [segment])
        log.state_files.delete_snapshots(below=log.segments.first.base_offset)
    except OSError as error:
        raise log.failure("delete segments", error) from error
    return expired


def is_retirement_due(log: Log) -> bool:
    """Whether there is anything for `retire_below_log_start` to do."""
    return log.swap is None and _is_below_log_start(log, log.segments.first)


def _is_below_log_start(log: Log, segment: Segment) -> bool:
    next_base = log.segments.next_base(segment)
    return next_base is not None and next_base <= log.log_start_offset


def retire(log: Log, segments: Iterable[Segment]) -> None:
    """Take segments out of the log; their files are renamed and stay until they are unlinked."""
    going = list(segments)
    for segment in going:
        segment.rename_deleted(log.retirements)
    if going:
        log.exchange(going, ())


def finish_swap(log: Log) -> None:
    """Compaction may be about to exchange segments: have that behind us, though it means waiting for the disk."""
    if log.swap is not None:
        log.swap.complete()


def _cut_at(log: Log, segment: Segment, offset: int) -> tuple[int, int]:
    """Where the batch with the offset begins, and the log end offset without it."""
    segment.load_indexes()
    for batch in segment.batches(segment.position_before(offset)):
        if batch.last_offset >= offset:
            return batch.position, min(offset, batch.base_offset)
    return segment.size, min(offset, log.log_end_offset)


def _truncate_segment(log: Log, segment: Segment, position: int, end: int, *, is_copied: bool) -> None:
    """Cut a segment and make it the active one."""
    if _needs_copy(segment, position):
        if not is_copied:
            _copy_prefix(log.disk, segment.section(), position)
        segment = _shortened_copy(log, segment, position)
    segment.truncate(position, end)
    try:
        segment.txn_index.sanity_check()
        segment.txn_index.truncate_to(end)
    except BadFile:
        restore_txn_index(log.segments, segment, log.state_files)


def _shortened_copy(log: Log, segment: Segment, size: int) -> Segment:
    """A new segment of the first `size` bytes of a sealed one, which have been copied, in its place."""
    path = segment.log_path
    log.disk.rename(path + TMP_SUFFIX, path)
    log.disk.fsync_dir(log.directory)
    copy = Segment(log.disk, log.directory, segment.base_offset, log.config, size=size)
    log.segments.replace([segment], [copy])
    # Its name is the copy's now: only the open file of the old one is still to be let go.
    log.retired.append(segment)
    return copy


def _copy_prefix(disk: Disk, section: Section, size: int) -> None:
    copy = disk.open(section.path + TMP_SUFFIX, create=True)
    try:
        copy.truncate(0)
        for position in range(0, size, _COPY_BYTES):
            wanted = min(_COPY_BYTES, size - position)
            data = section.file.read(position, wanted)
            if len(data) < wanted:
                raise CorruptLog(section.path, position + len(data), f"ends before its size of {section.limit}")
            copy.append((data,))
        copy.sync()
    finally:
        copy.close()
