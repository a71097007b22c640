"""One broker without a network: its parts on a ZooKeeper and a disk in memory, and requests that go through as bytes.

Topics are put into its image of the cluster by hand, as the controller would. Nothing else is made up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from minikafka.broker.clock import SteadyClock, SystemClock
from minikafka.broker.contact import Contact
from minikafka.broker.context import Context
from minikafka.broker.coordinators.all import Coordinators
from minikafka.broker.handlers import fetch, produce
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.membership import Membership
from minikafka.broker.metadata import Metadata
from minikafka.broker.network.connection import Connection, ConnectionLimits
from minikafka.broker.network.dispatch import Dispatcher, Route
from minikafka.broker.network.net import TcpNet
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.rng import system_rng
from minikafka.broker.statistics import Statistics
from minikafka.broker.work import LoopWork, Work
from minikafka.broker.zookeeper.config_nodes import encode_config, topic_entity
from minikafka.broker.zookeeper.coord import Coord
from minikafka.broker.zookeeper.registration import ensure_path, ensure_persistent_paths
from minikafka.protocol.control import Endpoint, FeatureLevel, LiveBroker, PartitionState, UpdateMetadataRequest
from minikafka.protocol.message import Request
from minikafka.protocol.pipeline import Pipeline
from minikafka.storage.dir_identity import Identity
from minikafka.storage.log_dirs import LogDirs
from tests.broker.config.recorded import config_of
from tests.broker.zookeeper.worlds import MemoryWorld, World
from tests.sim.memory_disk import MemoryDisk

CLUSTER_ID = "sH7gnb5IQTqIGQveoWctog"
LISTENER = "PLAINTEXT"

# How the brokers of the recordings were started.
RECORDED = {
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
    "default.replication.factor": "1",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
}


class Station:
    """A broker; its id is 1, or as said. There are three, of which the first is the controller."""

    def __init__(self, context: Context, disk: MemoryDisk, routes: Callable[[Context], list[Route]]) -> None:
        self.context = context
        self.disk = disk
        self.dispatcher = Dispatcher(routes(context), context.partitions.statistics, control_listeners={LISTENER})
        self.connection = _connection(self.dispatcher)
        self._epoch = 0
        self.update_metadata()

    @property
    def live(self) -> LiveConfig:
        return self.context.config

    @property
    def coord(self) -> Coord:
        return self.context.coord

    def another_connection(self) -> Connection:
        return _connection(self.dispatcher)

    async def ask(self, request: Request, version: int, connection: Connection | None = None) -> Any:
        """The answer, after a way through both codecs."""
        pipeline = Pipeline[None]("test")
        frame = b"".join(pipeline.send(request, version, None))
        reply = self.dispatcher(connection or self.connection, bytearray(frame[4:]))
        parts = reply if isinstance(reply, list) or reply is None else await reply
        assert parts is not None
        return pipeline.receive(b"".join(parts)[4:])[1]

    def update_metadata(
        self,
        controller_id: int = 1,
        partitions: Sequence[PartitionState] = (),
        features: Sequence[FeatureLevel] = (),
        features_epoch: int = -1,
    ) -> None:
        brokers = [
            LiveBroker(
                broker_id=each,
                broker_epoch=each,
                endpoints=[
                    Endpoint(listener=LISTENER, security_protocol=LISTENER, host=f"broker-{each}", port=9090 + each)
                ],
            )
            for each in (1, 2, 3)
        ]
        self._epoch += 1
        told = UpdateMetadataRequest(
            controller_id=controller_id,
            controller_epoch=self._epoch,
            broker_epoch=1,
            brokers=brokers,
            partitions=list(partitions),
            is_full=not self.context.metadata.is_known,
            features=list(features),
            features_epoch=features_epoch,
        )
        self.context.metadata.update(told)

    async def add_topic(
        self, name: str, overrides: Mapping[str, str] | None = None, replicas: Sequence[int] = (1, 2, 3)
    ) -> None:
        """Make a topic of one partition known, and if it has a replica here, make its log."""
        await ensure_path(self.coord, f"/brokers/topics/{name}")
        await ensure_path(self.coord, topic_entity(name).node, encode_config(overrides or {}))
        self.live.store_topic(name, overrides or {})
        state = _state(name, list(replicas))
        self.update_metadata(partitions=[state])
        if self.context.broker_id in replicas:
            assert await self.context.partitions.apply([state], is_full=False) == {}


def coordinators(context: Context) -> Coordinators:
    """Those of a broker that reaches no other."""
    return Coordinators(context, TcpNet())


def with_data(context: Context) -> list[Route]:
    """Produce and Fetch."""
    return [*fetch.routes(context), *produce.routes(context, coordinators(context).verifier)]


def _state(topic: str, replicas: list[int]) -> PartitionState:
    return PartitionState(
        topic=topic,
        topic_id=topic.encode().ljust(16, b"\0")[:16],
        partition=0,
        leader=replicas[0],
        leader_epoch=0,
        isr=replicas,
        replicas=replicas,
        partition_epoch=0,
        controller_epoch=1,
        is_new=True,
    )


def _connection(dispatcher: Dispatcher) -> Connection:
    limits = ConnectionLimits(frame_bytes_max=1 << 20, in_flight_bytes_max=1 << 20)
    made = Connection(dispatcher, LISTENER, limits, bytearray(1 << 16), lambda _: None)
    made.local_address = ("dialled", 19092)
    return made


@asynccontextmanager
async def station(
    routes: Callable[[Context], list[Route]],
    settings: Mapping[str, str] | None = None,
    *,
    world: World | None = None,
    log_dirs: Sequence[str] = ("/data",),
    work: Work | None = None,
) -> AsyncIterator[Station]:
    """A broker with these routes, in a world of its own or in a shared one."""
    config = config_of({"broker.id": "1", "listeners": f"{LISTENER}://127.0.0.1:9092", **(settings or {})})
    clock, metadata, live, statistics = SystemClock(), Metadata(), LiveConfig(config), Statistics()
    disk, work = MemoryDisk(), work or LoopWork()
    dirs = LogDirs(disk, log_dirs)
    dirs.open(Identity(config.broker_id, CLUSTER_ID), clock.wall_ms())
    dirs.load_all(lambda topic: live.topic(topic).log, clock.wall_ms())
    async with MemoryWorld() as own:
        coord = await (world or own).open()
        await ensure_persistent_paths(coord)
        context = Context(
            broker_id=config.broker_id,
            cluster_id=CLUSTER_ID,
            clock=clock,
            steady_clock=SteadyClock(clock),
            work=work,
            rng=system_rng(),
            coord=coord,
            contact=Contact(coord, live, clock),
            config=live,
            metadata=metadata,
            membership=Membership(coord, config.broker_id, 6_000, statistics.session),
            partitions=Partitions(config.broker_id, dirs, live, metadata, clock, work, statistics),
        )
        try:
            yield Station(context, disk, routes)
        finally:
            await context.partitions.wait_idle()
            dirs.close()
            await work.stop()
