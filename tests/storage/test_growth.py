"""What a lookup costs as a log grows: bytes that are read and files that are opened, counted, at n, 2n and 4n."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.protocol.records.control import ControlType
from minikafka.storage.config import LogConfig
from minikafka.storage.formats import TXN_ENTRY
from minikafka.storage.log import Log
from tests.sim.memory_disk import MemoryDisk
from tests.storage.logs import NOW_MS, append, append_in_txn, end_txn, open_log

DIRECTORY = "t-0"
LARGE = LogConfig(segment_index_bytes=1 << 14)
SIZES = (100, 200, 400)


def work_of(disk: MemoryDisk, act: Callable[[], object]) -> tuple[int, int]:
    """How many bytes an act reads, and how many files it opens."""
    before = disk.op_count
    disk.ops.clear()
    act()
    assert disk.op_count >= before
    return sum(op.size for op in disk.ops if op.kind == "read"), sum(op.kind == "open" for op in disk.ops)


def reopened(disk: MemoryDisk, log: Log, config: LogConfig) -> Log:
    """After a clean stop, when nothing of the log is in memory."""
    log.close()
    disk.process_died()
    again = open_log(disk, DIRECTORY, config, is_clean=True, recovery_point=log.log_end_offset)
    again.update_high_watermark(log.log_end_offset)
    return again


def test_time_index_without_entries_is_believed_of_records_without_timestamps() -> None:
    costs = []
    for count in SIZES:
        disk = MemoryDisk()
        log = open_log(disk, DIRECTORY, LARGE)
        for _ in range(count):
            append(log, bytes(1000), timestamp_ms=-1)
        log.roll()
        log = reopened(disk, log, LARGE)
        costs.append(work_of(disk, lambda log=log: log.plan_timestamp(NOW_MS)))  # type: ignore[misc]
        assert log.segments.first.largest.timestamp == -1
    assert len(set(costs)) == 1 and costs[0][0] < 20_000


def test_time_index_that_has_lost_its_entries_is_rebuilt() -> None:
    for lost in ("emptied", "gone"):
        disk = MemoryDisk()
        log = open_log(disk, DIRECTORY, LARGE)
        for number in range(50):
            append(log, bytes(1000), timestamp_ms=NOW_MS + number)
        log.roll()
        path = log.segments.first.path(".timeindex")
        log.close()
        if lost == "emptied":
            disk.open(path).truncate(0)
        else:
            disk.unlink(path)
        log = reopened(disk, log, LARGE)
        assert log.segments.first.largest.timestamp == NOW_MS + 49


def test_lookup_by_time_touches_no_segment_behind_the_answer() -> None:
    config = LogConfig(segment_bytes=2000)
    costs = []
    for count in SIZES:
        disk = MemoryDisk()
        log = open_log(disk, DIRECTORY, config)
        for number in range(count):
            append(log, bytes(900), timestamp_ms=NOW_MS + number)
        log = reopened(disk, log, config)
        costs.append(work_of(disk, lambda log=log: log.plan_timestamp(NOW_MS)))  # type: ignore[misc]
    assert len(set(costs)) == 1


def test_aborted_transactions_are_read_up_to_the_offset_that_was_asked_for() -> None:
    costs = []
    for count in (300, 600, 1200):
        disk = MemoryDisk()
        log = open_log(disk, DIRECTORY, LARGE)
        for number in range(count):
            append_in_txn(log, 7, number, b"x")
            end_txn(log, 7, ControlType.ABORT)
        log.update_high_watermark(log.log_end_offset)
        log.aborted_transactions(0, 1)
        costs.append(work_of(disk, lambda log=log: log.aborted_transactions(0, 10))[0])  # type: ignore[misc]
        assert len(log.aborted_transactions(0, 10)) == 5
    # The bisection takes one more entry each time.
    assert costs[2] - costs[1] == costs[1] - costs[0] == TXN_ENTRY.size
