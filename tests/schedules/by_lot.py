"""A cluster to which things happen by lot, with producers and consumers whose history is judged in the end.

One seed is one run: which kinds of trouble there are, how often, how fast the network is, and whether acks wait for the
disk. Power is lost only where they do: else losing all copies of what is in memory is no fault of a broker.

The history goes to the judge of the chaos tests. Besides, all replicas have to be equal when everything has been well
for a while.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import NamedTuple

from minikafka.broker.network.peer import PeerGone
from minikafka.protocol.errors import (
    FencedLeaderEpochError,
    KafkaError,
    LeaderNotAvailableError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)
from tests.chaos.checker import Verdict, check
from tests.chaos.history import Event, Seen
from tests.sim.client import Sequence5, SimClient, host_of
from tests.sim.cluster import NotSo, SimCluster

BROKERS = (1, 2, 3)
REPLICAS = ((1, 2, 3), (2, 3, 1))
STORM_SECONDS = 15.0
CALM_SECONDS = 90.0

_SETTINGS = {
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "1500",
    "replica.socket.timeout.ms": "2000",
    "controller.socket.timeout.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "log.flush.offset.checkpoint.interval.ms": "500",
}

_TRY_AGAIN = (
    PeerGone,
    LeaderNotAvailableError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)


class Outcome(NamedTuple):
    """What came of a run."""

    verdict: Verdict
    differences: list[str]
    faults: list[str]
    logs: list[object]

    @property
    def complaints(self) -> list[str]:
        return [*map(str, self.verdict.anomalies), *self.differences, *self.faults]


class Run:
    """One run; see the module's description."""

    def __init__(self, cluster: SimCluster, rng: Random, *, with_power_cuts: bool) -> None:
        self.cluster = cluster
        self.rng = rng
        self.events: list[Event] = []
        self.restarts: list[str] = []
        """Why brokers could not start."""
        self._loop = asyncio.get_running_loop()
        self._values = itertools.count()
        self._is_storm = True
        moves: list[Callable[[], object]] = [
            *(self._kill, self._pause, self._cut, self._cut_one_way, self._isolate, self._cut_zookeeper),
            *(self._expire, self._stop, self._depose, self._jump, self._reset, self._outage),
        ]
        if with_power_cuts:
            moves.append(self._lose_power)
        # Some kinds of trouble only, each seed its own: rare combinations come up sooner so.
        self._moves = rng.sample(moves, rng.randint(2, 6))
        self._pause_seconds = rng.choice((0.2, 0.5, 1.0))
        self._ailing: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, seed: int) -> Run:
        rng = Random(seed)
        is_strict = rng.random() < 0.5
        settings = {**_SETTINGS, "minikafka.durability": "fsync" if is_strict else "replicated"}
        cluster = await SimCluster.start(len(BROKERS), settings)
        await cluster.create_topic(REPLICAS)
        mean_seconds = rng.choice((0.0002, 0.001, 0.005))
        cluster.seconds = lambda: min(20 * mean_seconds, rng.expovariate(1 / mean_seconds))
        return cls(cluster, rng, with_power_cuts=is_strict)

    async def play(self) -> Outcome:
        producers = [
            self._begin(self._produce(f"producer {number}", partition, 1_000 + 10 * number + partition))
            for number in range(2)
            for partition in range(len(REPLICAS))
        ]
        for partition in range(len(REPLICAS)):
            self._begin(self._consume(f"consumer {partition}", partition))
        while self._loop.time() < STORM_SECONDS:
            await asyncio.sleep(self.rng.expovariate(1 / self._pause_seconds))
            self.rng.choice(self._moves)()
        await self._calm_down()
        differences = await self._settle(producers)
        logs: list[object] = []
        for partition in range(len(REPLICAS)):
            logs.append(await self._read_all(partition))
        return Outcome(check(self.events), differences, self.cluster.faults, logs)

    def _begin(self, work: object) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _note(self, process: str, kind: str, f: str, **fields: object) -> None:
        self.events.append(Event(self._loop.time(), process, kind, f, **fields))  # type: ignore[arg-type]

    # ------------------------------------------------------------------------------------------------- clients

    async def _produce(self, name: str, partition: int, producer_id: int) -> None:
        """Send one value after the other, each until it is acknowledged."""
        client = SimClient(self.cluster.network, name, 2.0)
        for number in itertools.count():
            if not self._is_storm:
                return
            value = next(self._values)
            self._note(name, "invoke", "send", partition=str(partition), value=value)
            sequence = Sequence5(producer_id, 0, number)
            offset = None
            while offset is None:
                offset = await self._send(client, partition, value, sequence, name)
                await asyncio.sleep(0.03 if offset is None else 0)
            self._note(name, "ok", "send", partition=str(partition), value=value, offset=offset)
            await asyncio.sleep(self.rng.choice((0.0, 0.05, 0.1)))

    async def _send(self, client: SimClient, partition: int, value: int, sequence: Sequence5, name: str) -> int | None:
        """Its offset, None if it has to be sent again."""
        data = b"%d" % value
        target = self._leader(partition) if self.rng.random() < 0.9 else self.rng.choice(BROKERS)
        try:
            return await client.produce(target, data, timeout_ms=1_000, sequence=sequence, partition=partition)
        except _TRY_AGAIN:
            return None
        except KafkaError as error:
            if not self._is_leader(target, partition):
                # It leads no more and does not know it, so it may miss what the producer has written since.
                return None
            self._note(name, "info", "fatal", partition=str(partition), note=repr(error))
            await asyncio.sleep(1)
            return None

    async def _consume(self, name: str, partition: int) -> None:
        client = SimClient(self.cluster.network, name, 2.0)
        position = 0
        self._note(name, "ok", "assign", partition=str(partition), offset=0)
        while self._is_storm:
            position = await self._poll(client, name, partition, position)
            await asyncio.sleep(0.1)

    async def _poll(self, client: SimClient, name: str, partition: int, position: int) -> int:
        epoch = self.cluster.state(partition).leader_epoch
        try:
            found = await client.fetch(self._leader(partition), position, partition=partition, leader_epoch=epoch)
        except OffsetOutOfRangeError as error:
            self._note(name, "fail", "poll", partition=str(partition), note=repr(error))
            return position
        except (FencedLeaderEpochError, UnknownLeaderEpochError, *_TRY_AGAIN):
            return position
        if found:
            records = tuple(Seen(str(partition), each.offset, int(each.value)) for each in found)
            self._note(name, "ok", "poll", records=records)
            return found[-1].offset + 1
        return position

    def _is_leader(self, broker_id: int, partition: int) -> bool:
        state, node = self.cluster.state(partition), self.cluster.nodes[broker_id]
        if state.leader != broker_id or not node.is_running or not self.cluster.leads(broker_id, partition):
            return False
        return self.cluster.partition(broker_id, partition).leader_epoch == state.leader_epoch

    def _leader(self, partition: int) -> int:
        leader = self.cluster.state(partition).leader
        return leader if leader > 0 else self.rng.choice(BROKERS)

    # ------------------------------------------------------------------------------------------------- trouble

    def _someone(self) -> int | None:
        """A broker with which nothing is wrong; it is told that now something is."""
        well = [each for each in BROKERS if each not in self._ailing and self.cluster.nodes[each].is_running]
        if not well or not self._is_storm:
            return None
        found = self.rng.choice(well)
        self._ailing.add(found)
        return found

    def _heal_later(self, broker_id: int, heal: Callable[[], object], seconds: float = 4.0) -> None:
        def mend() -> None:
            heal()
            self._ailing.discard(broker_id)

        self._loop.call_later(self.rng.uniform(0.01, seconds), mend)

    def _kill(self, *, power: bool = False) -> None:
        if (broker_id := self._someone()) is not None:
            self.cluster.kill(broker_id, power=power, rng=self.rng if self.rng.random() < 0.5 else None)
            self._heal_later(broker_id, lambda: self._boot(broker_id))

    def _lose_power(self) -> None:
        self._kill(power=True)
        if self.rng.random() < 0.5:
            self._kill(power=True)

    def _boot(self, broker_id: int) -> None:
        booting = self.cluster.nodes[broker_id].boot()
        self._begin(self._supervise(broker_id, booting))

    async def _supervise(self, broker_id: int, booting: asyncio.Task[None]) -> None:
        """A broker that cannot start is started again, as any supervisor would."""
        await asyncio.wait([booting])
        if not booting.cancelled() and booting.exception() is not None:
            self.restarts.append(repr(booting.exception()))
            self.cluster.kill(broker_id)
            await asyncio.sleep(1)
            self._boot(broker_id)

    def _stop(self) -> None:
        if (broker_id := self._someone()) is not None:
            self._begin(self._restart(broker_id))

    async def _restart(self, broker_id: int) -> None:
        # One that is still starting cannot be stopped in good order.
        with suppress(TimeoutError):
            await self.cluster.stop(broker_id)
        if self.cluster.nodes[broker_id].is_running:
            self.cluster.kill(broker_id)
        self._heal_later(broker_id, lambda: self._boot(broker_id))

    def _pause(self) -> None:
        if (broker_id := self._someone()) is not None:
            self.cluster.pause(broker_id)
            self._heal_later(broker_id, lambda: self.cluster.resume(broker_id), 5.0)

    def _cut_zookeeper(self) -> None:
        if (broker_id := self._someone()) is None:
            return
        if self.cluster.nodes[broker_id].coord is None:
            self._ailing.discard(broker_id)
            return
        self.cluster.cut_zookeeper(broker_id)
        self._heal_later(broker_id, lambda: self.cluster.heal_zookeeper(broker_id), 5.0)

    def _expire(self) -> None:
        broker_id = self.rng.choice(BROKERS)
        if self.cluster.nodes[broker_id].coord is not None:
            self.cluster.expire(broker_id)

    def _cut(self) -> None:
        one, other = self.rng.sample(BROKERS, 2)
        self.cluster.cut(one, other)
        self._loop.call_later(self.rng.uniform(0.01, 4.0), self.cluster.heal, one, other)

    def _cut_one_way(self) -> None:
        one, other = map(host_of, self.rng.sample(BROKERS, 2))
        client = self.rng.choice(("", "follower", "controller", "broker"))
        self.cluster.network.cut(one, other, client)
        self._loop.call_later(self.rng.uniform(0.01, 4.0), self.cluster.network.heal, one, other, client)

    def _isolate(self) -> None:
        self.cluster.isolate(self.rng.choice(BROKERS))
        self._loop.call_later(self.rng.uniform(0.01, 4.0), self.cluster.network.heal_all)

    def _reset(self) -> None:
        one, other = self.rng.sample(BROKERS, 2)
        self.cluster.network.reset(host_of(one), host_of(other))

    def _depose(self) -> None:
        if self.cluster.controller_id is not None:
            self.cluster.depose_controller()

    def _jump(self) -> None:
        """Somebody sets a clock: nothing of this may depend on it."""
        self.cluster.nodes[self.rng.choice(BROKERS)].clock.jump(self.rng.choice((-1, 1)) * 3_600_000)

    def _outage(self) -> None:
        if self.cluster.is_zookeeper_up and not self._ailing and self._is_storm:
            self._ailing.update(BROKERS)
            self.cluster.stop_zookeeper()
            self._loop.call_later(self.rng.uniform(0.1, 5.0), self._end_outage)

    def _end_outage(self) -> None:
        self.cluster.start_zookeeper()
        self._ailing.clear()

    # ------------------------------------------------------------------------------------------------- the end

    async def _calm_down(self) -> None:
        """No more trouble; what there is ends by itself."""
        self._is_storm = False
        await self.cluster.until(lambda: not self._ailing, CALM_SECONDS)
        self.cluster.network.heal_all()

    async def _settle(self, producers: list[asyncio.Task[None]]) -> list[str]:
        """Wait until all is as it should be; what is not."""
        with suppress(NotSo):
            await self.cluster.until(lambda: all(each.done() for each in producers) and self._is_whole(), CALM_SECONDS)
        differences = [f"still at work: {each.get_name()}" for each in producers if not each.done()]
        for partition, replicas in enumerate(REPLICAS):
            if set(self.cluster.state(partition).isr) != set(replicas):
                differences.append(f"partition {partition} ends with {self.cluster.state(partition)}")
            missing = [each for each in replicas if not self.cluster.has_replica(each, partition)]
            if missing:
                differences.append(f"partition {partition} is not at {missing}")
                continue
            logs = {each: self.cluster.log(each, partition) for each in replicas}
            if any(each != logs[replicas[0]] for each in logs.values()):
                differences.append(f"replicas of partition {partition} differ: {logs}")
        return differences

    def _is_whole(self) -> bool:
        for partition, replicas in enumerate(REPLICAS):
            state = self.cluster.state(partition)
            if set(state.isr) != set(replicas) or not self.cluster.leads(state.leader, partition):
                return False
            if not all(self.cluster.has_replica(each, partition) for each in replicas):
                return False
            log = self.cluster.partition(state.leader, partition).log
            if log.high_watermark < log.log_end_offset:
                return False
        return True

    async def _read_all(self, partition: int) -> list[bytes]:
        name = f"final {partition}"
        self._note(name, "ok", "assign", partition=str(partition), offset=0)
        found = self.cluster.log(self._leader(partition), partition)
        records = tuple(Seen(str(partition), each.offset, int(each.value)) for each in found)
        self._note(name, "ok", "poll", records=records)
        self._note(name, "info", "final")
        return [each.value for each in found]
