"""Injecting faults: which broker is hit, how many may be in trouble at the same time, and when it is over.

An injection returns False if it cannot be done now; then it does not count. A host that is in trouble is `ailing` until
its fault is over, and the plan says how many hosts may be ailing at the same time.

    faults          processes: killed, paused, restarted, without power
    fault_network   what passes between brokers
    fault_zookeeper sessions, and what ZooKeeper says
    fault_disks     disks and clocks
    admin           what operators ask for
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from minikafka.broker.zookeeper.topic_nodes import StateNode, state_path
from tests.sim.campaign.losses import Losses
from tests.sim.campaign.plan import BROKERS, Fault, Plan
from tests.sim.client import host_of
from tests.sim.cluster import SimCluster

_LED = (("t", 0), ("t", 1), ("x", 0), ("x", 1))
_COORDINATED = (("__consumer_offsets", 0), ("__transaction_state", 0))


class Hit(NamedTuple):
    """Whom a fault hits, and for how long."""

    broker: int
    seconds: float


class Injector:
    """See the module's description."""

    def __init__(self, cluster: SimCluster, plan: Plan, losses: Losses) -> None:
        self.cluster = cluster
        self.plan = plan
        self.losses = losses
        self.counts: Counter[str] = Counter()
        self.ailing: set[int] = set()
        self._rolls = 0
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_calm(self) -> bool:
        """Whether every fault is over. Between two brokers of a roll no host is ailing."""
        return not self.ailing and not self._rolls

    def inject(self, fault: Fault) -> None:
        rng = Random(fault.salt)
        hit = Hit(self._broker(fault.target, rng), fault.seconds)
        method: Callable[[Hit, Random], bool] = getattr(self, f"_{fault.kind}")
        if method(hit, rng):
            self.counts[fault.kind] += 1

    # --------------------------------------------------------------------------------------------------- whom

    def _broker(self, target: str, rng: Random) -> int:
        """The broker that has a role now; any if nobody has it."""
        someone = rng.choice(BROKERS)
        if target == "controller":
            return self.cluster.controller_id or someone
        partition = rng.choice(_COORDINATED if target == "coordinator" else _LED)
        leader = self.leader(*partition)
        if target == "follower" and leader > 0:
            return rng.choice([broker_id for broker_id in BROKERS if broker_id != leader])
        return leader if target in ("leader", "coordinator") and leader > 0 else someone

    def leader(self, topic: str, index: int) -> int:
        path = state_path(topic, index)
        node = self.cluster.zookeeper.nodes.get(path)
        return -1 if node is None else StateNode.decode(path, node.data).leader

    def _other(self, broker_id: int, rng: Random) -> int:
        return rng.choice([other for other in BROKERS if other != broker_id])

    def _take(self, broker_id: int) -> bool:
        """Mark a healthy host as ailing, if there may be one more."""
        node = self.cluster.nodes[broker_id]
        if broker_id in self.ailing or len(self.ailing) >= self.plan.ailing_max or not node.is_running:
            return False
        self.ailing.add(broker_id)
        return True

    def _later(self, hit: Hit, heal: Callable[[], object]) -> bool:
        def end() -> None:
            heal()
            self.ailing.discard(hit.broker)

        self._loop.call_later(hit.seconds, end)
        return True

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---------------------------------------------------------------------------------------------- processes

    def boot(self, broker_id: int) -> None:
        if not self.cluster.nodes[broker_id].is_running:
            self.spawn(self._supervise(broker_id, self.cluster.nodes[broker_id].boot()))

    async def _supervise(self, broker_id: int, booting: asyncio.Task[None]) -> None:
        """Start a broker again that cannot start, as a supervisor would."""
        await asyncio.wait([booting])
        if not booting.cancelled() and booting.exception() is not None:
            self.counts["failed boots"] += 1
            self.kill(broker_id)
            await asyncio.sleep(1)
            self.boot(broker_id)

    def may_stop(self, broker_id: int, *, loses: bool = False, is_damage: bool = False) -> bool:
        """Whether the plan lets a host stop now that may lose something by it."""
        return self.plan.permits == "overlap" or self.losses.is_safe(broker_id, loses=loses, is_damage=is_damage)

    def kill(self, broker_id: int, *, power: bool = False, rng: Random | None = None) -> None:
        """kill -9, or a loss of power: what was not synced is gone, or with `rng` some of it, in any order and torn."""
        self.losses.forget_doom(broker_id)
        if self.cluster.nodes[broker_id].is_running:
            self.losses.stopped(broker_id, loses=power)
            self.cluster.kill(broker_id, power=power, rng=rng)

    def replace_process(self, broker_id: int) -> None:
        """A log directory that failed is used again only by the next process."""
        self.kill(broker_id)
        self.boot(broker_id)

    def _kill(self, hit: Hit, rng: Random) -> bool:
        if not self.may_stop(hit.broker) or not self._take(hit.broker):
            return False
        self.kill(hit.broker)
        return self._later(hit, lambda: self.boot(hit.broker))

    def _power(self, hit: Hit, rng: Random) -> bool:
        if not self.may_stop(hit.broker, loses=True) or not self._take(hit.broker):
            return False
        self.kill(hit.broker, power=True, rng=_torn(rng))
        return self._later(hit, lambda: self.boot(hit.broker))

    def _kill_ahead(self, hit: Hit, rng: Random) -> bool:
        """Its followers get nothing more while clients write; then it dies, and comes back with what only it has."""
        is_power = rng.random() < 0.3 and self.may_stop(hit.broker, loses=True)
        if not self.may_stop(hit.broker) or not self._take(hit.broker):
            return False
        self.losses.doom(hit.broker)
        ways = [(host_of(hit.broker), host_of(other), "follower") for other in BROKERS if other != hit.broker]
        for way in ways:
            self.cluster.network.cut(*way)

        def die() -> None:
            loses = is_power and self.may_stop(hit.broker, loses=True)
            self.kill(hit.broker, power=loses, rng=_torn(rng))
            for way in ways:
                self.cluster.network.heal(*way)

        ahead_seconds = rng.uniform(0.05, 0.3)
        self._loop.call_later(ahead_seconds, die)
        return self._later(hit._replace(seconds=ahead_seconds + hit.seconds), lambda: self.boot(hit.broker))

    def _pause(self, hit: Hit, rng: Random) -> bool:
        if not self._take(hit.broker):
            return False
        self.cluster.pause(hit.broker)
        return self._later(hit, lambda: self.cluster.resume(hit.broker))

    def _restart(self, hit: Hit, rng: Random) -> bool:
        if not self._take(hit.broker):
            return False
        self.spawn(self._stop_and_boot(hit))
        return True

    async def _stop_and_boot(self, hit: Hit) -> None:
        # A broker that is still starting cannot be stopped in good order.
        with suppress(TimeoutError):
            await self.cluster.stop(hit.broker)
        self.kill(hit.broker)
        self._later(hit, lambda: self.boot(hit.broker))

    def _roll(self, hit: Hit, rng: Random) -> bool:
        """Every broker is restarted in good order, one after the other is back."""
        if self.ailing:
            return False
        self._rolls += 1
        self.spawn(self._roll_all(rng.sample(BROKERS, len(BROKERS)), min(hit.seconds, 1.0)))
        return True

    async def _roll_all(self, broker_ids: list[int], seconds: float) -> None:
        for broker_id in broker_ids:
            if self._take(broker_id):
                await self._stop_and_boot(Hit(broker_id, seconds))
                while broker_id in self.ailing:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
                await asyncio.sleep(0.3)
        self._rolls -= 1


def _torn(rng: Random) -> Random | None:
    """Half of the time nothing is left but what was synced."""
    return rng if rng.random() < 0.5 else None
