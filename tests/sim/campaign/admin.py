"""Faults that operators cause: they ask for something with the bundled admin while other things go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from minikafka.client import Admin, KafkaError, NewTopic, TopicPartition
from minikafka.client.admin import ConfigResource, ElectionType
from tests.sim.campaign.fault_disks import DiskFaults
from tests.sim.campaign.faults import Hit
from tests.sim.campaign.load import PARTITIONS, SERVERS, T, W
from tests.sim.campaign.plan import BROKERS
from tests.sim.campaign.settings import CHURNED
from tests.sim.loop import Process

Ask = Callable[[Admin], Coroutine[Any, Any, object]]
_PARTITIONS = tuple(TopicPartition(T, index) for index in PARTITIONS)


class Operators(DiskFaults):
    """See the module's description."""

    def _ask(self, ask: Ask, rng: Random) -> bool:
        clock = self.cluster.nodes[1].clock

        async def work() -> None:
            options: dict[str, Any] = {"bootstrap_servers": SERVERS, "request_timeout_ms": 2_000}
            with suppress(KafkaError, TimeoutError):
                async with Admin(clock=clock, rng=rng, default_api_timeout_ms=4_000, **options) as admin:
                    await ask(admin)

        self._tasks.add(task := Process("admin").spawn(work(), "ask"))
        task.add_done_callback(self._tasks.discard)
        return True

    def _unclean(self, hit: Hit, rng: Random) -> bool:
        """A broker falls out of sync, the others die, and an operator who cannot wait for them lets it lead."""
        if self.ailing or not all(node.is_running for node in self.cluster.nodes.values()):
            return False
        self.ailing.update(BROKERS)
        self.spawn(self._elect_unclean(hit, rng))
        return True

    async def _elect_unclean(self, hit: Hit, rng: Random) -> None:
        others = [broker_id for broker_id in BROKERS if broker_id != hit.broker]
        self.cluster.isolate(hit.broker)
        await asyncio.sleep(1.5 * self.plan.lag_ms / 1000 + hit.seconds)
        for broker_id in others:
            self.kill(broker_id)
        for broker_id in others:
            self.cluster.heal(hit.broker, broker_id)
        await asyncio.sleep(self.cluster.session_seconds + 0.2)
        self._ask(
            lambda admin: admin.elect_leaders(ElectionType.UNCLEAN, partitions=_PARTITIONS, raise_errors=False), rng
        )
        await asyncio.sleep(hit.seconds)
        for broker_id in others:
            self.boot(broker_id)
        self.ailing.clear()

    def _preferred(self, hit: Hit, rng: Random) -> bool:
        return self._ask(lambda admin: admin.elect_leaders(partitions=_PARTITIONS, raise_errors=False), rng)

    def _reassign(self, hit: Hit, rng: Random) -> bool:
        """Other replicas, fewer of them, or the move before is cancelled. The last move stands in the end."""
        partition = rng.choice(_PARTITIONS)
        target = None if rng.random() < 0.2 else rng.sample(BROKERS, rng.choice((2, 3)))
        return self._ask(
            lambda admin: admin.alter_partition_reassignments({partition: target}, raise_errors=False), rng
        )

    def _recreate(self, hit: Hit, rng: Random) -> bool:
        async def recreate(admin: Admin) -> None:
            await admin.delete_topics([CHURNED], raise_errors=False)
            await asyncio.sleep(rng.choice((0.0, 0.05, 0.5)))
            await admin.create_topics([NewTopic(CHURNED, 1, 3)], raise_errors=False)

        return self._ask(recreate, rng)

    def _add_partition(self, hit: Hit, rng: Random) -> bool:
        async def add(admin: Admin) -> None:
            await admin.create_partitions({W: rng.randint(2, 4)}, raise_errors=False)

        return self._ask(add, rng)

    def _alter_config(self, hit: Hit, rng: Random) -> bool:
        changes = {
            "segment.bytes": rng.choice(("2000", "8000")),
            "max.message.bytes": rng.choice(("500000", "1000000")),
        }
        return self._ask(
            lambda admin: admin.incremental_alter_configs({ConfigResource.topic(W): changes}, raise_errors=False), rng
        )
