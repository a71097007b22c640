"""Compaction: which log is next, how far it is clean, and what may go wrong without losing anything."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from minikafka.broker.live_config import LiveConfig
from minikafka.broker.replicas.cleaner import Cleaner
from minikafka.broker.replicas.cleaning_process import ChildRunner, Runner, ThreadRunner
from minikafka.broker.work import LoopWork
from minikafka.storage.cleaning import CleanedGroup, CompactionPlan
from minikafka.storage.disk import Disk, RealDisk
from minikafka.storage.formats import CLEANER_CHECKPOINT, parse_offsets
from minikafka.storage.log import Log
from minikafka.storage.trimming import truncate_to
from tests.broker.config.recorded import config_of
from tests.broker.replicas.dirs import ORDERS, OTHERS, Place, until
from tests.sim.memory_disk import Op
from tests.storage.batches import make_batch
from tests.storage.compacting import COMPACTED, all_records, latest, pairs, put
from tests.storage.dirs import ROOT, read_file, restart
from tests.storage.logs import NOW_MS

CONFIG = COMPACTED._replace(segment_bytes=700)
FAST = {"log.cleaner.backoff.ms": "0"}


class Meddling:
    """A Runner that does something when a group is handed over."""

    def __init__(self, runner: Runner, act: Callable[[int], object]) -> None:
        self._runner = runner
        self._act = act

    async def clean(self, plan: CompactionPlan) -> AsyncGenerator[CleanedGroup, None]:
        number = 0
        async for group in self._runner.clean(plan):
            self._act(number)
            number += 1
            yield group

    async def close(self) -> None:
        await self._runner.close()


class Desk:
    """A directory of compacted logs and a cleaner for them."""

    def __init__(self, work: LoopWork, disk: Disk | None = None, path: str = ROOT) -> None:
        self.place = Place(work, disk, path, CONFIG)
        self.log_dir = self.place.log_dir
        self.orders, self.others = self.place.orders, self.place.others
        self._work = work
        self.runner: Runner = ChildRunner() if isinstance(disk, RealDisk) else ThreadRunner(self.place.disk, work)
        self.cleaner = self.with_runner(self.runner)

    def with_runner(self, runner: Runner) -> Cleaner:
        return Cleaner([self.place.worker], LiveConfig(config_of(FAST)), self.place.clock, self._work, runner)

    def meddle(self, act: Callable[[int], object]) -> None:
        self.cleaner = self.with_runner(Meddling(self.runner, act))

    async def clean_all(self) -> int:
        count = 0
        while await self.cleaner.clean_dirtiest():
            count += 1
        return count


def fill(log: Log, count: int = 60, keys: int = 5) -> dict[bytes | None, bytes]:
    for number in range(count):
        put(log, (b"k%02d" % (number % keys), b"%02d" % number), timestamp_ms=NOW_MS + number)
    return latest(all_records(log))


@pytest.fixture
def desk(work: LoopWork) -> Desk:
    return Desk(work)


# ---------------------------------------------------------------------------------------- on a simulated disk


async def test_a_dirty_log_is_cleaned(desk: Desk) -> None:
    expected = fill(desk.orders)
    size = desk.orders.size_bytes
    assert await desk.clean_all() == 1
    assert latest(all_records(desk.orders)) == expected
    assert desk.orders.size_bytes < size / 2 and len(pairs(desk.orders)) < 25
    assert not await desk.cleaner.clean_dirtiest()


async def test_how_far_a_log_is_clean_is_on_disk(desk: Desk) -> None:
    fill(desk.orders)
    await desk.clean_all()
    clean_to = desk.orders.segments.active.base_offset
    assert parse_offsets(read_file(desk.place.disk, f"{ROOT}/{CLEANER_CHECKPOINT}")) == {ORDERS: clean_to}
    assert restart(desk.place.memory).checkpoints.first_dirty == {ORDERS: clean_to}


async def test_that_records_may_be_missing_is_on_disk_before_any_is(desk: Desk) -> None:
    expected = fill(desk.orders)
    seen: list[dict[tuple[str, int], int]] = []
    path = f"{ROOT}/{CLEANER_CHECKPOINT}"
    desk.meddle(lambda _: seen.append(parse_offsets(read_file(desk.place.disk, path))))
    await desk.clean_all()
    assert {**seen[0]} == {ORDERS: 0}
    assert latest(all_records(desk.orders)) == expected


async def test_the_dirtiest_log_is_next(desk: Desk) -> None:
    fill(desk.orders)
    fill(desk.others)
    await desk.clean_all()
    fill(desk.others, 40)
    fill(desk.orders, 80)
    cleaned: list[str] = []
    cleaner = desk.with_runner(Meddling(desk.runner, lambda _: None))
    while await cleaner.clean_dirtiest():
        dirty = desk.log_dir.checkpoints.first_dirty
        cleaned += [
            str(name)
            for name, log in desk.log_dir.logs.items()
            if dirty.get(name) == log.segments.active.base_offset and str(name) not in cleaned
        ]
    assert cleaned == [str(ORDERS), str(OTHERS)]


async def test_a_log_that_is_not_dirty_enough_is_left_alone(desk: Desk) -> None:
    fill(desk.orders, 60, keys=60)
    await desk.clean_all()
    before = len(desk.orders.segments)
    fill(desk.orders, 30, keys=30)
    assert await desk.clean_all() == 0
    desk.place.clock.now_ms += 10_000
    desk.orders.reconfigure(CONFIG._replace(max_compaction_lag_ms=5_000))
    assert await desk.clean_all() == 1
    assert len(desk.orders.segments) >= before


async def test_logs_that_are_not_compacted_are_none_of_its_business(desk: Desk) -> None:
    fill(desk.orders)
    desk.orders.reconfigure(CONFIG._replace(cleanup_compact=False, cleanup_delete=True))
    assert await desk.clean_all() == 0


async def test_a_log_that_is_cut_meanwhile_stays_as_it_is(desk: Desk) -> None:
    fill(desk.orders)
    desk.meddle(lambda number: truncate_to(desk.orders, 20, NOW_MS) if number == 1 else None)
    assert await desk.cleaner.clean_dirtiest()
    assert desk.orders.log_end_offset == 20
    assert latest(all_records(desk.orders)) == {b"k%02d" % key: b"%02d" % (15 + key) for key in range(5)}
    assert desk.place.failures == []
    assert not [name for name in desk.place.disk.list(f"{ROOT}/orders-0") if name.endswith((".cleaned", ".swap"))]


async def test_a_log_that_is_cut_between_two_steps(work: LoopWork) -> None:
    desk = Desk(work)
    fill(desk.orders)
    loop = asyncio.get_running_loop()

    def cut() -> None:
        if desk.orders.log_end_offset > 20:
            truncate_to(desk.orders, 20, NOW_MS)

    def at_sync(_: object) -> bool:
        loop.call_soon_threadsafe(cut)
        return False

    desk.meddle(
        lambda _: desk.place.memory.fail(lambda op: op.kind == "fsync_dir" and "orders-0" in op.path and at_sync(op))
    )
    assert await desk.cleaner.clean_dirtiest()
    assert desk.orders.swap is None and desk.place.failures == []
    assert latest(all_records(desk.orders)) == {b"k%02d" % key: b"%02d" % (15 + key) for key in range(5)}


async def test_log_that_is_cut_after_the_last_step_is_dirty_from_where_it_was(work: LoopWork) -> None:
    desk = Desk(work)
    fill(desk.orders)
    # Everything goes into one segment.
    desk.orders.reconfigure(CONFIG._replace(segment_bytes=1 << 20))
    loop = asyncio.get_running_loop()

    def cut() -> None:
        if desk.orders.swap is None and desk.orders.generation == 0:
            truncate_to(desk.orders, 20, NOW_MS)
            # The new leader's records are there at once.
            fill(desk.orders, 30)

    def at_sync(op: Op) -> bool:
        if op.kind == "fsync_dir" and "orders-0" in op.path:
            loop.call_soon_threadsafe(cut)
        return False

    desk.meddle(lambda _: desk.place.memory.fail(at_sync))
    assert await desk.cleaner.clean_dirtiest()
    assert desk.orders.generation == 1 and desk.orders.log_end_offset == 50
    assert desk.log_dir.checkpoints.first_dirty[ORDERS] <= 20


async def test_a_partition_that_is_deleted_meanwhile(desk: Desk) -> None:
    fill(desk.orders)
    expected = fill(desk.others, 50)
    gone: list[asyncio.Future[None]] = []

    def delete(number: int) -> None:
        if number == 1 and not gone:
            gone.append(desk.place.worker.do(desk.log_dir.delete(ORDERS, NOW_MS)))

    desk.meddle(delete)
    await desk.clean_all()
    await asyncio.gather(*gone)
    assert desk.place.failures == []
    assert latest(all_records(desk.others)) == expected
    assert [*desk.log_dir.checkpoints.first_dirty] == [OTHERS]


async def test_retention_is_told_to_leave_a_log_alone(desk: Desk) -> None:
    fill(desk.orders)
    seen: list[bool] = []
    desk.meddle(lambda _: seen.append(desk.cleaner.is_cleaning(desk.orders)))
    assert await desk.cleaner.clean_dirtiest()
    assert seen and all(seen)
    assert not desk.cleaner.is_cleaning(desk.orders)


# ---------------------------------------------------------------------------------------- trouble


@pytest.mark.parametrize("kind", ["rename", "fsync_dir", "append", "read"])
async def test_a_failing_disk_takes_the_directory_offline(desk: Desk, kind: str) -> None:
    expected = fill(desk.orders)
    desk.meddle(lambda number: desk.place.memory.fail(lambda op: op.kind == kind))
    assert await desk.cleaner.clean_dirtiest()
    assert desk.place.failures == [desk.log_dir]
    assert not await desk.cleaner.clean_dirtiest()
    assert latest(all_records(restart(desk.place.memory).logs[ORDERS])) == expected


async def test_a_full_disk_means_another_time(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    expected = fill(desk.orders)
    desk.place.memory.fail(lambda op: op.kind == "append" and ".cleaned" in op.path, errno.ENOSPC)
    assert await desk.cleaner.clean_dirtiest()
    assert desk.place.failures == [] and "another time" in caplog.text
    assert not await desk.cleaner.clean_dirtiest()
    desk.place.clock.now_ms += 1000
    assert await desk.clean_all() == 1
    assert latest(all_records(desk.orders)) == expected


def spoil(log: Log) -> None:
    """A batch whose CRC is right and whose records are none."""
    log.append_as_follower(bytearray(make_batch(1, base_offset=log.log_end_offset, payload=b"\xff" * 20)), NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    log.roll()


async def test_a_log_that_cannot_be_cleaned_is_set_aside_and_keeps_no_other_waiting(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    fill(desk.orders)
    spoil(desk.orders)
    before = len(desk.orders.segments)
    expected = fill(desk.others, 30)
    assert await desk.clean_all() == 2
    assert desk.cleaner.is_set_aside(desk.orders) and not desk.cleaner.is_set_aside(desk.others)
    assert len(desk.orders.segments) == before
    assert latest(all_records(desk.others)) == expected
    assert "is not cleaned any more" in caplog.text
    desk.place.clock.now_ms += 10**9
    assert await desk.clean_all() == 0


# ---------------------------------------------------------------------------------------- in a child process


@pytest.fixture
async def real(work: LoopWork, tmp_path: Path) -> AsyncGenerator[Desk, None]:
    made = Desk(work, RealDisk(), str(tmp_path))
    yield made
    await made.runner.close()
    made.log_dir.close()


def child_of(desk: Desk) -> int:
    assert isinstance(desk.runner, ChildRunner) and desk.runner.pid is not None
    return desk.runner.pid


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_child_does_the_same(real: Desk, work: LoopWork) -> None:
    here = Desk(work)
    for desk in (real, here):
        fill(desk.orders)
        assert await desk.clean_all() == 1
    assert pairs(real.orders) == pairs(here.orders)
    assert real.log_dir.checkpoints.first_dirty == here.log_dir.checkpoints.first_dirty


async def test_one_child_cleans_many_logs_at_low_priority(real: Desk) -> None:
    logs = [real.orders, real.others, *(real.place.create(("many", number)) for number in range(3))]
    children: set[tuple[int, int]] = set()
    for log in logs:
        fill(log)
    real.meddle(lambda _: children.add((child_of(real), os.getpriority(os.PRIO_PROCESS, child_of(real)))))
    assert await real.clean_all() == 5
    ((pid, niceness),) = children
    assert niceness > os.getpriority(os.PRIO_PROCESS, 0)
    await real.runner.close()
    assert not is_running(pid)


async def test_a_child_that_is_killed_costs_nothing_but_time(real: Desk, caplog: pytest.LogCaptureFixture) -> None:
    expected, killed = fill(real.orders), list[int]()

    def kill(number: int) -> None:
        if number == 1 and not killed:
            killed.append(child_of(real))
            os.kill(killed[0], signal.SIGKILL)

    real.meddle(kill)
    assert await real.cleaner.clean_dirtiest()
    assert f"process {killed[0]} ended with -9" in caplog.text
    assert latest(all_records(real.orders)) == expected and real.place.failures == []
    real.place.clock.now_ms += 1000
    assert await real.clean_all() == 1
    assert latest(all_records(real.orders)) == expected
    assert len(pairs(real.orders)) < 25


async def test_a_log_that_a_child_never_survives_is_set_aside(real: Desk) -> None:
    expected = fill(real.orders)
    real.meddle(lambda _: os.kill(child_of(real), signal.SIGKILL))
    for _ in range(3):
        assert not real.cleaner.is_set_aside(real.orders)
        assert await real.cleaner.clean_dirtiest()
        real.place.clock.now_ms += 1000
    assert real.cleaner.is_set_aside(real.orders)
    assert not await real.cleaner.clean_dirtiest()
    assert latest(all_records(real.orders)) == expected


async def test_what_a_child_cannot_clean_arrives_as_such(real: Desk) -> None:
    fill(real.orders)
    spoil(real.orders)
    assert await real.clean_all() == 1
    assert real.cleaner.is_set_aside(real.orders)
    # It lives on for the next log.
    assert is_running(child_of(real))


async def test_no_child_is_kept_for_nothing(real: Desk, work: LoopWork) -> None:
    runner, children = real.runner, set[int]()
    assert isinstance(runner, ChildRunner)
    real.meddle(lambda _: children.add(child_of(real)))
    fill(real.orders)
    running = work.spawn(real.cleaner.run(), "compaction")
    await until(lambda: bool(children) and not any(map(is_running, children)))
    assert runner.pid is None and len(pairs(real.orders)) < 25
    running.cancel()


async def test_no_child_outlives_the_cleaner(real: Desk, work: LoopWork) -> None:
    expected, children = fill(real.orders), set[int]()
    stop: list[Callable[[], object]] = []

    def in_the_middle(_: int) -> None:
        children.add(child_of(real))
        stop[0]()

    real.meddle(in_the_middle)
    running = work.spawn(real.cleaner.run(), "compaction")
    stop.append(running.cancel)
    await asyncio.gather(running, return_exceptions=True)
    assert children and not any(map(is_running, children))
    assert latest(all_records(real.orders)) == expected
