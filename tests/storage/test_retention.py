"""What is deleted from the start of a log, and what is not."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import OffsetOutOfRangeError, PolicyViolationError
from minikafka.storage.config import LogConfig
from minikafka.storage.errors import StorageError
from minikafka.storage.log import Log
from minikafka.storage.retention import apply_retention, delete_records, expire, expired_by_size, expired_by_time
from minikafka.storage.trimming import retire_below_log_start
from tests.sim.memory_disk import MemoryDisk
from tests.storage.compacting import COMPACTED, compact, put
from tests.storage.logs import NOW_MS, SMALL, append, contents, open_log

DIRECTORY = "t-0"
HOUR_MS = 3_600_000
CONFIG = SMALL._replace(segment_bytes=200, retention_ms=HOUR_MS)


def filled(config: LogConfig = CONFIG, count: int = 10, *, disk: MemoryDisk | None = None, step_ms: int = 0) -> Log:
    """A segment for each record, replicated; record n is of the nth step."""
    log = open_log(disk or MemoryDisk(), DIRECTORY, config)
    for number in range(count):
        append(log, bytes(100), timestamp_ms=NOW_MS + number * step_ms)
    log.update_high_watermark(log.log_end_offset)
    assert len(log.segments) == count
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_by_time_segment_by_segment() -> None:
    log = filled(step_ms=1000)
    assert apply_retention(log, NOW_MS + HOUR_MS) == []
    assert expired_by_time(log, NOW_MS + HOUR_MS) is None
    # The third record is exactly as old as a record may be.
    assert expired_by_time(log, NOW_MS + HOUR_MS + 2000) == 2
    retired = apply_retention(log, NOW_MS + HOUR_MS + 2000)
    assert [segment.base_offset for segment in retired] == [0, 1]
    assert log.log_start_offset == 2
    assert bases(log) == [*range(2, 10)]
    assert log.retired == retired


def test_the_largest_timestamp_of_a_segment_counts() -> None:
    log = open_log(MemoryDisk(), DIRECTORY, CONFIG._replace(segment_bytes=400))
    for timestamp_ms in (NOW_MS, NOW_MS + HOUR_MS, NOW_MS, NOW_MS, NOW_MS):
        append(log, bytes(100), timestamp_ms=timestamp_ms)
    log.update_high_watermark(log.log_end_offset)
    assert bases(log) == [0, 2, 4]
    assert apply_retention(log, NOW_MS + HOUR_MS + 1) == []
    assert len(apply_retention(log, NOW_MS + 2 * HOUR_MS + 1)) == 3


def test_a_timestamp_in_the_future_pins_the_log_until_then() -> None:
    log = open_log(MemoryDisk(), DIRECTORY, CONFIG)
    for timestamp_ms in (NOW_MS, NOW_MS + 10 * HOUR_MS, NOW_MS):
        append(log, bytes(100), timestamp_ms=timestamp_ms)
    log.update_high_watermark(log.log_end_offset)
    assert [segment.base_offset for segment in apply_retention(log, NOW_MS + 3 * HOUR_MS)] == [0]
    assert apply_retention(log, NOW_MS + 11 * HOUR_MS) == []
    assert len(apply_retention(log, NOW_MS + 11 * HOUR_MS + 1)) == 2


def test_records_without_a_timestamp_are_as_old_as_their_file() -> None:
    disk = MemoryDisk()
    disk.now_ms = NOW_MS
    log = open_log(disk, DIRECTORY, CONFIG)
    for _ in range(3):
        append(log, bytes(100), timestamp_ms=-1)
        disk.now_ms += 1000
    log.update_high_watermark(log.log_end_offset)
    assert apply_retention(log, NOW_MS + HOUR_MS) == []
    assert [segment.base_offset for segment in apply_retention(log, NOW_MS + HOUR_MS + 1001)] == [0, 1]


def test_all_of_a_log_expires() -> None:
    log = filled()
    retired = apply_retention(log, NOW_MS + HOUR_MS + 1)
    assert len(retired) == 10
    assert bases(log) == [10]
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (10, 10, 0)
    append(log, b"next")
    assert contents(log) == [(10, b"next")]
    # An empty log stays as it is.
    empty = open_log(MemoryDisk(), DIRECTORY, CONFIG._replace(retention_bytes=0))
    assert apply_retention(empty, NOW_MS + 10 * HOUR_MS) == []


def test_nothing_above_the_high_watermark_expires() -> None:
    log = filled()
    log.high_watermark = 4
    assert [segment.base_offset for segment in apply_retention(log, NOW_MS + 2 * HOUR_MS)] == [0, 1, 2, 3]
    log = filled(CONFIG._replace(retention_bytes=0))
    log.high_watermark = 9
    assert len(apply_retention(log, NOW_MS)) == 9
    assert bases(log) == [9]


def test_by_size() -> None:
    log = filled()
    one = log.segments.first.size

    def kept(retention_bytes: int) -> int | None:
        log.reconfigure(CONFIG._replace(retention_bytes=retention_bytes))
        return expired_by_size(log)

    assert kept(-1) is None
    assert kept(11 * one) is None
    assert kept(10 * one) is None
    assert kept(9 * one + 1) is None
    assert kept(9 * one) == 1
    assert kept(one) == 9
    assert kept(one - 1) == 9
    assert kept(0) == 10
    log.reconfigure(CONFIG._replace(retention_bytes=2 * one))
    apply_retention(log, NOW_MS)
    assert bases(log) == [8, 9]


def test_what_goes_by_size_does_not_hold_up_what_goes_by_time() -> None:
    log = open_log(MemoryDisk(), DIRECTORY, CONFIG)
    for timestamp_ms in (NOW_MS + 10 * HOUR_MS, NOW_MS, NOW_MS, NOW_MS + 10 * HOUR_MS):
        append(log, bytes(100), timestamp_ms=timestamp_ms)
    log.update_high_watermark(log.log_end_offset)
    log.reconfigure(CONFIG._replace(retention_bytes=3 * log.segments.first.size))
    apply_retention(log, NOW_MS + 2 * HOUR_MS)
    assert bases(log) == [3]


def test_without_limits_nothing_expires() -> None:
    log = filled(CONFIG._replace(retention_ms=-1))
    assert apply_retention(log, NOW_MS + 10**12) == []


def test_a_compacted_log_loses_only_what_is_below_its_start() -> None:
    disk = MemoryDisk()
    filled(disk=disk).close()
    compacted = CONFIG._replace(cleanup_delete=False, cleanup_compact=True, retention_bytes=0)
    log = open_log(disk, DIRECTORY, compacted, is_clean=True, recovery_point=10, log_start_offset=4)
    log.update_high_watermark(10)
    assert [segment.base_offset for segment in apply_retention(log, NOW_MS + 2 * HOUR_MS)] == [0, 1, 2, 3]
    assert apply_retention(log, NOW_MS + 2 * HOUR_MS) == []


def test_what_compaction_emptied_does_not_hold_up_the_rest() -> None:
    disk = MemoryDisk()
    disk.now_ms = NOW_MS + 10 * HOUR_MS
    config = COMPACTED._replace(cleanup_delete=True, segment_bytes=200, retention_ms=HOUR_MS)
    log = open_log(disk, DIRECTORY, config)
    for _ in range(6):
        put(log, (b"k", bytes(100)))
    compact(log)
    assert [segment.size > 0 for segment in log.segments] == [False] * 4 + [True] * 2
    assert len(apply_retention(log, NOW_MS + 2 * HOUR_MS)) == 6


def test_a_start_at_the_end_leaves_a_segment_until_it_expires() -> None:
    log = filled(count=1)
    assert delete_records(log, 1) == 1
    assert bases(log) == [0]
    assert apply_retention(log, NOW_MS) == []
    assert len(apply_retention(log, NOW_MS + HOUR_MS + 1)) == 1
    assert bases(log) == [1]


def test_snapshots_go_with_their_segments() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    apply_retention(log, NOW_MS + HOUR_MS + 1)
    assert [name for name in disk.list(DIRECTORY) if name.endswith(".snapshot")] == ["00000000000000000010.snapshot"]


def test_delete_records() -> None:
    log = filled()
    log.high_watermark = 8
    assert delete_records(log, 3) == 3
    # Segments go with the next round of retention, whatever the policy.
    assert bases(log)[0] == 0
    assert [segment.base_offset for segment in apply_retention(log, NOW_MS)] == [0, 1, 2]
    assert delete_records(log, 1) == 3
    for offset in (-2, 9):
        with pytest.raises(OffsetOutOfRangeError):
            delete_records(log, offset)
    assert delete_records(log, -1) == 8
    assert contents(log)[0][0] == 8


def test_a_little_at_a_time() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    log.update_high_watermark(log.log_end_offset)
    now_ms, starts = NOW_MS + 2 * HOUR_MS, []
    while expire(log, now_ms, count_max=3):
        starts.append(log.log_start_offset)
        while (number := log.unsynced_retirements) or retire_below_log_start(log, 1):
            # Somebody else waits for the disk.
            if number:
                disk.fsync_dir(log.directory)
                log.retirements_synced(number)
    assert starts == [3, 6, 9, 10]
    assert bases(log) == [10] and len(log.retired) == 10


def test_nothing_waits_for_the_disk_if_somebody_else_does() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    log.update_high_watermark(log.log_end_offset)
    expire(log, NOW_MS + 2 * HOUR_MS)
    before = len(disk.ops)
    while retire_below_log_start(log, 1):
        log.retirements_synced(log.unsynced_retirements)
    assert not [op for op in disk.ops[before:] if op.kind in ("sync", "flush", "fsync_dir")]


def test_records_of_a_compacted_topic_are_not_deleted() -> None:
    log = filled(CONFIG._replace(cleanup_delete=False, cleanup_compact=True))
    with pytest.raises(PolicyViolationError):
        delete_records(log, 1)
    log.reconfigure(CONFIG._replace(cleanup_compact=True))
    assert delete_records(log, 1) == 1


def test_a_disk_that_fails() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    disk.fail(lambda op: op.kind == "rename")
    for _ in range(2):
        with pytest.raises(StorageError):
            apply_retention(log, NOW_MS + HOUR_MS + 1)
