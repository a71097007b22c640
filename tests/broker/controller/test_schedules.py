"""Brokers, sessions and topics that come and go by lot, and what must hold of all that was ever told.

A schedule is repeated by its seed. There is no chance in the in-memory ZooKeeper; sockets and the loop add a little.
"""

from __future__ import annotations

import asyncio
import gc
from collections import defaultdict
from contextlib import suppress
from itertools import pairwise
from random import Random

import pytest

from minikafka.broker.zookeeper.coord import Closed, CoordError, insist
from minikafka.broker.zookeeper.topic_nodes import NO_LEADER, TOPICS, StateNode, TopicNode, state_path, topic_path
from minikafka.protocol.control import LeaderAndIsrRequest, PartitionState
from minikafka.protocol.errors import KafkaError
from tests.broker.controller.fakes import FakeBroker, FakeCluster
from tests.broker.zookeeper.worlds import MemoryWorld

BROKERS = 4
STEPS = 25
SETTLE_SECONDS = 20.0


class Schedule:
    """One run."""

    def __init__(self, world: MemoryWorld, seed: int) -> None:
        self.rng = Random(seed)
        self.cluster = FakeCluster(world)
        self.world = world
        self.gone: list[FakeBroker] = []
        self.moves = (
            self.create,
            self.create,
            self.delete,
            self.grow,
            self.stop,
            self.start,
            self.start,
            self.expire,
            self.lose_answer,
            self.drop,
            self.depose,
            self.reassign,
        )

    @property
    def live(self) -> list[FakeBroker]:
        return list(self.cluster.brokers.values())

    @property
    def someone(self) -> FakeBroker:
        return self.rng.choice(self.live)

    async def play(self) -> None:
        for broker_id in range(1, BROKERS + 1):
            await self.cluster.add(broker_id)
        for _ in range(STEPS):
            # Whether it works is up to chance: what counts is what is left in the end.
            with suppress(CoordError, KafkaError):
                await self.rng.choice(self.moves)()
            for _ in range(self.rng.choice((0, 1, 20, 100))):
                await asyncio.sleep(0)
        for _ in range(BROKERS):
            await self.start()

    # ------------------------------------------------------------------------------------------------- the moves

    async def create(self) -> None:
        replicas = {
            index: self.rng.sample(range(1, BROKERS + 1), self.rng.randint(1, 3))
            for index in range(self.rng.randint(1, 3))
        }
        await self.someone.create(f"t{self.rng.randrange(4)}", replicas)

    async def delete(self) -> None:
        await self.someone.admin.request_deletion(f"t{self.rng.randrange(4)}")

    async def grow(self) -> None:
        await self.someone.admin.add_partitions(f"t{self.rng.randrange(4)}", self.rng.randint(2, 5))

    async def stop(self) -> None:
        if len(self.live) > 1:
            broker = self.someone
            del self.cluster.brokers[broker.broker_id]
            self.gone.append(broker)
            await broker.stop()

    async def start(self) -> None:
        missing = [each for each in range(1, BROKERS + 1) if each not in self.cluster.brokers]
        if missing:
            await self.cluster.add(self.rng.choice(missing))

    async def expire(self) -> None:
        broker = self.someone
        await self.world.expire(broker.coord)
        await broker.coord.connected()
        broker.work.spawn(self._register(broker), "registering again")

    async def _register(self, broker: FakeBroker) -> None:
        try:
            await broker.register()
        except Closed:
            return

    async def lose_answer(self) -> None:
        self.world.lose_answer(self.someone.coord, self.rng.randrange(10), done=self.rng.random() < 0.5)

    async def drop(self) -> None:
        self.world.drop(self.someone.coord)

    async def depose(self) -> None:
        await self.someone.coord.delete("/controller")

    async def reassign(self) -> None:
        active = [each for each in self.live if each.task.is_active]
        names = [each.name for broker in active for each in broker.task.controller.cluster.partitions()]
        if names:
            target = self.rng.sample(range(1, BROKERS + 1), self.rng.randint(1, 3))
            await active[0].task.controller.reassign({self.rng.choice(names): target})

    # -------------------------------------------------------------------------------------------- what must hold

    async def settle(self) -> None:
        """Until everybody knows what stands in ZooKeeper."""
        trouble: str | None = "not looked at yet"
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                while trouble is not None:
                    await asyncio.sleep(0.01)
                    trouble = await self._trouble()
        except TimeoutError:
            raise AssertionError(trouble) from None

    async def _trouble(self) -> str | None:
        broker = self.live[0]
        active = [each.broker_id for each in self.live if each.task.is_active]
        if len(active) != 1:
            return f"controllers: {active}"
        if wishes := await insist(broker.coord, lambda: broker.coord.children("/admin/delete_topics")):
            return f"still to be deleted: {wishes}"
        for topic in await insist(broker.coord, lambda: broker.coord.children(TOPICS)):
            if (trouble := await self._trouble_with(broker, topic)) is not None:
                return trouble
        known = {topic for each in self.live for topic in each.metadata.topics}
        there = set(await insist(broker.coord, lambda: broker.coord.children(TOPICS)))
        return None if known <= there else f"not there any more: {known - there}"

    async def _trouble_with(self, broker: FakeBroker, topic: str) -> str | None:
        data, _ = await broker.read(topic_path(topic))
        for index, assignment in TopicNode.decode(topic, data).partitions.items():
            if await insist(broker.coord, lambda: broker.coord.exists(state_path(topic, index))) is None:  # noqa: B023
                return f"{topic}-{index} has no state"
            data, stat = await broker.read(state_path(topic, index))
            state = StateNode.decode(topic, data)
            if state.leader == NO_LEADER or state.leader not in state.isr:
                return f"{topic}-{index}: {state}"
            if not set(state.isr) <= set(assignment.replicas):
                return f"{topic}-{index}: {state} with {assignment}"
            for each in self.live:
                told = each.metadata.partition(topic, index)
                if told is None or (told.leader_epoch, told.partition_epoch) != (state.leader_epoch, stat.version):
                    return f"{topic}-{index}: {state}, broker {each.broker_id} was told {told}"
                role = each.roles.get((topic, index))
                if each.broker_id in assignment.replicas and (role is None or role.leader_epoch != state.leader_epoch):
                    return f"{topic}-{index}: {state}, broker {each.broker_id} is {role}"
        return None

    def check_history(self) -> None:
        """One leader per epoch, and every leader was in the ISR before it."""
        history: dict[tuple[bytes, int], dict[tuple[int, int], PartitionState]] = defaultdict(dict)
        for broker in [*self.live, *self.gone]:
            for request in broker.told:
                for state in request.partitions if isinstance(request, LeaderAndIsrRequest) else ():
                    states = history[state.topic_id, state.partition]
                    before = states.setdefault((state.leader_epoch, state.partition_epoch), state)
                    assert (before.leader, before.isr) == (state.leader, state.isr)
        for states in history.values():
            ordered = [state for _, state in sorted(states.items())]
            for before, after in pairwise(ordered):
                if before.leader_epoch == after.leader_epoch:
                    assert before.leader == after.leader
                elif before.leader_epoch + 1 == after.leader_epoch and after.leader != NO_LEADER:
                    assert after.leader in before.isr, (before, after)


@pytest.mark.parametrize("seed", range(40))
async def test_everybody_agrees_in_the_end(seed: int) -> None:
    async with MemoryWorld() as world:
        schedule = Schedule(world, seed)
        try:
            await schedule.play()
            await schedule.settle()
            schedule.check_history()
        finally:
            await schedule.cluster.close()
            del schedule
            gc.collect()
