"""Reads of a partition: what they cost, and that retention and compaction may overtake them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from minikafka.broker.live_config import LiveConfig
from minikafka.broker.metadata import Metadata
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.replicas.reading import Budget, PartitionRead, Reader
from minikafka.broker.replicas.upkeep import Upkeep
from minikafka.broker.statistics import Statistics
from minikafka.broker.work import LoopWork
from minikafka.protocol.control import PartitionState
from minikafka.protocol.errors import OffsetOutOfRangeError
from minikafka.protocol.messages.fetch import FetchPartition
from minikafka.protocol.records.control import ControlType
from minikafka.storage.formats import TXN_ENTRY
from minikafka.storage.log_dirs import LogDirs
from minikafka.storage.retention import delete_records
from tests.broker.config.recorded import config_of
from tests.broker.replicas.dirs import MovedClock
from tests.sim.memory_disk import MemoryDisk
from tests.storage.dirs import IDENTITY, ROOT, TOPIC_ID
from tests.storage.logs import NOW_MS, append, append_in_txn, end_txn

_T = TypeVar("_T")


class HeldUpWork(LoopWork):
    """Threads whose calls wait until the test lets them go."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go = asyncio.Event()
        self.calls = 0

    async def run_blocking(self, call: Callable[[], _T]) -> _T:
        self.calls += 1
        await self.may_go.wait()
        return await super().run_blocking(call)


class Desk:
    """A leader of one partition, on a disk from which nothing is in memory."""

    def __init__(self, work: LoopWork, config: dict[str, str]) -> None:
        self.disk = MemoryDisk()
        self.clock = MovedClock()
        log_dirs = LogDirs(self.disk, [ROOT])
        log_dirs.open(IDENTITY, NOW_MS)
        self.live = LiveConfig(config_of(config))
        self.log_dir = log_dirs.dirs[0]
        self.partitions = Partitions(0, log_dirs, self.live, Metadata(), self.clock, work, Statistics())
        self.upkeep = Upkeep(self.partitions, self.live, self.clock, work)

    async def lead(self) -> Partition:
        state = PartitionState(
            topic="t",
            topic_id=TOPIC_ID,
            partition=0,
            leader=0,
            leader_epoch=1,
            isr=[0],
            replicas=[0],
            partition_epoch=1,
            controller_epoch=1,
            is_new=True,
        )
        assert not await self.partitions.apply([state], is_full=False)
        return self.partitions.get("t", 0)


def fetch(partition: Partition, offset: int, max_bytes: int = 2000, *, is_committed: bool = False) -> PartitionRead:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return PartitionRead(partition, wanted, Reader(is_committed=is_committed), Budget(max_bytes))


@pytest.mark.parametrize("offset", [3, 55])
async def test_read_overtaken_by_retention_is_planned_again(work: LoopWork, offset: int) -> None:
    desk = Desk(work, {"log.segment.bytes": "20000", "log.segment.delete.delay.ms": "0"})
    partition = await desk.lead()
    for _ in range(60):
        append(partition.log, bytes(1000), timestamp_ms=NOW_MS)
    partition.log.update_high_watermark(60)
    desk.disk.is_cold = True
    slow = HeldUpWork()
    read = fetch(partition, offset)
    reading = asyncio.ensure_future(read.read(slow))
    while not slow.calls:  # noqa: ASYNC110
        await asyncio.sleep(0)
    delete_records(partition.log, 50)
    await desk.upkeep.apply_retention()
    await desk.upkeep.discard()
    desk.clock.now_ms += 1001
    await desk.upkeep.discard()
    await desk.partitions.wait_idle()
    assert not [name for name in desk.disk.list(f"{ROOT}/t-0") if name.endswith(".deleted")]
    slow.may_go.set()
    await reading
    assert desk.log_dir.failure is None
    if offset < 50:
        assert isinstance(read.error, OffsetOutOfRangeError) and slow.calls == 1
    else:
        assert read.error is None and len(read.answer.records or b"") > 1000
    await slow.stop()


async def test_committed_fetch_reads_aborted_transactions_of_its_own_batches(work: LoopWork) -> None:
    """The same fetch from the start, however many transactions were aborted behind it."""
    costs = []
    for count in (300, 600, 1200):
        desk = Desk(work, {})
        partition = await desk.lead()
        for number in range(count):
            append_in_txn(partition.log, 7, number, b"x")
            end_txn(partition.log, 7, ControlType.ABORT)
        partition.log.update_high_watermark(partition.log.log_end_offset)
        fetch(partition, 0, is_committed=True).read_now()
        desk.disk.ops.clear()
        read = fetch(partition, 0, is_committed=True)
        read.read_now()
        assert 10 < len(read.answer.aborted_transactions or ()) < 20
        costs.append(sum(op.size for op in desk.disk.ops if op.kind == "read" and op.path.endswith(".txnindex")))
    # The bisection takes one more entry each time.
    assert costs[2] - costs[1] == costs[1] - costs[0] == TXN_ENTRY.size
