"""What is watched while a run goes on, every few milliseconds and from outside: no broker knows of it.

Two leaders in one epoch, or a high watermark or last stable offset of a leader that goes back within its epoch, are
violations. Elections, changes of the ISR, truncations and moves of coordinators are counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

from minikafka.broker.replicas.partition import Partition
from minikafka.broker.zookeeper.topic_nodes import StateNode
from tests.sim.cluster import SimCluster

_STEP_SECONDS = 0.02
_INTERNAL = ("__consumer_offsets", "__transaction_state")


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


class Observer:
    """See the module's description."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self.counts: Counter[str] = Counter()
        self.reigns = Reigns()
        self._states: dict[str, StateNode] = {}
        self._versions: dict[str, int] = {}
        self._ends: dict[tuple[int, int, str, int], tuple[bytes, int]] = {}

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_STEP_SECONDS)

    def look(self) -> None:
        self._look_at_states()
        for broker_id, node in self._cluster.nodes.items():
            context = node.broker.context if node.is_running else None
            if context is None or not context.membership.is_registered:
                continue
            incarnation = context.membership.broker_epoch
            for partition in context.partitions.all.values():
                self._look_at(broker_id, incarnation, partition)

    def _look_at_states(self) -> None:
        for path, node in self._cluster.zookeeper.nodes.items():
            if not path.endswith("/state") or self._versions.get(path) == node.mzxid:
                continue
            self._versions[path] = node.mzxid
            state, before = StateNode.decode(path, node.data), self._states.get(path)
            self._states[path] = state
            if before is not None:
                is_moved = state.leader != before.leader
                self.counts["elections"] += state.leader_epoch != before.leader_epoch
                self.counts["isr_changes"] += set(state.isr) != set(before.isr)
                self.counts["coordinator_moves"] += is_moved and any(each in path for each in _INTERNAL)

    def _look_at(self, broker_id: int, incarnation: int, partition: Partition) -> None:
        log = partition.log
        key = (broker_id, incarnation, partition.topic, partition.index)
        topic_id, end = self._ends.get(key, (partition.topic_id, 0))
        self.counts["truncations"] += topic_id == partition.topic_id and log.log_end_offset < end
        self._ends[key] = (partition.topic_id, log.log_end_offset)
        if partition.leadership is not None:
            reign = Reign(partition.topic_id, partition.topic, partition.index, partition.leader_epoch)
            self.reigns.add(Sample(reign, broker_id, incarnation, log.high_watermark, log.last_stable_offset))
