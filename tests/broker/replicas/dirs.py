"""What the tests of the background work share: a directory with its worker, and a clock that tests move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.broker.replicas.dir_worker import DirWorker
from minikafka.broker.work import Work
from minikafka.storage.checkpoints import Partition
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from tests.sim.memory_disk import MemoryDisk
from tests.storage.dirs import ROOT, created, start
from tests.storage.logs import NOW_MS, SMALL

ORDERS = ("orders", 0)
OTHERS = ("orders", 1)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that nobody tells of; the test's timeout is the limit."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


class MovedClock:
    """Stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def uptime_ms(self) -> int:
        return self.now_ms


class Place:
    """A directory with two logs, its worker, and the failures that it told of."""

    def __init__(self, work: Work, disk: Disk | None = None, path: str = ROOT, config: LogConfig = SMALL) -> None:
        self.disk = MemoryDisk() if disk is None else disk
        self.config = config
        self.log_dir: LogDir = start(self.disk, path, config)
        self.failures: list[LogDir] = []
        self.worker = DirWorker(self.log_dir, work, self.failures.append)
        self.clock = MovedClock()
        self.orders = self.create(ORDERS)
        self.others = self.create(OTHERS)

    def create(self, partition: Partition) -> Log:
        return created(self.log_dir, partition, config=self.config)

    @property
    def memory(self) -> MemoryDisk:
        assert isinstance(self.disk, MemoryDisk)
        return self.disk

    def count(self, *kinds: str) -> int:
        """How often the disk was asked for something."""
        return len([op for op in self.memory.ops if op.kind in kinds])
