"""What may be deleted from the start of a log, by Kafka's rules.

Segments go whole, the oldest first, up to the first that has to stay; nothing at or above the high watermark goes,
since a follower may not have it yet. The active segment may go too: it is rolled first, so that the log is empty then
and goes on at the same offset.

- By time: a segment goes when its largest timestamp is more than `retention.ms` ago. One record with a timestamp in
  the future keeps its segment and all after it until then, as in Kafka: whoever lets producers set timestamps limits
  them with `message.timestamp.after.max.ms`. Without any timestamp, the time of the last write counts.
- By size: as long as the log without the segment has at least `retention.bytes`.
- By offset, whatever the policy: segments below the log start offset.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from minikafka.protocol.errors import OffsetOutOfRangeError, PolicyViolationError
from minikafka.storage.disk import Disk
from minikafka.storage.formats import LOG_SUFFIX
from minikafka.storage.log import Log
from minikafka.storage.segment import Segment
from minikafka.storage.trimming import advance_log_start, retire_below_log_start

_TO_HIGH_WATERMARK = -1


def apply_retention(log: Log, now_ms: int) -> list[Segment]:
    """Retire what has expired; what was retired."""
    log.check_usable()
    expire(log, now_ms)
    return retire_below_log_start(log)


def expire(log: Log, now_ms: int, count_max: int | None = None) -> bool:
    """Move the log start offset to where the policies say, or as many segments towards it; whether it was moved.

    Nothing waits for the disk here; the segments are left to `retire_below_log_start`.
    """
    log.check_usable()
    before = log.log_start_offset
    if log.config.cleanup_delete and log.swap is None:
        _expire(log, expired_by_size(log, count_max))
        _expire(log, expired_by_time(log, now_ms, count_max))
    return log.log_start_offset > before


def expired_by_time(log: Log, now_ms: int, count_max: int | None = None) -> int | None:
    """The log start offset that `retention.ms` leads to; None if nothing expires."""
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return None

    def is_expired(segment: Segment) -> bool:
        # What compaction left empty holds nothing that could be young, only a file that is.
        return segment.size == 0 or now_ms - largest_timestamp_ms(log.disk, segment) > retention_ms

    return _end_of_expired(log, is_expired, count_max)


def expired_by_size(log: Log, count_max: int | None = None) -> int | None:
    """The log start offset that `retention.bytes` leads to; None if nothing expires."""
    spare_bytes = log.size_bytes - log.config.retention_bytes
    if log.config.retention_bytes < 0 or spare_bytes < 0:
        return None

    def is_expired(segment: Segment) -> bool:
        nonlocal spare_bytes
        spare_bytes -= segment.size
        return spare_bytes >= 0

    return _end_of_expired(log, is_expired, count_max)


def largest_timestamp_ms(disk: Disk, segment: Segment) -> int:
    """The largest timestamp of a segment's records; the time of the last write if they have none."""
    timestamp = segment.largest.timestamp
    return timestamp if timestamp >= 0 else disk.mtime_ms(segment.path(LOG_SUFFIX))


def delete_records(log: Log, offset: int) -> int:
    """Move the log start offset up to an offset, -1 for the high watermark; the log start offset then."""
    if not log.config.cleanup_delete:
        raise PolicyViolationError(f"{log.directory}: records are not deleted but compacted")
    if offset == _TO_HIGH_WATERMARK:
        offset = log.high_watermark
    if not 0 <= offset <= log.high_watermark:
        raise OffsetOutOfRangeError(f"cannot delete up to {offset}, the high watermark is {log.high_watermark}")
    advance_log_start(log, offset)
    return log.log_start_offset


def _end_of_expired(log: Log, is_expired: Callable[[Segment], bool], count_max: int | None) -> int | None:
    """The offset after the last of the oldest segments that may go."""
    found = None
    try:
        for segment in islice(log.segments, count_max):
            next_base = log.segments.next_base(segment)
            end = log.log_end_offset if next_base is None else next_base
            is_deleted = next_base is not None and next_base <= log.log_start_offset
            if log.high_watermark < end or not (is_expired(segment) or is_deleted):
                break
            found = end
    except OSError as error:
        raise log.failure("look at segments", error) from error
    return found


def _expire(log: Log, offset: int | None) -> None:
    if offset is None:
        return
    if offset == log.log_end_offset:
        log.roll()
    advance_log_start(log, offset)
