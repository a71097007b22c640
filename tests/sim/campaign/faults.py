"""How each kind of fault is injected, and how it ends.

An injection returns False if it cannot be done now; then it does not count. A host that is in trouble is `ailing` until
its fault is over, and the plan says how many hosts may be ailing at the same time.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random

from minikafka.storage.errors import StorageError
from tests.sim.campaign.losses import PowerLog
from tests.sim.campaign.plan import BROKERS, Fault, Plan
from tests.sim.client import host_of
from tests.sim.cluster import SimCluster
from tests.sim.memory_disk import Op

_CLIENTS = ("", "follower", "controller", "broker")
_HOUR_MS = 3_600_000


class Injector:
    """See the module's description."""

    def __init__(self, cluster: SimCluster, plan: Plan, power: PowerLog) -> None:
        self.cluster = cluster
        self.plan = plan
        self.power = power
        self.counts: Counter[str] = Counter()
        self.ailing: set[int] = set()
        self.failed_boots: list[str] = []
        self.is_storm = True
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def inject(self, fault: Fault) -> None:
        method: Callable[[Fault, Random], bool] = getattr(self, f"_{fault.kind}")
        if method(fault, Random(fault.salt)):
            self.counts[fault.kind] += 1

    # ------------------------------------------------------------------------------------------------ helpers

    def _take(self, broker_id: int) -> bool:
        """Mark a healthy host as ailing, if there may be one more."""
        node = self.cluster.nodes[broker_id]
        if broker_id in self.ailing or len(self.ailing) >= self.plan.ailing_max or not node.is_running:
            return False
        self.ailing.add(broker_id)
        return True

    def _later(self, fault: Fault, heal: Callable[[], object]) -> bool:
        def end() -> None:
            heal()
            self.ailing.discard(fault.broker)

        self._loop.call_later(fault.seconds, end)
        return True

    def spawn(self, work: object) -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def boot(self, broker_id: int) -> None:
        if not self.cluster.nodes[broker_id].is_running:
            self.spawn(self._supervise(broker_id, self.cluster.nodes[broker_id].boot()))

    async def _supervise(self, broker_id: int, booting: asyncio.Task[None]) -> None:
        """Start a broker again that cannot start, as a supervisor would."""
        await asyncio.wait([booting])
        if not booting.cancelled() and booting.exception() is not None:
            self.failed_boots.append(repr(booting.exception()))
            self.cluster.kill(broker_id)
            await asyncio.sleep(1)
            self.boot(broker_id)

    # ---------------------------------------------------------------------------------------------- processes

    def _kill(self, fault: Fault, rng: Random) -> bool:
        if not self._take(fault.broker):
            return False
        self.cluster.kill(fault.broker)
        return self._later(fault, lambda: self.boot(fault.broker))

    def _power(self, fault: Fault, rng: Random) -> bool:
        is_safe = self.plan.durability == "fsync" or self.plan.overlaps or self.power.all_are_back()
        if not is_safe or not self._take(fault.broker):
            return False
        self.power.lost(fault.broker)
        self.cluster.kill(fault.broker, power=True, rng=rng if rng.random() < 0.5 else None)
        return self._later(fault, lambda: self.boot(fault.broker))

    def _pause(self, fault: Fault, rng: Random) -> bool:
        if not self._take(fault.broker):
            return False
        self.cluster.pause(fault.broker)
        return self._later(fault, lambda: self.cluster.resume(fault.broker))

    def _restart(self, fault: Fault, rng: Random) -> bool:
        if not self._take(fault.broker):
            return False
        self.spawn(self._stop_and_boot(fault))
        return True

    async def _stop_and_boot(self, fault: Fault) -> None:
        # A broker that is still starting cannot be stopped in good order.
        with suppress(TimeoutError):
            await self.cluster.stop(fault.broker)
        if self.cluster.nodes[fault.broker].is_running:
            self.cluster.kill(fault.broker)
        self._later(fault, lambda: self.boot(fault.broker))

    # ------------------------------------------------------------------------------------------------ network

    def _cut(self, fault: Fault, rng: Random) -> bool:
        other = rng.choice([each for each in BROKERS if each != fault.broker])
        self.cluster.cut(fault.broker, other)
        self._loop.call_later(fault.seconds, self.cluster.heal, fault.broker, other)
        return True

    def _cut_one_way(self, fault: Fault, rng: Random) -> bool:
        other = rng.choice([each for each in BROKERS if each != fault.broker])
        way = (host_of(fault.broker), host_of(other), rng.choice(_CLIENTS))
        self.cluster.network.cut(*way)
        self._loop.call_later(fault.seconds, self.cluster.network.heal, *way)
        return True

    def _isolate(self, fault: Fault, rng: Random) -> bool:
        self.cluster.isolate(fault.broker)
        self._loop.call_later(fault.seconds, self.cluster.network.heal_all)
        return True

    def _reset(self, fault: Fault, rng: Random) -> bool:
        other = rng.choice([each for each in BROKERS if each != fault.broker])
        self.cluster.network.reset(host_of(fault.broker), host_of(other))
        return True

    def _slow_channel(self, fault: Fault, rng: Random) -> bool:
        """What the controller has to say is held back, so that later news is coalesced with it."""
        controller_id = self.cluster.controller_id
        if controller_id is None or controller_id == fault.broker:
            return False
        way = (host_of(controller_id), host_of(fault.broker), "controller")
        self.cluster.network.cut(*way)
        self._loop.call_later(min(fault.seconds, 1.5), self.cluster.network.heal, *way)
        return True

    # ---------------------------------------------------------------------------------------------- ZooKeeper

    def _cut_zookeeper(self, fault: Fault, rng: Random) -> bool:
        if self.cluster.nodes[fault.broker].coord is None or not self._take(fault.broker):
            return False
        self.cluster.cut_zookeeper(fault.broker)
        return self._later(fault, lambda: self.cluster.heal_zookeeper(fault.broker))

    def _lose_response(self, fault: Fault, rng: Random) -> bool:
        """The connection breaks at a coming request, before or after ZooKeeper has carried it out."""
        coord = self.cluster.nodes[fault.broker].coord
        if coord is None:
            return False
        coord.lose_answer(rng.choice(("", "multi", "set", "create")), done=rng.random() < 0.7, skip=rng.randint(0, 3))
        return True

    def _expire(self, fault: Fault, rng: Random) -> bool:
        if self.cluster.nodes[fault.broker].coord is None:
            return False
        self.cluster.expire(fault.broker)
        return True

    def _depose(self, fault: Fault, rng: Random) -> bool:
        if self.cluster.controller_id is None:
            return False
        self.cluster.depose_controller()
        return True

    def _stop_zookeeper(self, fault: Fault, rng: Random) -> bool:
        if not self.cluster.is_zookeeper_up or self.ailing:
            return False
        self.ailing.update(BROKERS)
        self.cluster.stop_zookeeper()
        self._loop.call_later(fault.seconds, self._start_zookeeper)
        return True

    def _start_zookeeper(self) -> None:
        self.cluster.start_zookeeper()
        self.ailing.clear()

    # --------------------------------------------------------------------------------------- disks and clocks

    def _slow_disk(self, fault: Fault, rng: Random) -> bool:
        node = self.cluster.nodes[fault.broker]
        node.slowness_seconds = rng.choice((0.01, 0.1, 0.5))
        self._loop.call_later(fault.seconds, setattr, node, "slowness_seconds", 0.0)
        return True

    def _full_disk(self, fault: Fault, rng: Random) -> bool:
        if not self._take(fault.broker):
            return False
        disk = self.cluster.nodes[fault.broker].disk
        capacity_bytes = disk.capacity_bytes
        disk.capacity_bytes = disk.used_bytes() + rng.choice((0, 100, 2_000))

        def heal() -> None:
            disk.capacity_bytes = capacity_bytes
            self._replace(fault.broker)

        return self._later(fault, heal)

    def _disk_error(self, fault: Fault, rng: Random) -> bool:
        if not self._take(fault.broker):
            return False
        kind = rng.choice(("append", "sync", "read"))

        def is_due(op: Op) -> bool:
            return op.kind == kind and op.path.endswith(".log")

        disk = self.cluster.nodes[fault.broker].disk
        disk.fail(is_due, errno.EIO, written=rng.choice((0, 10)) if kind == "append" else 0)

        def heal() -> None:
            disk.heal()
            self._replace(fault.broker)

        return self._later(fault, heal)

    def _failed_dir(self, fault: Fault, rng: Random) -> bool:
        node = self.cluster.nodes[fault.broker]
        context = node.broker.context if node.is_running else None
        found = [] if context is None else sorted(context.partitions.all)
        if context is None or not found or not self._take(fault.broker):
            return False
        partition = context.partitions.all[rng.choice(found)]
        node.process.run(partition.disk_failure, StorageError("the disk is gone"))
        return self._later(fault, lambda: self._replace(fault.broker))

    def _replace(self, broker_id: int) -> None:
        """A log directory that failed is used again only by the next process."""
        if self.cluster.nodes[broker_id].is_running:
            self.cluster.kill(broker_id)
        self.boot(broker_id)

    def _clock_hours(self, fault: Fault, rng: Random) -> bool:
        self.cluster.nodes[fault.broker].clock.jump(rng.choice((-1, 1)) * _HOUR_MS)
        return True

    def _clock_days(self, fault: Fault, rng: Random) -> bool:
        self.cluster.nodes[fault.broker].clock.jump(rng.choice((-3, -1, 1, 3)) * 24 * _HOUR_MS)
        return True
