"""What is watched while a run goes on, from outside: no broker knows of it.

Every change of a partition's state in ZooKeeper is seen as it happens, so that one leader an epoch is exact; what
brokers say of their logs is looked at every few milliseconds. Two leaders in one epoch, an epoch that goes back, or a
high watermark or last stable offset of a leader that goes back within its epoch, are violations. Elections, leader
epochs, changes of the ISR, truncations and moves of coordinators are counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from minikafka.broker.replicas.partition import Partition
from minikafka.broker.zookeeper.topic_nodes import StateNode
from minikafka.storage.log import Log
from tests.sim.campaign.replicas import INTERNAL
from tests.sim.cluster import SimCluster
from tests.sim.memory_zookeeper import Node

_STEP_SECONDS = 0.02


class Reign(NamedTuple):
    """One leader epoch of one partition."""

    topic_id: bytes
    topic: str
    number: int
    epoch: int


class Sample(NamedTuple):
    """What a leader says of its log."""

    reign: Reign
    broker: int
    incarnation: int
    high_watermark: int
    last_stable_offset: int


class Reigns:
    """Judges samples of leaders."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._leaders: dict[Reign, int] = {}
        self._last: dict[tuple[Reign, int, int], Sample] = {}

    def add(self, sample: Sample) -> None:
        reign = sample.reign
        known = self._leaders.setdefault(reign, sample.broker)
        if known != sample.broker:
            self.violations.append(f"two-leaders: brokers {known} and {sample.broker} lead {reign[1:]}")
        key = (reign, sample.broker, sample.incarnation)
        last = self._last.get(key)
        self._last[key] = sample
        if last is None:
            return
        if sample.high_watermark < last.high_watermark:
            text = f"{last.high_watermark} to {sample.high_watermark} at broker {sample.broker} in {reign[1:]}"
            self.violations.append(f"high-watermark-back: {text}")
        if sample.last_stable_offset < last.last_stable_offset:
            text = f"{last.last_stable_offset} to {sample.last_stable_offset} at broker {sample.broker} in {reign[1:]}"
            self.violations.append(f"last-stable-offset-back: {text}")


class States:
    """Judges and counts the states of partitions, as ZooKeeper has them one after the other."""

    def __init__(self, on_unclean: Callable[[], None]) -> None:
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self._on_unclean = on_unclean
        self._states: dict[str, StateNode] = {}
        self._last_leader: dict[str, int] = {}

    def on_change(self, path: str, node: Node | None) -> None:
        if not path.endswith("/state"):
            return
        if node is None:
            self._states.pop(path, None)
            self._last_leader.pop(path, None)
            return
        state, before = StateNode.decode(path, node.data), self._states.get(path)
        self._states[path] = state
        if before is not None:
            self._compare(path, before, state)
        if state.leader >= 0:
            self._last_leader[path] = state.leader

    def _compare(self, path: str, before: StateNode, state: StateNode) -> None:
        if state.leader_epoch < before.leader_epoch:
            self.violations.append(f"epoch-back: {path} from {before.leader_epoch} to {state.leader_epoch}")
        if state.leader_epoch == before.leader_epoch and state.leader != before.leader:
            text = f"{before.leader} and {state.leader} in epoch {state.leader_epoch}"
            self.violations.append(f"two-leaders: {path} has {text}")
        is_elected = state.leader >= 0 and state.leader != self._last_leader.get(path)
        self.counts["elections"] += is_elected
        self.counts["leader_epochs"] += state.leader_epoch != before.leader_epoch
        self.counts["isr_changes"] += set(state.isr) != set(before.isr)
        self.counts["coordinator_moves"] += is_elected and any(topic in path for topic in INTERNAL)
        if state.unclean_epoch != before.unclean_epoch:
            self.counts["unclean_elections"] += 1
            self._on_unclean()


class Observer:
    """See the module's description."""

    def __init__(self, cluster: SimCluster, on_unclean: Callable[[], None]) -> None:
        self._cluster = cluster
        self.reigns = Reigns()
        self.states = States(on_unclean)
        self._truncations = 0
        self._generations: dict[Log, int] = {}
        for path, node in cluster.zookeeper.nodes.items():
            self.states.on_change(path, node)
        cluster.zookeeper.listeners.append(self.states.on_change)

    @property
    def counts(self) -> dict[str, int]:
        return {**self.states.counts, "truncations": self._truncations}

    @property
    def violations(self) -> list[str]:
        return [*self.states.violations, *self.reigns.violations]

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_STEP_SECONDS)

    def look(self) -> None:
        for broker_id, node in self._cluster.nodes.items():
            context = node.broker.context if node.is_running else None
            if context is None or not context.membership.is_registered:
                continue
            incarnation = context.membership.broker_epoch
            for partition in context.partitions.all.values():
                self._look_at(broker_id, incarnation, partition)

    def _look_at(self, broker_id: int, incarnation: int, partition: Partition) -> None:
        log = partition.log
        if log.generation:
            self._truncations += log.generation - self._generations.get(log, 0)
            self._generations[log] = log.generation
        if partition.leadership is not None:
            reign = Reign(partition.topic_id, partition.topic, partition.index, partition.leader_epoch)
            self.reigns.add(Sample(reign, broker_id, incarnation, log.high_watermark, log.last_stable_offset))
