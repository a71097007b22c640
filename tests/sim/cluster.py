"""A whole cluster in one process and one thread: real brokers, and around them a world that does as it is told.

    cluster = await SimCluster.start()
    await cluster.create_topic()
    await cluster.client.produce(1, b"a")
    cluster.kill(1)                              kill -9: what it wrote stays in the page cache
    cluster.kill(1, power=True)                  and with it whatever was not synced
    await cluster.until(lambda: cluster.state().leader == 2)

Sessions with ZooKeeper end by time as real ones do: of whoever is dead, paused or cut off for too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, Self, TypeVar

from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.features import SUPPORTED
from minikafka.broker.node import Broker, Seams
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.zookeeper.coord import Coord, Delete
from minikafka.broker.zookeeper.topic_nodes import StateNode, state_path
from minikafka.broker.zookeeper.znodes import CONTROLLER, decode_controller
from tests.broker.config.recorded import config_of
from tests.sim.client import PORT, TOPIC, Entry, SimClient, entries, host_of
from tests.sim.clock import SimClock
from tests.sim.coord import SimCoord
from tests.sim.loop import Process
from tests.sim.memory_disk import MemoryDisk
from tests.sim.memory_zookeeper import MemoryZooKeeper
from tests.sim.net import Network
from tests.sim.work import SimWork

_T = TypeVar("_T")

SESSION_SECONDS = 6.0
LAG_SECONDS = 10.0

_SETTINGS = {
    "log.dirs": "/data",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
    "replica.lag.time.max.ms": str(int(LAG_SECONDS * 1000)),
    "auto.leader.rebalance.enable": "false",
    "log.cleaner.enable": "false",
    # Each boot and each kill copies the mapped indexes.
    "log.index.size.max.bytes": "65536",
}

_STEP_SECONDS = 0.001
_STEP_SECONDS_MAX = 0.005


class NotSo(AssertionError):
    """Something was waited for in vain."""


def tick() -> float:
    """How long a message or a blocking call takes, unless somebody wants to know it otherwise."""
    return 0.0005


class SimBroker:
    """A host with a disk, on which one broker after the other may run."""

    def __init__(self, cluster: SimCluster, broker_id: int, settings: Mapping[str, str]) -> None:
        self._cluster = cluster
        self.broker_id = broker_id
        self.host = host_of(broker_id)
        self.disk = MemoryDisk()
        self.clock = SimClock()
        self.rng = Random(f"{cluster.seed}/{broker_id}")
        own = {"broker.id": str(broker_id), "listeners": f"PLAINTEXT://{self.host}:{PORT}"}
        self._config: BrokerConfig = config_of(
            {**_SETTINGS, **own, **{name: value.replace("{id}", str(broker_id)) for name, value in settings.items()}}
        )
        self._process: Process | None = None
        self._broker: Broker | None = None
        self.slowness_seconds = 0.0
        """How much longer its blocking calls take than those of others."""
        self.coord: SimCoord | None = None
        self.supported_features = SUPPORTED
        """What it registers from its next start on; an earlier version registers none."""

    @property
    def process(self) -> Process:
        assert self._process is not None, f"{self.host} does not run"
        return self._process

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, f"{self.host} does not run"
        return self._broker

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def boot(self) -> asyncio.Task[None]:
        """Start a broker; done when it serves."""
        assert self._process is None
        self._process = Process(self.host)
        cluster = self._cluster
        work = SimWork(cluster.faults, lambda: cluster.seconds() + self.slowness_seconds)
        seams = Seams(self.clock, work, cluster.network.host(self.host), self.disk, self._open_coord, self.rng)
        self._broker = Broker(self._config, seams)
        self._broker.supported_features = self.supported_features
        return self._process.spawn(self._broker.start(), "start")

    async def _open_coord(self, _: BrokerConfig) -> Coord:
        cluster = self._cluster
        self.coord = SimCoord(cluster.zookeeper, self.process, lambda: cluster.seconds())
        await self.coord.start()
        return self.coord

    def end(self) -> SimCoord | None:
        """The process is no more."""
        self.process.kill()
        self.disk.process_died()
        self._process = self._broker = None
        coord, self.coord = self.coord, None
        return coord


class SimCluster:
    """See the module's description."""

    def __init__(self, brokers: int, settings: Mapping[str, str], seed: int = 0) -> None:
        self.seed = seed
        self._loop = asyncio.get_running_loop()
        self.seconds: Callable[[], float] = tick
        self.session_seconds = int({**_SETTINGS, **settings}["zookeeper.session.timeout.ms"]) / 1000
        self.faults: list[str] = []
        self.network = Network(lambda: self.seconds())
        self.zookeeper = MemoryZooKeeper(lambda: int(self._loop.time() * 1000))
        self.nodes = {each: SimBroker(self, each, settings) for each in range(1, brokers + 1)}
        self.client = SimClient(self.network)
        self.is_zookeeper_up = True
        self._orphans: list[SimCoord] = []
        # Sessions that would be over if ZooKeeper were there to end them.
        self._late: list[Callable[[], None]] = []

    @classmethod
    async def start(cls, brokers: int = 3, settings: Mapping[str, str] | None = None, seed: int = 0) -> Self:
        """All brokers up; the last is the controller. `{id}` in a setting is the id of the broker."""
        cluster = cls(brokers, settings or {}, seed)
        for each in reversed(cluster.nodes):
            await cluster.boot(each)
        return cluster

    # ------------------------------------------------------------------------------------------- processes

    async def boot(self, broker_id: int) -> None:
        """Start a broker, and wait until it serves."""
        async with asyncio.timeout(60):
            await self.nodes[broker_id].boot()

    def kill(self, broker_id: int, *, power: bool = False, rng: Random | None = None) -> None:
        """End a broker; without power, all that was not synced is gone, or with `rng` some of it."""
        node = self.nodes[broker_id]
        coord = node.end()
        self.network.lose(node.host, power=power)
        if power:
            node.disk = _image(node.disk, rng)
        if coord is not None:
            self._orphans.append(coord)
            self._expire_later(coord, lambda: True)

    async def stop(self, broker_id: int) -> None:
        """End a broker in good order."""
        node = self.nodes[broker_id]
        async with asyncio.timeout(60):
            await node.process.spawn(node.broker.stop(), "stop")
        node.end()
        self.network.lose(node.host, power=False)

    def pause(self, broker_id: int) -> None:
        """SIGSTOP; its session ends if it takes too long."""
        node = self.nodes[broker_id]
        process = node.process
        process.pause()
        if node.coord is not None:
            self._expire_later(node.coord, lambda: process.is_paused)

    def resume(self, broker_id: int) -> None:
        self.nodes[broker_id].process.resume()

    # -------------------------------------------------------------------------------------------- trouble

    def cut(self, one: int, other: int) -> None:
        """Two brokers do not reach each other."""
        self.network.cut_both(host_of(one), host_of(other))

    def heal(self, one: int, other: int) -> None:
        self.network.heal(host_of(one), host_of(other))
        self.network.heal(host_of(other), host_of(one))

    def isolate(self, broker_id: int) -> None:
        """A broker reaches no other broker, while its clients and ZooKeeper reach it."""
        for other in self.nodes.keys() - {broker_id}:
            self.cut(broker_id, other)

    def cut_zookeeper(self, broker_id: int) -> None:
        """A broker does not reach ZooKeeper; its session ends if it takes too long."""
        node = self.nodes[broker_id]
        coord = node.coord
        assert coord is not None
        coord.is_cut_off = True
        node.process.run(coord.cut)
        self._expire_later(coord, lambda: coord.is_cut_off)

    def heal_zookeeper(self, broker_id: int) -> None:
        node = self.nodes[broker_id]
        assert node.coord is not None
        node.coord.is_cut_off = False
        node.process.run(node.coord.heal)

    def stop_zookeeper(self) -> None:
        """Nobody reaches ZooKeeper; sessions are kept, as their time is counted by ZooKeeper itself."""
        self.is_zookeeper_up = False
        for node in self.nodes.values():
            if node.coord is not None:
                node.process.run(node.coord.cut)

    def start_zookeeper(self) -> None:
        self.is_zookeeper_up = True
        late, self._late = self._late, []
        for expire in late:
            self._loop.call_later(self.session_seconds, expire)
        for node in self.nodes.values():
            if node.coord is not None:
                node.process.run(node.coord.heal)

    def depose_controller(self) -> None:
        """What operators do: delete the node of the controller, whose session goes on."""
        session_id = self.zookeeper.open_session(lambda: None)
        self.zookeeper.write(session_id, Delete(CONTROLLER))

    def expire(self, broker_id: int) -> None:
        """ZooKeeper ends a session, whatever the broker does."""
        coord = self.nodes[broker_id].coord
        assert coord is not None
        coord.expire()

    def expire_dead(self) -> None:
        """ZooKeeper ends the sessions of all who died, before their time."""
        for coord in self._orphans:
            coord.expire()
        self._orphans.clear()

    def _expire_later(self, coord: SimCoord, still: Callable[[], bool]) -> None:
        """End a session if its broker is not heard of for too long."""

        def expire() -> None:
            if not self.is_zookeeper_up:
                self._late.append(expire)
            elif still():
                coord.expire()

        self._loop.call_later(self.session_seconds, expire)

    def background(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Have something done by nobody in particular."""
        return self._loop.create_task(work)

    # --------------------------------------------------------------------------------------------- looking

    async def until(self, holds: Callable[[], object], seconds: float = 60.0) -> None:
        """Let time pass until something is so."""
        deadline = self._loop.time() + seconds
        step_seconds = _STEP_SECONDS
        while not holds():
            if self._loop.time() >= deadline:
                raise NotSo(f"it did not come to that within {seconds} s")
            await asyncio.sleep(step_seconds)
            step_seconds = min(_STEP_SECONDS_MAX, 1.05 * step_seconds)

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    @property
    def controller_id(self) -> int | None:
        node = self.zookeeper.nodes.get(CONTROLLER)
        return None if node is None else decode_controller(node.data)

    def state(self, partition: int = 0) -> StateNode:
        """Who leads, as ZooKeeper has it."""
        path = state_path(TOPIC, partition)
        return StateNode.decode(path, self.zookeeper.nodes[path].data)

    def partition(self, broker_id: int, index: int = 0) -> Partition:
        context = self.nodes[broker_id].broker.context
        assert context is not None
        return context.partitions.all[TOPIC, index]

    def broker_epoch(self, broker_id: int) -> int:
        context = self.nodes[broker_id].broker.context
        assert context is not None
        return context.membership.broker_epoch

    def has_replica(self, broker_id: int, index: int = 0) -> bool:
        """Whether a broker is up and was told of a partition."""
        node = self.nodes[broker_id]
        context = node.broker.context if node.is_running else None
        return context is not None and (TOPIC, index) in context.partitions.all

    def leads(self, broker_id: int, index: int = 0) -> bool:
        """Whether a broker believes to lead, rightly or not."""
        return self.has_replica(broker_id, index) and self.partition(broker_id, index).leadership is not None

    def log(self, broker_id: int, index: int = 0) -> list[Entry]:
        """All records that a broker has, committed or not."""
        log = self.partition(broker_id, index).log
        return entries(log.plan_read(log.log_start_offset, 1 << 30, log.log_end_offset).run())

    def recovery_point_on_disk(self, broker_id: int, index: int = 0) -> int:
        return self.partition(broker_id, index).log_dir.checkpoints.recovery_points.offsets.get((TOPIC, index), 0)

    def values(self, broker_id: int, index: int = 0) -> list[bytes]:
        return [each.value for each in self.log(broker_id, index)]

    # ---------------------------------------------------------------------------------------------- topics

    async def create_topic(
        self, replicas: Sequence[Sequence[int]] = ((1, 2, 3),), configs: Mapping[str, str] | None = None
    ) -> None:
        """A topic, of which all replicas are in sync."""
        controller_id = self.controller_id
        assert controller_id is not None
        await self.client.create_topic(controller_id, replicas, configs or {})
        for index, each in enumerate(replicas):
            await self.until(partial(self._is_followed, index, each))

    def _is_followed(self, index: int, replicas: Sequence[int]) -> bool:
        leadership = self.partition(replicas[0], index).leadership
        return leadership is not None and all(each.log_end_offset >= 0 for each in leadership.followers.values())

    async def until_leads(self, broker_id: int, index: int = 0) -> None:
        await self.until(lambda: self.state(index).leader == broker_id and self.leads(broker_id, index))

    async def until_in_sync(self, *broker_ids: int, index: int = 0) -> None:
        await self.until(lambda: set(self.state(index).isr) == set(broker_ids))


def _image(disk: MemoryDisk, rng: Random | None) -> MemoryDisk:
    if rng is None:
        return next(disk.power_cut_images(Random(0), 1))
    return list(disk.power_cut_images(rng, 3))[2]


@contextmanager
def slower(cluster: SimCluster, seconds: Callable[[], float]) -> Iterator[None]:
    """Let messages take another time for a while."""
    before, cluster.seconds = cluster.seconds, seconds
    yield
    cluster.seconds = before
