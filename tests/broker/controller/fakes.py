"""Brokers that do what a controller says and remember it: real sockets, real sessions, no logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from typing import Any

from minikafka.broker.clock import SteadyClock, SystemClock
from minikafka.broker.contact import Contact
from minikafka.broker.context import Context
from minikafka.broker.controller.task import ControllerTask
from minikafka.broker.handlers import controller, metadata, replicas, topics
from minikafka.broker.handlers.control import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from minikafka.broker.limits import server_limits
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.metadata import Metadata
from minikafka.broker.network.dispatch import Call, Dispatcher, Operation, Resource, Route
from minikafka.broker.network.net import TcpNet
from minikafka.broker.network.server import Listener, Server
from minikafka.broker.rng import system_rng
from minikafka.broker.topic_admin import Plan, TopicAdmin
from minikafka.broker.work import LoopWork
from minikafka.broker.zookeeper.coord import Coord, Stat, Waker, insist
from minikafka.broker.zookeeper.registration import Registration, ensure_persistent_paths
from minikafka.broker.zookeeper.topic_nodes import StateNode, state_path
from minikafka.broker.zookeeper.znodes import BrokerNode, Endpoint
from minikafka.protocol.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    PartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from minikafka.protocol.errors import ErrorCode
from tests.broker.config.recorded import config_of
from tests.broker.zookeeper.worlds import World

Name = tuple[str, int]


class FakeBroker:
    """One broker of the cluster, registered in a session of its own."""

    def __init__(self, broker_id: int, coord: Coord, settings: Mapping[str, str]) -> None:
        self.broker_id = broker_id
        self.coord = coord
        self.config = LiveConfig(config_of(settings))
        self.metadata = Metadata()
        self.work = LoopWork()
        self.task = ControllerTask(broker_id, coord, TcpNet(), SystemClock(), self.work, self.config, self.metadata)
        self.admin = TopicAdmin(coord, self.config, self.metadata, system_rng())
        self.epoch = -1
        self.port = 0
        # What it was told, in order, and what it is by now.
        self.told: list[LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest] = []
        self.roles: dict[Name, PartitionState] = {}
        self.stopped: dict[Name, bool] = {}
        # How it answers.
        self.broken: set[Name] = set()
        self.refusal = ErrorCode.NONE
        self.opened = asyncio.Event()
        self.opened.set()
        self._server: Server | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self, *, stands: bool = True) -> None:
        """Listen, register, and unless told otherwise stand for election."""
        rows: list[tuple[Any, Callable[[Call], Awaitable[Any]]]] = [
            (LEADER_AND_ISR, self._leader_and_isr),
            (UPDATE_METADATA, self._update_metadata),
            (STOP_REPLICA, self._stop_replica),
        ]
        routes = [Route(api, handler, Operation.NONE, Resource.NONE, is_control=True) for api, handler in rows]
        context = self._context()
        routes += [*topics.routes(context, self.task), *controller.routes(context, self.task)]
        routes += [*metadata.routes(context), *replicas.routes(context, self.task)]
        dispatcher = Dispatcher(routes, control_listeners={"PLAINTEXT"})
        self._server = Server(dispatcher, server_limits(self.config.broker), SystemClock())
        (listener,) = await self._server.bind([Listener("PLAINTEXT", "127.0.0.1", self.port)])
        await self._server.listen()
        self.port = listener.port
        await self.register()
        if stands:
            self.stand()

    def _context(self) -> Context:
        """For handlers that have nothing to do with logs."""
        no_logs: Any = None
        no_membership: Any = None
        return Context(
            broker_id=self.broker_id,
            cluster_id="cluster",
            clock=SystemClock(),
            steady_clock=SteadyClock(SystemClock()),
            work=self.work,
            rng=system_rng(),
            coord=self.coord,
            contact=Contact(self.coord, self.config, SystemClock()),
            config=self.config,
            metadata=self.metadata,
            membership=no_membership,
            partitions=no_logs,
        )

    async def register(self) -> None:
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", self.port)
        node = BrokerNode((endpoint,), rack=self.config.broker.broker_rack, timestamp_ms=1)
        self.epoch = await Registration(self.coord, self.broker_id, 10).register(node)

    def stand(self) -> None:
        self._running = self.work.spawn(self.task.run(), f"controller task {self.broker_id}")

    async def sit_down(self) -> None:
        """Stop being the controller, without a word to anybody."""
        assert self._running is not None
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self.task.stop()

    async def stop(self) -> None:
        """Vanish, and with it the registration."""
        self.opened.set()
        await self.work.stop()
        if self._server is not None:
            await self._server.stop(1)
        await self.coord.close()

    # ----------------------------------------------------------------------------------------- being told

    async def _fenced(self, request: Any) -> ErrorCode:
        await self.opened.wait()
        if self.refusal:
            return self.refusal
        self.told.append(request)
        return ErrorCode.STALE_BROKER_EPOCH if request.broker_epoch < self.epoch else ErrorCode.NONE

    async def _leader_and_isr(self, call: Call) -> LeaderAndIsrResponse:
        request: LeaderAndIsrRequest = call.request
        if code := await self._fenced(request):
            return LeaderAndIsrResponse(error_code=code)
        if request.is_full:
            self.roles.clear()
        states = {(each.topic, each.partition): each for each in request.partitions}
        self.roles.update(states)
        errors = [
            PartitionError(topic=topic, partition=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
            for topic, index in states
            if (topic, index) in self.broken
        ]
        return LeaderAndIsrResponse(errors=errors)

    async def _update_metadata(self, call: Call) -> UpdateMetadataResponse:
        request: UpdateMetadataRequest = call.request
        if code := await self._fenced(request):
            return UpdateMetadataResponse(error_code=code)
        self.metadata.update(request)
        return UpdateMetadataResponse()

    async def _stop_replica(self, call: Call) -> StopReplicaResponse:
        request: StopReplicaRequest = call.request
        if code := await self._fenced(request):
            return StopReplicaResponse(error_code=code)
        for each in request.partitions:
            self.roles.pop((each.topic, each.partition), None)
            self.stopped[each.topic, each.partition] = each.delete
        return StopReplicaResponse()

    # ------------------------------------------------------------------------------------------ looking on

    def leader(self, topic: str, index: int = 0) -> int | None:
        """Who leads a partition, as far as this broker was told."""
        state = self.metadata.partition(topic, index)
        return None if state is None else state.leader

    async def create(self, topic: str, assignment: dict[int, list[int]]) -> bytes:
        """Make a topic with these replicas, any number of them."""
        return await self.admin.create(Plan(topic, {index: tuple(each) for index, each in assignment.items()}, {}))

    async def state(self, topic: str, index: int = 0) -> StateNode:
        """What stands in ZooKeeper, without the broker epochs, which differ from run to run."""
        path = state_path(topic, index)
        data, _ = await self.read(path)
        return StateNode.decode(path, data)._replace(broker_epochs={})

    async def read(self, path: str) -> tuple[bytes, Stat]:
        return await insist(self.coord, lambda: self.coord.get(path))

    async def until_gone(self, path: str) -> None:
        waker = Waker()
        while await self.coord.exists(path, waker) is not None:
            await waker.wait()

    async def until(self, holds: Callable[[], object], timeout_seconds: float = 10.0) -> None:
        """Wait for what this broker will have been told."""
        assert await self.metadata.wait_until(lambda: bool(holds()), timeout_seconds)

    async def until_isr(self, topic: str, index: int, isr: list[int]) -> None:
        def holds() -> bool:
            state = self.metadata.partition(topic, index)
            return state is not None and state.isr == isr

        await self.until(holds)

    async def until_epoch(self, epoch: int) -> None:
        """Wait until it has heard of a registration."""
        await self.until(lambda: epoch in [each.broker_epoch for each in self.metadata.brokers.values()])

    async def until_met(self, brokers: int) -> None:
        await self.until(lambda: len(self.metadata.brokers) >= brokers)

    async def until_led(self, leaders: Mapping[Name, int | None]) -> None:
        await self.until(lambda: all(self.leader(*name) == leader for name, leader in leaders.items()))


class FakeCluster:
    """Brokers 1, 2, ...: the first is the controller."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._stack = AsyncExitStack()
        self.brokers: dict[int, FakeBroker] = {}

    def __getitem__(self, broker_id: int) -> FakeBroker:
        return self.brokers[broker_id]

    async def add(
        self, broker_id: int, settings: Mapping[str, str] = MappingProxyType({}), *, stands: bool = True
    ) -> FakeBroker:
        coord = await self.world.open()
        await ensure_persistent_paths(coord)
        broker = self.brokers[broker_id] = FakeBroker(broker_id, coord, settings)
        self._stack.push_async_callback(broker.stop)
        await broker.start(stands=stands)
        return broker

    async def close(self) -> None:
        await self._stack.aclose()
        # Connections that were being accepted when their broker stopped are closed some turns of the loop later.
        for _ in range(20):
            await asyncio.sleep(0)


@asynccontextmanager
async def running(
    world: World, brokers: int, settings: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[FakeCluster]:
    """A cluster whose brokers all know everything."""
    cluster = FakeCluster(world)
    try:
        for broker_id in range(1, brokers + 1):
            await (await cluster.add(broker_id, settings)).until_met(1)
        for broker in cluster.brokers.values():
            await broker.until_met(brokers)
        yield cluster
    finally:
        await cluster.close()
