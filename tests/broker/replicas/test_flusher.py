"""Syncs: who shares one, who is told what, and what is synced though nobody waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from minikafka.broker.clock import SystemClock
from minikafka.broker.replicas.flusher import Flusher
from minikafka.broker.work import LoopWork
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import RealDisk
from minikafka.storage.durability import Durability, Verdict
from minikafka.storage.log import Log
from minikafka.storage.trimming import truncate_to
from tests.broker.replicas.dirs import ORDERS, Place, until
from tests.storage.dirs import restart
from tests.storage.logs import NOW_MS, SMALL, append, contents

T = TypeVar("T")


class SlowWork(LoopWork):
    """Blocking calls wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.go = asyncio.Event()
        self.is_at_call = asyncio.Event()

    async def run_blocking(self, call: Callable[[], T]) -> T:
        self.calls += 1
        self.is_at_call.set()
        await self.go.wait()
        return await super().run_blocking(call)


@pytest.fixture
def place(work: LoopWork) -> Place:
    return Place(work)


def flusher_of(place: Place, work: LoopWork, durability: Durability = Durability.FSYNC) -> Flusher:
    return Flusher([place.worker], durability, place.clock, work)


def write(flusher: Flusher, log: Log, value: bytes, verdicts: list[Verdict]) -> bool:
    return flusher.request(log, append(log, value).last_offset + 1, verdicts.append)


async def test_many_share_a_sync(work: LoopWork) -> None:
    place = Place(work, config=LogConfig())
    flusher = flusher_of(place, work)
    for log in (place.orders, place.others):
        append(log, b"first")
        await flusher.wait_synced(log, 1)
    before = place.count("sync", "flush", "fsync_dir")
    waiting = []
    for number in range(100):
        for log in (place.orders, place.others):
            offset = append(log, b"%d" % number).last_offset + 1
            waiting.append(flusher.wait_synced(log, offset))
    assert await asyncio.gather(*waiting) == [Verdict.SYNCED] * 200
    assert place.count("sync", "flush", "fsync_dir") - before == 2
    assert place.orders.recovery_point == place.others.recovery_point == 101


async def test_rounds_share_what_comes_meanwhile() -> None:
    work = SlowWork()
    place = Place(work)
    flusher = flusher_of(place, work)
    verdicts: list[Verdict] = []
    write(flusher, place.orders, b"first", verdicts)
    await work.is_at_call.wait()
    for number in range(50):
        assert not write(flusher, place.orders, b"%d" % number, verdicts)
        assert not write(flusher, place.others, b"%d" % number, verdicts)
        await asyncio.sleep(0)
    assert verdicts == [] and work.calls == 1
    work.go.set()
    await flusher.wait_idle()
    await asyncio.sleep(0)
    assert verdicts == [Verdict.SYNCED] * 101
    # One more round, with a thread for each log.
    assert work.calls == 3
    await work.stop()


async def test_the_loop_goes_on_while_the_disk_is_slow(place: Place, work: LoopWork) -> None:
    flusher = flusher_of(place, work)
    at_disk, go = threading.Event(), threading.Event()

    def is_slow(op: object) -> bool:
        at_disk.set()
        assert go.wait(10)
        return False

    append(place.orders, b"x")
    place.memory.fail(lambda op: op.kind == "sync" and is_slow(op), is_lasting=True)
    synced = asyncio.ensure_future(flusher.wait_synced(place.orders, 1))
    await until(at_disk.is_set)
    assert not synced.done()
    append(place.others, b"meanwhile")
    go.set()
    assert await synced is Verdict.SYNCED


async def test_nobody_waits_where_being_in_memory_is_enough(place: Place, work: LoopWork) -> None:
    flusher = flusher_of(place, work, Durability.REPLICATED)
    assert write(flusher, place.orders, b"x", [])
    place.orders.reconfigure(SMALL._replace(flush_messages=2))
    verdicts: list[Verdict] = []
    assert not write(flusher, place.orders, b"y", verdicts)
    await flusher.wait_idle()
    await asyncio.sleep(0)
    assert verdicts == [Verdict.SYNCED]


async def test_a_failed_sync_is_told_to_all_and_takes_the_directory_offline(place: Place, work: LoopWork) -> None:
    flusher = flusher_of(place, work)
    place.memory.fail(lambda op: op.kind == "sync")
    verdicts: list[Verdict] = []
    for log in (place.orders, place.others, place.orders):
        write(flusher, log, b"x", verdicts)
    await flusher.wait_idle()
    await asyncio.sleep(0)
    assert verdicts == [Verdict.FAILED] * 3
    assert place.failures == [place.log_dir]
    # Later ones are told at once, and nothing more is asked of the disk.
    before = place.count("sync")
    place.orders.log_end_offset += 1
    assert await flusher.wait_synced(place.orders, place.orders.log_end_offset) is Verdict.FAILED
    assert place.count("sync") == before
    assert restart(place.memory).logs[ORDERS].recovery_point == 0


async def test_a_directory_that_fails_elsewhere_keeps_nobody_waiting() -> None:
    work = SlowWork()
    place = Place(work)
    flusher = flusher_of(place, work)
    append(place.orders, b"x")
    synced = asyncio.ensure_future(flusher.wait_synced(place.orders, 1))
    await work.is_at_call.wait()
    place.worker.fail("an append failed")
    assert await synced is Verdict.FAILED
    work.go.set()
    await flusher.wait_idle()
    await work.stop()


async def test_who_waits_for_a_log_is_sent_away(place: Place, work: LoopWork) -> None:
    flusher = flusher_of(place, work)
    append(place.orders, b"x")
    append(place.others, b"y")
    waiting = [asyncio.ensure_future(flusher.wait_synced(log, 1)) for log in (place.orders, place.others)]
    await asyncio.sleep(0)
    flusher.cut_off(place.orders)
    assert await asyncio.gather(*waiting) == [Verdict.CUT_OFF, Verdict.SYNCED]


async def test_what_was_cut_off_meanwhile_is_not_confirmed() -> None:
    work = SlowWork()
    place = Place(work)
    flusher = flusher_of(place, work)
    append(place.orders, b"x")
    synced = asyncio.ensure_future(flusher.wait_synced(place.orders, 1))
    await work.is_at_call.wait()
    truncate_to(place.orders, 0, NOW_MS)
    append(place.orders, b"another", epoch=1)
    work.go.set()
    assert await synced is Verdict.CUT_OFF
    await work.stop()


async def test_who_gives_up_waiting_disturbs_nobody(place: Place, work: LoopWork) -> None:
    flusher = flusher_of(place, work)
    append(place.orders, b"x")
    impatient = asyncio.ensure_future(flusher.wait_synced(place.orders, 1))
    other = asyncio.ensure_future(flusher.wait_synced(place.orders, 1))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await other is Verdict.SYNCED


async def test_a_fault_of_ours_keeps_nobody_waiting(
    place: Place, work: LoopWork, caplog: pytest.LogCaptureFixture
) -> None:
    flusher = flusher_of(place, work)
    place.memory.fail(lambda op: op.kind == "sync" and 1 / 0 > 0)
    append(place.orders, b"x")
    assert await flusher.wait_synced(place.orders, 1) is Verdict.FAILED
    await flusher.wait_idle()
    assert place.failures == [place.log_dir]
    assert "ended by a fault" in caplog.text


# ---------------------------------------------------------------------------------------- in the background


async def test_full_segments_are_synced_though_nobody_waits(place: Place, work: LoopWork) -> None:
    flusher = flusher_of(place, work, Durability.REPLICATED)
    append(place.others, b"x")
    for number in range(40):
        append(place.orders, b"%d" % number)
    assert len(place.orders.segments) > 1
    watching = work.spawn(flusher.watch(1), "watch")
    await until(lambda: place.orders.recovery_point == place.orders.log_end_offset)
    assert place.others.recovery_point == 0
    watching.cancel()


async def test_a_topic_may_want_its_records_synced_in_time(place: Place, work: LoopWork) -> None:
    flusher = flusher_of(place, work, Durability.REPLICATED)
    place.orders.reconfigure(SMALL._replace(flush_ms=5000))
    watching = work.spawn(flusher.watch(1), "watch")
    append(place.orders, b"x")
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert place.orders.recovery_point == 0
    place.clock.now_ms += 5000
    await until(lambda: place.orders.recovery_point == 1)
    watching.cancel()


async def test_a_round_can_be_waited_for() -> None:
    work = SlowWork()
    place = Place(work)
    flusher = flusher_of(place, work)
    await flusher.wait_round(place.log_dir)
    write(flusher, place.orders, b"x", [])
    await work.is_at_call.wait()
    over = asyncio.ensure_future(flusher.wait_round(place.log_dir))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not over.done()
    work.go.set()
    await over
    await flusher.wait_idle()
    await work.stop()


async def test_on_a_real_disk(tmp_path: Path, work: LoopWork) -> None:
    place = Place(work, RealDisk(), str(tmp_path))
    flusher = Flusher([place.worker], Durability.FSYNC, SystemClock(), work)

    async def produce(log: Log, name: str) -> None:
        for number in range(50):
            offset = append(log, f"{name}{number}".encode()).last_offset + 1
            assert await flusher.wait_synced(log, offset) is Verdict.SYNCED
            assert log.recovery_point >= offset

    await asyncio.gather(*(produce(log, name) for log in (place.orders, place.others) for name in "abc"))
    await flusher.wait_idle()
    assert len(contents(place.orders)) == 150
    place.log_dir.close()
