"""One seed: its names, random numbers, history and helpers that workloads share, and what came of it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import NamedTuple

from minikafka.client import Admin, KafkaError, NewTopic, TopicPartition
from tests.chaos.checker import Anomaly
from tests.client.campaign.clients import ConsumerSettings, Place, ProducerSettings, find
from tests.client.campaign.cluster import CampaignCluster
from tests.client.campaign.events import History
from tests.proxy.plan import Rule

FAULT_SECONDS = 4.5
"""How long a seed is disturbed."""

REPLICAS = (1, 2, 3)
_LOOK_SECONDS = 0.05
_INSIST_TRIES = 200


class Result(NamedTuple):
    """What came of one seed."""

    workload: str
    client: str
    seed: int
    seconds: float
    acked: int
    read: int
    counts: dict[str, int]
    """Rebalances, leader moves and what else the workload counts."""
    faults: dict[str, int]
    violations: list[str]


class Hang(Exception):
    """Something was not done in time."""


class Play:
    """See the module's description."""

    def __init__(self, workload: str, seed: int, client: str, cluster: CampaignCluster, admin: Admin) -> None:
        self.workload, self.seed = workload, seed
        self.cluster, self.admin = cluster, admin
        self.client_name, self.client = client, find(client)
        self.history = History()
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.acked = 0
        self.read = 0
        self.end = 0.0
        """When the disturbance ends."""
        self._prefix = f"{workload}-{seed}."
        self._topics: set[str] = set()

    # --------------------------------------------------------------------------------- names and random numbers

    def rng(self, name: str) -> Random:
        """Random numbers for one purpose, so that two tasks do not depend on each other's timing."""
        return Random(f"{self.workload}/{self.seed}/{name}")

    def name(self, what: str) -> str:
        return f"{self.workload}-{self.seed}-{what}"

    def producer_settings(self, name: str) -> ProducerSettings:
        return ProducerSettings(self.cluster.bootstrap, self._prefix + name)

    def consumer_settings(self, name: str) -> ConsumerSettings:
        return ConsumerSettings(self.cluster.bootstrap, self._prefix + name)

    # ------------------------------------------------------------------------------------------------- topics

    async def create(self, what: str, partitions: int) -> list[Place]:
        topic = self.name(what)
        await self.create_topic(topic, partitions)
        return [Place(topic, partition) for partition in range(partitions)]

    async def create_topic(self, topic: str, partitions: int) -> None:
        rng = self.rng(f"replicas of {topic}")
        replicas = {partition: rng.sample(REPLICAS, 3) for partition in range(partitions)}
        self._topics.add(topic)
        await self.admin.create_topics([NewTopic(topic, replica_assignments=replicas)])

    async def insist(self, call: Callable[[], Awaitable[object]]) -> None:
        """For those who prepare: again until it is done."""
        for _ in range(_INSIST_TRIES):
            if await self._succeeds(call):
                return
            await asyncio.sleep(_LOOK_SECONDS)
        raise AssertionError(f"it does not succeed within {_INSIST_TRIES} tries")

    async def _succeeds(self, call: Callable[[], Awaitable[object]]) -> bool:
        try:
            await call()
        except KafkaError:
            return False
        return True

    async def clean(self) -> None:
        await self.admin.delete_topics([*self._topics], raise_errors=False)

    async def move_leaders(self, places: Sequence[Place], pauses: Sequence[float]) -> None:
        """Other leaders for random partitions, until the disturbance ends."""
        rng = self.rng("moves")
        while not self.is_over:
            await asyncio.sleep(rng.choice(pauses))
            place = TopicPartition(*rng.choice(places))
            try:
                await self.admin.alter_partition_reassignments({place: rng.sample(REPLICAS, 3)})
                await asyncio.sleep(0.1)
                if (await self.admin.elect_leaders(partitions=[place])).get(place):
                    self.counts["leader moves"] += 1
            except KafkaError:
                self.counts["failed moves"] += 1

    # ------------------------------------------------------------------------------------------------- faults

    @asynccontextmanager
    async def disturbed(self, rules: Sequence[Rule]) -> AsyncIterator[None]:
        """Faults until `end`; leaving the block waits for what is still held back."""
        await self.cluster.proxy.begin(self._prefix, self.seed, rules)
        self.end = time.monotonic() + FAULT_SECONDS
        try:
            yield
        finally:
            await self.cluster.proxy.stop(self._prefix)

    async def end_faults(self) -> dict[str, int]:
        return dict(await self.cluster.proxy.end(self._prefix)) if self.end else {}

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    async def wait_until_over(self) -> None:
        await asyncio.sleep(max(0.0, self.end - time.monotonic()))

    # ----------------------------------------------------------------------------------------------- verdicts

    def blame(self, anomalies: Iterable[Anomaly]) -> None:
        self.violations += [f"{anomaly.kind} in {anomaly.partition}: {anomaly.text}" for anomaly in anomalies]

    @asynccontextmanager
    async def limit(self, seconds: float, what: str) -> AsyncIterator[None]:
        """A violation if the block is not done in time."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            self.violations.append(f"hang: {what} takes more than {seconds:g} s")
            raise Hang(what) from None

    async def wait_for(self, holds: Callable[[], object], seconds: float, what: str) -> bool:
        """Until a callable holds; False, and a violation, if it does not in time."""
        until = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > until:
                self.violations.append(f"hang: {what}: not after {seconds:g} s")
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return True
