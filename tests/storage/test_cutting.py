"""A log is cut with what takes long prepared by a thread, and what that costs the loop as the log grows."""

from __future__ import annotations

import pytest

from minikafka.storage.config import LogConfig
from minikafka.storage.log import Log
from minikafka.storage.producers import ProducerStates
from minikafka.storage.trimming import CutPlan, advance_log_start, plan_cut, retire_below_log_start, truncate_to
from tests.sim.memory_disk import MemoryDisk
from tests.storage.logs import NOW_MS, append, batch_of, contents, flush, open_log

DIRECTORY = "t-0"
LARGE = LogConfig(segment_index_bytes=1 << 14)
SIZES = (100, 200, 400)


def state_of(producers: ProducerStates) -> object:
    return sorted(producers.snapshot()), producers.first_unstable_offset


def filled(count: int, *, sequenced_from: int | None = 0) -> Log:
    """So many records of 1 KB; from a place on those of a producer."""
    log = open_log(MemoryDisk(), DIRECTORY, LARGE)
    for number in range(count):
        fields = {}
        if sequenced_from is not None and number >= sequenced_from:
            fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number - sequenced_from}
        log.append_as_leader(batch_of(b"%d" % number + bytes(1000), **fields), 0, NOW_MS)  # type: ignore[arg-type]
    flush(log)
    return log


def bytes_moved(log: Log) -> int:
    disk = log.disk
    assert isinstance(disk, MemoryDisk)
    return sum(op.size for op in disk.ops if op.kind in ("read", "append"))


def start_counting(log: Log) -> None:
    disk = log.disk
    assert isinstance(disk, MemoryDisk)
    disk.ops.clear()


@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize("sequenced_from", [None, 0])
def test_prepared_cut_costs_the_loop_the_same_however_large_the_segment(
    sequenced_from: int | None, is_sealed: bool
) -> None:
    costs = []
    for count in SIZES:
        log = filled(count, sequenced_from=sequenced_from)
        if is_sealed:
            log.roll()
            append(log, b"y")
        plan = plan_cut(log, count - 1, NOW_MS)
        assert plan is not None
        plan.run()
        start_counting(log)
        assert truncate_to(log, count - 1, NOW_MS, plan)
        costs.append(bytes_moved(log))
        assert len(contents(log)) == count - 1
    assert max(costs) < 70_000 and max(costs) - min(costs) < 100


def test_cut_behind_the_last_change_of_producers_reads_nothing_again() -> None:
    costs = []
    for count in SIZES:
        log = filled(count, sequenced_from=None)
        start_counting(log)
        truncate_to(log, count - 1, NOW_MS)
        costs.append(bytes_moved(log))
    assert max(costs) < 70_000 and max(costs) - min(costs) < 100


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_state_of_producers_is_that_of_a_log_that_was_never_longer(cut: int) -> None:
    for sequenced_from in (0, 20):
        log, prepared, shorter = (filled(size, sequenced_from=sequenced_from) for size in (40, 40, cut))
        truncate_to(log, cut, NOW_MS)
        truncate_to(prepared, cut, NOW_MS, _run(prepared, cut))
        assert state_of(log.producers) == state_of(prepared.producers) == state_of(shorter.producers)


def _run(log: Log, offset: int) -> CutPlan:
    plan = plan_cut(log, offset, NOW_MS)
    assert plan is not None
    plan.run()
    return plan


@pytest.mark.parametrize("change", ["cut", "start", "roll"])
def test_plan_for_another_log_is_not_used(change: str) -> None:
    log = filled(40)
    plan = plan_cut(log, 30, NOW_MS)
    assert plan is not None
    plan.run()
    if change == "cut":
        truncate_to(log, 35, NOW_MS)
    elif change == "roll":
        log.roll()
    else:
        log.update_high_watermark(20)
        advance_log_start(log, 20)
        retire_below_log_start(log)
    assert not plan.fits(log.segments.active, 0)
    truncate_to(log, 30, NOW_MS, plan)
    producer = log.producers.get(7)
    assert producer is not None and producer.last_sequence == 29
