"""Keeping the last record of every key: what the loop does of it.

The log up to the first dirty offset has been cleaned before; from there to the first uncleanable segment it can be
cleaned now. Uncleanable are the active segment, segments at or above the last stable offset, and those with a record
younger than `min.compaction.lag.ms`. A log is due when the dirty part is more than `min.cleanable.dirty.ratio` of what
there is to read, or has waited for longer than `max.compaction.lag.ms`.

`measure_dirt` tells how dirty a log is, `plan_compaction` what to do, `cleaning.clean` does it somewhere else, and
`Compaction` puts what comes of it in place (`swapping`). Readers keep the old files, so `Log.generation` stays as it
is.

Whoever keeps the logs keeps the first dirty offset of each in `cleaner-offset-checkpoint`, and runs one compaction of a
log at a time.
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.storage.batch_filter import LastBatch
from minikafka.storage.cleaned_segment import discard_cleaned
from minikafka.storage.cleaning import CleanedGroup, CompactionPlan, SegmentSpan
from minikafka.storage.log import Log
from minikafka.storage.offset_map import KEYS_MAX
from minikafka.storage.retention import largest_timestamp_ms
from minikafka.storage.segment import Segment
from minikafka.storage.swapping import Swap


class Dirt(NamedTuple):
    """How much of a log waits to be cleaned."""

    first_dirty_offset: int
    end_offset: int
    """The base offset of the first segment that cannot be cleaned yet."""
    clean_bytes: int
    dirty_bytes: int
    is_due: bool

    @property
    def ratio(self) -> float:
        """Of two logs, the one with the larger ratio is more worth cleaning."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def measure_dirt(log: Log, first_dirty_offset: int | None, now_ms: int) -> Dirt:
    """How dirty a log is from an offset on, None if it was never cleaned; an impossible one is replaced."""
    if first_dirty_offset is None or not log.log_start_offset <= first_dirty_offset <= log.log_end_offset:
        first_dirty_offset = log.log_start_offset
    try:
        end_offset = log.segments.holding(_uncleanable_offset(log, first_dirty_offset, now_ms)).base_offset
        is_overdue = _is_overdue(log, first_dirty_offset, now_ms)
    except OSError as error:
        raise log.failure("look at segments", error) from error
    clean_bytes = sum(segment.size for segment in log.segments if segment.base_offset < first_dirty_offset)
    dirty = log.segments.from_offset(first_dirty_offset)
    dirty_bytes = sum(segment.size for segment in dirty if segment.base_offset < end_offset)
    found = Dirt(first_dirty_offset, end_offset, clean_bytes, dirty_bytes, False)
    is_dirty_enough = found.ratio > log.config.min_cleanable_dirty_ratio
    return found._replace(is_due=dirty_bytes > 0 and (is_overdue or is_dirty_enough))


def _uncleanable_offset(log: Log, first_dirty_offset: int, now_ms: int) -> int:
    """The first offset that cannot be cleaned, somewhere in its segment."""
    bound = min(log.last_stable_offset, log.segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in log.segments.from_offset(first_dirty_offset):
            if segment.base_offset >= bound:
                break
            if largest_timestamp_ms(log.disk, segment) > now_ms - lag_ms:
                bound = segment.base_offset
                break
    return max(first_dirty_offset, bound)


def _is_overdue(log: Log, first_dirty_offset: int, now_ms: int) -> bool:
    clean_until_ms = now_ms - max(log.config.max_compaction_lag_ms, 0)
    if clean_until_ms <= 0:
        return False
    dirty = [segment for segment in log.segments.from_offset(first_dirty_offset) if segment.is_sealed]
    return any(0 < segment.first_timestamp < clean_until_ms for segment in dirty)


def plan_compaction(log: Log, dirt: Dirt, now_ms: int, keys_max: int = KEYS_MAX) -> CompactionPlan | None:
    """What has to be done to clean what is dirty; None if that is nothing."""
    if not dirt.dirty_bytes:
        return None
    old = [segment for segment in log.segments if segment.base_offset < dirt.end_offset]
    ends = [*(segment.base_offset for segment in old[1:]), dirt.end_offset]
    return CompactionPlan(
        directory=log.directory,
        config=log.config,
        generation=log.generation,
        segments=tuple(
            SegmentSpan(segment.base_offset, end, segment.size) for segment, end in zip(old, ends, strict=True)
        ),
        first_dirty_offset=dirt.first_dirty_offset,
        end_offset=dirt.end_offset,
        aborted=tuple(log.aborted_transactions(old[0].base_offset, dirt.end_offset)),
        last_batches={
            entry.producer_id: LastBatch(entry.last_offset, entry.producer_epoch) for entry in log.producers.snapshot()
        },
        now_ms=now_ms,
        keys_max=keys_max,
    )


class Compaction:
    """Puts the groups of one plan in place, in the order in which they come; none after one that did not fit."""

    def __init__(self, log: Log, plan: CompactionPlan) -> None:
        self._log = log
        self._plan = plan
        self.is_outdated = False

    def begin(self, group: CleanedGroup) -> Swap | None:
        """Use a cleaned group, in steps; None if the log has changed, and then for all groups that follow."""
        self._log.check_usable()
        old = None if self.is_outdated else self._unchanged(group)
        if old is not None:
            return Swap(self._log, old, group.new.base_offset, group.new.size)
        self.is_outdated = True
        try:
            discard_cleaned(self._log.disk, self._log.directory)
        except OSError as error:
            raise self._log.failure("compact", error) from error
        return None

    def apply(self, group: CleanedGroup) -> bool:
        """The same on the spot; False if the log has changed."""
        swap = self.begin(group)
        if swap is not None:
            swap.complete()
        return swap is not None

    def _unchanged(self, group: CleanedGroup) -> list[Segment] | None:
        """The segments that the group was made from, if they are all there still."""
        sealed = {segment.base_offset: segment for segment in self._log.segments if segment.is_sealed}
        found = [sealed.get(span.base_offset) for span in group.old]
        old = [segment for segment in found if segment is not None]
        is_same = [segment.size for segment in old] == [span.size for span in group.old]
        return old if is_same and self._log.generation == self._plan.generation else None
