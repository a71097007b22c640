"""The last five batches of a producer are known whatever its log went through, though a snapshot has only one."""

from __future__ import annotations

import pytest

from minikafka.storage import recall
from minikafka.storage.config import LogConfig
from minikafka.storage.log import Log
from minikafka.storage.producers import BATCHES_KEPT
from minikafka.storage.trimming import truncate_to
from tests.sim.memory_disk import MemoryDisk
from tests.storage.logs import NOW_MS, SMALL, append, batch_of, flush, open_log

PID, OTHER = 7, 8
ROOMY = LogConfig(index_interval_bytes=150)


def send(log: Log, sequence: int, producer_id: int = PID, epoch: int = 0, timestamp_ms: int = NOW_MS) -> None:
    batch = batch_of(
        b"value",
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        timestamp_ms=timestamp_ms,
    )
    log.append_as_leader(batch, 0, NOW_MS)


def known(log: Log, producer_id: int = PID) -> list[int]:
    """The sequence numbers of the batches that are remembered."""
    producer = log.producers.get(producer_id)
    assert producer is not None
    return [each.last_sequence for each in producer.batches]


def written(config: LogConfig = SMALL, count: int = 40) -> tuple[MemoryDisk, Log]:
    """A log in which two producers take turns."""
    disk = MemoryDisk()
    log = open_log(disk, "/t-0", config)
    for sequence in range(count):
        send(log, sequence)
        send(log, sequence, OTHER)
    return disk, log


def stopped(disk: MemoryDisk, log: Log, config: LogConfig = SMALL) -> Log:
    """The same log after a clean stop."""
    flush(log)
    log.close()
    return open_log(disk, "/t-0", config, is_clean=True, recovery_point=log.log_end_offset)


@pytest.mark.parametrize("config", [SMALL, ROOMY], ids=["many segments", "one segment"])
def test_after_a_clean_stop(config: LogConfig) -> None:
    disk, log = written(config)
    again = stopped(disk, log, config)
    assert known(again) == known(log) == list(range(35, 40))
    assert known(again, OTHER) == known(log, OTHER)
    assert again.producers.get(PID).batches == log.producers.get(PID).batches  # type: ignore[union-attr]


def test_after_a_crash_right_after_a_roll() -> None:
    disk, log = written()
    flush(log)
    point = log.segments.active.base_offset
    again = open_log(disk, "/t-0", recovery_point=point)
    assert len(list(log.segments)) > 3
    assert known(again) == list(range(35, 40))


@pytest.mark.parametrize("end", range(62, 80))
def test_after_a_cut_anywhere(end: int) -> None:
    _, log = written()
    assert truncate_to(log, end, NOW_MS)
    # Each has every other offset.
    last = (end - 1) // 2
    assert known(log) == list(range(last - BATCHES_KEPT + 1, last + 1))


def test_what_was_written_in_another_epoch_does_not_count() -> None:
    disk = MemoryDisk()
    log = open_log(disk, "/t-0")
    for sequence in range(3):
        send(log, sequence)
    for sequence in range(2):
        send(log, sequence, epoch=1)
    assert known(stopped(disk, log)) == [0, 1]


def test_nothing_is_read_for_producers_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    log = open_log(disk, "/t-0")
    for sequence in range(5):
        send(log, sequence, timestamp_ms=NOW_MS - recall.RECENT_MS - 1)
    with monkeypatch.context() as patch:
        patch.setattr(recall, "_tail_sections", None)
        assert known(stopped(disk, log)) == [4]


def test_what_is_far_away_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "TAIL_BYTES", 2_000)
    disk = MemoryDisk()
    log = open_log(disk, "/t-0", ROOMY)
    send(log, 0)
    for _ in range(100):
        append(log, b"of nobody")
    send(log, 1)
    send(log, 2)
    assert known(stopped(disk, log, ROOMY)) == [1, 2]
    monkeypatch.setattr(recall, "TAIL_BYTES", 1 << 20)
    assert known(stopped(disk, open_log(disk, "/t-0", ROOMY), ROOMY)) == [0, 1, 2]


def test_old_records_of_producers_that_are_at_work_count() -> None:
    disk = MemoryDisk()
    disk.now_ms = NOW_MS
    log = open_log(disk, "/t-0")
    for sequence in range(5):
        send(log, sequence, timestamp_ms=NOW_MS - 100 * recall.RECENT_MS)
    assert known(stopped(disk, log)) == list(range(5))
