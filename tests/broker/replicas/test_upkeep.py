"""Chores: what they do to the logs, that nobody waits for them, and that a failing disk is told."""

from __future__ import annotations

import asyncio
import threading

import pytest

from minikafka.broker.live_config import LiveConfig
from minikafka.broker.metadata import Metadata
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.replicas.steps import STEP_MS, in_steps
from minikafka.broker.replicas.upkeep import Upkeep
from minikafka.broker.statistics import Statistics
from minikafka.broker.work import LoopWork
from minikafka.storage.config import LogConfig
from minikafka.storage.formats import RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT, parse_offsets
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_dirs import LogDirs
from minikafka.storage.retention import delete_records
from tests.broker.config.recorded import config_of
from tests.broker.replicas.dirs import ORDERS, OTHERS, MovedClock, until
from tests.sim.memory_disk import MemoryDisk, Op
from tests.storage.dirs import IDENTITY, ROOT, created, read_file, restart
from tests.storage.logs import NOW_MS, SMALL, append, append_in_txn, batch_of

HOUR_MS = 3_600_000
CONFIG = SMALL._replace(retention_ms=HOUR_MS)
INTERVALS = {
    "log.retention.check.interval.ms": "5",
    "replica.high.watermark.checkpoint.interval.ms": "5",
    "producer.id.expiration.check.interval.ms": "5",
}


class Desk:
    """The replicas of a broker with two logs, and the upkeep of them."""

    def __init__(self, work: LoopWork, config: LogConfig = CONFIG) -> None:
        self.disk = MemoryDisk()
        self.clock = MovedClock()
        log_dirs = LogDirs(self.disk, [ROOT])
        log_dirs.open(IDENTITY, NOW_MS)
        log_dirs.load_all(lambda _: config, NOW_MS)
        live = LiveConfig(config_of(INTERVALS))
        self.partitions = Partitions(0, log_dirs, live, Metadata(), self.clock, work, Statistics())
        self.failures: list[LogDir] = []
        self.partitions.on_dir_failed = self.failures.append
        self.log_dir = log_dirs.dirs[0]
        self.orders: Log = created(self.log_dir, ORDERS, config=config)
        self.others: Log = created(self.log_dir, OTHERS, config=config)
        self.upkeep = Upkeep(self.partitions, live, self.clock, work)

    def fill(self, log: Log, count: int = 60) -> None:
        for number in range(count):
            append(log, b"%d" % number, timestamp_ms=NOW_MS + number)
        log.update_high_watermark(log.log_end_offset)

    def names(self, suffix: str) -> list[str]:
        return [name for name in self.disk.list(f"{ROOT}/orders-0") if name.endswith(suffix)]


@pytest.fixture
def desk(work: LoopWork) -> Desk:
    return Desk(work)


# ---------------------------------------------------------------------------------------- checkpoints


async def test_checkpoints_say_how_far_the_logs_are(desk: Desk) -> None:
    desk.fill(desk.orders, 7)
    await desk.upkeep.checkpoint_high_watermarks()
    written = parse_offsets(read_file(desk.disk, f"{ROOT}/{REPLICATION_CHECKPOINT}"))
    assert written == {ORDERS: 7, OTHERS: 0}
    assert not desk.disk.exists(f"{ROOT}/{RECOVERY_POINT_CHECKPOINT}")
    await desk.upkeep.checkpoint()
    assert parse_offsets(read_file(desk.disk, f"{ROOT}/{RECOVERY_POINT_CHECKPOINT}")) == {ORDERS: 0, OTHERS: 0}
    before = desk.disk.op_count
    await desk.upkeep.checkpoint()
    await desk.upkeep.checkpoint_high_watermarks()
    assert desk.disk.op_count == before
    assert restart(desk.disk).logs[ORDERS].high_watermark == 7


async def test_a_checkpoint_that_fails_is_told(desk: Desk) -> None:
    desk.fill(desk.orders, 7)
    desk.disk.fail(lambda op: op.kind == "rename")
    await desk.upkeep.checkpoint()
    assert desk.failures == [desk.log_dir]
    await desk.upkeep.checkpoint()


# ---------------------------------------------------------------------------------------- retention


async def test_what_has_expired_goes(desk: Desk) -> None:
    desk.fill(desk.orders)
    count = len(desk.orders.segments)
    assert count > 3
    desk.clock.now_ms += HOUR_MS
    await desk.upkeep.apply_retention()
    assert len(desk.orders.segments) == count
    desk.clock.now_ms += 1000
    await desk.upkeep.apply_retention()
    assert desk.orders.log_start_offset == 60
    assert len(desk.orders.segments) == 1
    assert len([name for name in desk.names(".deleted") if ".log." in name]) == count
    assert desk.others.log_start_offset == 0


async def test_segments_below_the_log_start_go_whatever_the_policy(desk: Desk) -> None:
    desk.fill(desk.orders)
    delete_records(desk.orders, 30)
    assert not desk.names(".deleted")
    await desk.upkeep.apply_retention()
    assert desk.names(".log.deleted")
    assert desk.orders.log_start_offset == 30


async def test_retention_waits_for_the_disk_elsewhere(desk: Desk) -> None:
    desk.fill(desk.orders)
    desk.clock.now_ms += 2 * HOUR_MS
    threads: list[int] = []

    def look(op: Op) -> bool:
        if op.kind in ("sync", "flush", "fsync_dir"):
            threads.append(threading.get_ident())
        return False

    desk.disk.fail(look, is_lasting=True)
    await desk.upkeep.apply_retention()
    assert len(desk.orders.segments) == 1
    assert len(threads) > 2 and threading.get_ident() not in threads


async def test_retention_lets_others_go_on(desk: Desk, work: LoopWork) -> None:
    logs = [created(desk.log_dir, ("many", number), config=CONFIG) for number in range(20)]
    for log in logs:
        desk.fill(log)
    desk.clock.now_ms += 2 * HOUR_MS
    upkeep = work.spawn(desk.upkeep.apply_retention(), "retention")
    seen: list[int] = []
    while not upkeep.done():
        seen.append(sum(log.log_start_offset > 0 for log in logs))
        await asyncio.sleep(0)
    assert len({*seen}) > 10


async def test_steps_end_in_time() -> None:
    clock = MovedClock()
    turns = 0
    done: list[int] = []

    async def count_turns() -> None:
        nonlocal turns
        while len(done) < 20:
            turns += 1
            await asyncio.sleep(0)

    async def work_long() -> None:
        async for number in in_steps(range(20), clock):
            clock.now_ms += STEP_MS
            done.append(number)

    await asyncio.gather(count_turns(), work_long())
    assert turns >= 19 and done == [*range(20)]


async def test_a_partition_that_is_deleted_meanwhile(desk: Desk) -> None:
    desk.fill(desk.orders)
    desk.clock.now_ms += 2 * HOUR_MS
    gone: list[asyncio.Future[None]] = []
    loop = asyncio.get_running_loop()

    def delete() -> None:
        if desk.log_dir.holds(desk.orders):
            gone.append(desk.partitions.workers[desk.log_dir].do(desk.log_dir.delete(ORDERS, NOW_MS)))

    def at_second_sync(op: object) -> bool:
        loop.call_soon_threadsafe(delete)
        return False

    desk.disk.fail(lambda op: op.kind == "fsync_dir" and at_second_sync(op))
    await desk.upkeep.apply_retention()
    await asyncio.gather(*gone)
    assert gone and desk.failures == []
    assert len(desk.orders.segments) > 1


async def test_a_disk_that_fails_at_retention_is_told(desk: Desk) -> None:
    for log in (desk.orders, desk.others):
        desk.fill(log)
    desk.clock.now_ms += 2 * HOUR_MS
    desk.disk.fail(lambda op: op.kind == "fsync_dir", is_lasting=True)
    await desk.upkeep.apply_retention()
    assert desk.failures == [desk.log_dir]
    before = desk.disk.op_count
    await desk.upkeep.apply_retention()
    assert desk.disk.op_count == before


async def test_a_compacted_log_is_rolled_in_time(work: LoopWork) -> None:
    desk = Desk(work, SMALL._replace(cleanup_compact=True, cleanup_delete=False, max_compaction_lag_ms=HOUR_MS))
    append(desk.orders, b"x", timestamp_ms=NOW_MS)
    desk.clock.now_ms += HOUR_MS
    await desk.upkeep.apply_retention()
    assert len(desk.orders.segments) == 1
    desk.clock.now_ms += 1
    await desk.upkeep.apply_retention()
    assert len(desk.orders.segments) == 2 and len(desk.others.segments) == 1


# ---------------------------------------------------------------------------------------- the rest


async def test_files_are_unlinked_when_nobody_can_be_reading_them(desk: Desk) -> None:
    desk.fill(desk.orders)
    delete_records(desk.orders, 30)
    await desk.upkeep.apply_retention()
    await desk.upkeep.discard()
    desk.clock.now_ms += CONFIG.file_delete_delay_ms - 1
    await desk.upkeep.discard()
    await desk.partitions.wait_idle()
    assert desk.names(".deleted")
    desk.clock.now_ms += 1
    await desk.upkeep.discard()
    await desk.partitions.wait_idle()
    assert not desk.names(".deleted")


async def test_silent_producers_are_forgotten(desk: Desk) -> None:
    batch = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
    desk.orders.append_as_leader(batch, 0, NOW_MS)
    append_in_txn(desk.others, 8, 0, b"x")
    await desk.upkeep.expire_producers()
    desk.clock.now_ms += CONFIG.producer_id_expiration_ms - 1
    await desk.upkeep.expire_producers()
    assert len(desk.orders.producers) == 1
    desk.clock.now_ms += 1
    await desk.upkeep.expire_producers()
    assert (len(desk.orders.producers), len(desk.others.producers)) == (0, 1)


async def test_all_chores_come_by_themselves_until_they_are_stopped(desk: Desk) -> None:
    desk.orders.append_as_leader(batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0), 0, NOW_MS)
    desk.fill(desk.orders)
    await desk.upkeep.expire_producers()
    desk.clock.now_ms += 48 * HOUR_MS
    desk.upkeep.start()
    path = f"{ROOT}/{REPLICATION_CHECKPOINT}"
    await until(lambda: desk.orders.log_start_offset == 61 and not desk.orders.producers and desk.disk.exists(path))
    await until(lambda: desk.orders.recovery_point == 61)
    await desk.upkeep.stop()
    await desk.partitions.wait_idle()
    desk.log_dir.close()
    before = desk.disk.op_count
    for _ in range(5):
        await asyncio.sleep(0.005)
    assert desk.disk.op_count == before


async def test_a_fault_of_ours_does_not_end_a_chore(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0

    async def faulty() -> None:
        nonlocal calls
        calls += 1
        raise ValueError("unforeseen")

    monkeypatch.setattr(desk.upkeep, "apply_retention", faulty)
    desk.upkeep.start()
    await until(lambda: calls > 2)
    await desk.upkeep.stop()
    assert "retention ended by a fault" in caplog.text
