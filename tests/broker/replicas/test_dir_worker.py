"""Jobs of a directory: in order, one at a time, off the loop, and a failing disk is told to everybody once."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path
from random import Random

import pytest

from minikafka.broker.replicas.dir_worker import DirWorker
from minikafka.broker.work import LoopWork
from minikafka.storage.dir_jobs import Job
from minikafka.storage.disk import RealDisk
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.log_dir import LogDir
from tests.sim.memory_disk import MemoryDisk
from tests.storage.dirs import ROOT, TOPIC_ID, restart, start
from tests.storage.logs import NOW_MS, SMALL


class Desk:
    """A worker on a disk in memory, and the failures that it told of."""

    def __init__(self, work: LoopWork) -> None:
        self.disk = MemoryDisk()
        self.log_dir = start(self.disk)
        self.failures: list[LogDir] = []
        self.worker = DirWorker(self.log_dir, work, self.failures.append)

    def create(self, number: int) -> asyncio.Future[None]:
        return self.worker.do(self.log_dir.create(("orders", number), TOPIC_ID, SMALL, NOW_MS))


@pytest.fixture
def desk(work: LoopWork) -> Desk:
    return Desk(work)


class Noting(Job):
    """Says where and when it ran."""

    def __init__(self, log_dir: LogDir, ran: list[tuple[int, int]], number: int) -> None:
        super().__init__(log_dir.disk, log_dir.path)
        self._ran = ran
        self._number = number
        log_dir._begun(self)

    def _work(self) -> None:
        self._ran.append((self._number, threading.get_ident()))


async def test_jobs_are_done_off_the_loop_in_the_order_in_which_they_were_handed_over(desk: Desk) -> None:
    ran: list[tuple[int, int]] = []
    done = [desk.worker.do(Noting(desk.log_dir, ran, number)) for number in range(100)]
    # Whoever asks for a later one first does not change that.
    await done[-1]
    assert [number for number, _ in ran] == list(range(100))
    assert threading.get_ident() not in {thread for _, thread in ran}
    assert all(each.done() for each in done)


async def test_a_partition_is_there_when_its_job_is_finished(desk: Desk) -> None:
    done = desk.create(0)
    assert not desk.log_dir.logs
    await done
    assert list(desk.log_dir.logs) == [("orders", 0)]


async def test_a_partition_that_is_deleted_and_made_again_moves_out_first(desk: Desk) -> None:
    await desk.create(0)
    gone = desk.worker.do(desk.log_dir.delete(("orders", 0), NOW_MS))
    made = desk.create(0)
    await asyncio.gather(gone, made)
    assert ("orders", 0) in desk.log_dir.logs


async def test_who_stops_waiting_does_not_stop_the_job(desk: Desk) -> None:
    done = desk.create(0)
    done.cancel()
    await desk.create(1)
    assert set(desk.log_dir.logs) == {("orders", 0), ("orders", 1)}


async def test_a_failing_disk_takes_the_directory_offline_and_all_who_wait_are_told(desk: Desk) -> None:
    await desk.create(0)
    desk.disk.fail(lambda op: op.kind == "mkdir" and op.path.endswith("orders-2"))
    told: list[LogDir] = []
    desk.worker.add_listener(told.append)
    results = await asyncio.gather(*(desk.create(number) for number in range(1, 100)), return_exceptions=True)
    assert results[0] is None
    assert all(isinstance(result, StorageError) for result in results[1:])
    assert desk.log_dir.is_offline
    assert desk.failures == told == [desk.log_dir]
    # Nothing more was begun after the jobs that failed.
    assert not desk.disk.exists(f"{ROOT}/orders-99")


async def test_many_new_partitions_share_a_sync(desk: Desk) -> None:
    await asyncio.gather(*(desk.create(number) for number in range(50)))
    syncs = [op for op in desk.disk.ops if op.kind == "fsync_dir" and op.path == ROOT]
    assert len(syncs) < 10
    (survivor, *_) = desk.disk.power_cut_images(Random(1), 1)
    assert len(start(survivor).logs) == 50


async def test_if_the_sync_that_they_share_fails_none_is_made(desk: Desk) -> None:
    desk.disk.fail(lambda op: op.kind == "fsync_dir" and op.path == ROOT)
    results = await asyncio.gather(*(desk.create(number) for number in range(50)), return_exceptions=True)
    assert all(isinstance(result, StorageError) for result in results)
    assert desk.failures == [desk.log_dir] and not desk.log_dir.logs


async def test_a_directory_that_is_offline_does_nothing_and_says_so(desk: Desk) -> None:
    job = desk.log_dir.create(("orders", 0), TOPIC_ID, SMALL, NOW_MS)
    desk.worker.fail("somebody else could not write")
    desk.worker.fail("and somebody else")
    before = desk.disk.op_count
    with pytest.raises(StorageError, match="somebody else could not write"):
        await desk.worker.do(job)
    assert desk.disk.op_count == before
    assert desk.failures == [desk.log_dir]


async def test_a_failure_that_nobody_waits_for_is_told_all_the_same(desk: Desk) -> None:
    desk.disk.fail(lambda op: op.kind == "mkdir", errno.EROFS)
    desk.create(0)
    await desk.worker.wait_idle()
    assert desk.failures == [desk.log_dir]


async def test_trouble_with_one_partition_leaves_the_directory_online(desk: Desk) -> None:
    desk.disk.mkdir(f"{ROOT}/orders-1")
    results = await asyncio.gather(*(desk.create(number) for number in range(3)), return_exceptions=True)
    assert isinstance(results[1], CorruptLog)
    assert set(desk.log_dir.logs) == {("orders", 0), ("orders", 2)}
    assert desk.failures == []


class Faulty(Job):
    """A fault of ours, and not of the disk."""

    def _work(self) -> None:
        raise ValueError("unforeseen")


async def test_a_fault_of_ours_takes_the_directory_offline_too(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    faulty = desk.worker.do(Faulty(desk.disk, ROOT))
    others = [desk.create(number) for number in range(50)]
    with pytest.raises(StorageError, match="unforeseen"):
        await faulty
    results = await asyncio.gather(*others, return_exceptions=True)
    assert all(isinstance(result, StorageError) for result in results)
    assert desk.failures == [desk.log_dir]
    await desk.worker.wait_idle()
    assert "ended by a fault" in caplog.text


async def test_idle_is_when_nothing_waits_and_nothing_runs(desk: Desk) -> None:
    await desk.worker.wait_idle()
    made = [desk.create(number) for number in range(100)]
    await desk.worker.wait_idle()
    assert all(each.done() for each in made)
    desk.log_dir.close()
    assert len(restart(desk.disk).logs) == 100


async def test_the_loop_goes_on_while_partitions_are_made(tmp_path: Path, work: LoopWork) -> None:
    log_dir = start(RealDisk(), str(tmp_path))
    worker = DirWorker(log_dir, work, lambda failed: None)
    made = [worker.do(log_dir.create(("orders", number), TOPIC_ID, SMALL, NOW_MS)) for number in range(100)]
    turns = 0
    while not made[-1].done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 100
    assert len(log_dir.logs) == 100
    log_dir.close()
