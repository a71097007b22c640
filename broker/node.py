"""One broker: its parts, put together, started and stopped in the right order.

Starting goes from the outside in: ZooKeeper, the configuration that is stored there, the logs, the registration, and
only then are connections accepted. Before that, whatever is sent to this address is meant for the process that had it
before, whose session may not have expired yet (KIP-380). Clients that come before the controller has sent what the
cluster looks like are kept waiting for that moment. Stopping goes the other way round, and ends with a clean marker in
every log directory and with the session, so that others take over at once.

What goes on as long as the broker does, fetching for one, has to: if it ends by a fault of ours the broker ends too,
rather than be a member that does half of its work.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from minikafka.broker.clock import Clock, SteadyClock, SystemClock
from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.config_watch import ConfigWatch, refresh_topics
from minikafka.broker.contact import Contact
from minikafka.broker.context import Context
from minikafka.broker.controller.task import ControllerTask
from minikafka.broker.coordinators.all import Coordinators
from minikafka.broker.coordinators.groups.group import Group
from minikafka.broker.descriptors import UNLIMITED
from minikafka.broker.features import SUPPORTED, registered
from minikafka.broker.limits import server_limits
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.membership import Membership
from minikafka.broker.metadata import Metadata
from minikafka.broker.network.dispatch import Dispatcher
from minikafka.broker.network.net import Net, TcpNet
from minikafka.broker.network.server import Listener, Server
from minikafka.broker.replicas.loading import close, load
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.replicas.upkeep import Upkeep
from minikafka.broker.replication.controller_link import ControllerLink
from minikafka.broker.replication.followers import Followers
from minikafka.broker.replication.hand_over import hand_over
from minikafka.broker.replication.isr import IsrProposals
from minikafka.broker.rng import Rng, system_rng
from minikafka.broker.routes import all_routes
from minikafka.broker.statistics import Statistics
from minikafka.broker.work import LoopWork, Work
from minikafka.broker.zookeeper.coord import Coord, Disconnected
from minikafka.broker.zookeeper.dir_failures import DirFailures
from minikafka.broker.zookeeper.registration import allocate_broker_id, ensure_cluster_id, ensure_persistent_paths
from minikafka.broker.zookeeper.zk import ZkCoord
from minikafka.broker.zookeeper.znodes import BrokerNode, Endpoint
from minikafka.storage.dir_identity import Identity, read_identity
from minikafka.storage.disk import Disk, RealDisk
from minikafka.storage.durability import Durability
from minikafka.storage.log_dirs import LogDirs

log: Final = logging.getLogger(__name__)

_GRACE_SECONDS: Final = 5.0
"""How long requests in flight may take when the broker stops."""


_LOOK_SECONDS: Final = 0.5


class BrokerFault(Exception):
    """Something has ended that a broker cannot do without."""


@dataclass(frozen=True)
class Seams:
    """Where time, tasks, network, disk and chance come from; a simulator has its own."""

    clock: Clock
    work: Work
    net: Net
    disk: Disk
    open_coord: Callable[[BrokerConfig], Awaitable[Coord]]
    rng: Rng


def real_seams() -> Seams:
    return Seams(SystemClock(), LoopWork(), TcpNet(), RealDisk(), _open_zookeeper, system_rng())


async def _open_zookeeper(config: BrokerConfig) -> Coord:
    coord = ZkCoord(
        config.zookeeper_connect,
        session_timeout_ms=config.zookeeper_session_timeout_ms,
        in_flight_max=config.zookeeper_max_in_flight_requests,
    )
    await coord.start(config.zookeeper_connection_timeout_ms / 1000)
    return coord


class Broker:
    """See the module's description."""

    def __init__(self, config: BrokerConfig, seams: Seams | None = None, fd_limit: int = UNLIMITED) -> None:
        self._fd_limit = fd_limit
        self._seams = seams or real_seams()
        self._steady_clock = SteadyClock(self._seams.clock)
        self.statistics = Statistics()
        self.metadata = Metadata()
        self.supported_features = SUPPORTED
        self.config = LiveConfig(config)
        self.addresses: list[Listener] = []
        self.context: Context | None = None
        self._coord: Coord | None = None
        self._server: Server | None = None
        self._upkeep: Upkeep | None = None
        self._controller: ControllerTask | None = None
        self._link: ControllerLink | None = None
        self.followers: Followers | None = None
        self._coordinators: Coordinators | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._fault: BrokerFault | None = None

    @property
    def is_controller(self) -> bool:
        return self._controller is not None and self._controller.is_active

    @property
    def groups(self) -> Iterator[Group]:
        """The consumer groups that are coordinated here."""
        shards = () if self._coordinators is None else self._coordinators.groups.shards
        return (group for shard in shards for group in shard.groups.values())

    # -------------------------------------------------------------------------------------------------- start

    async def start(self) -> None:
        """Come up; returns when clients are served. What is in the way is raised, and nothing is left behind."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        coord = self._coord = await self._seams.open_coord(self.config.broker)
        await ensure_persistent_paths(coord)
        cluster_id = await ensure_cluster_id(coord, _new_cluster_id(self._seams.rng))
        await self._settle_broker_id(coord)
        watch = ConfigWatch(coord, self.config, self._steady_clock)
        await watch.load()
        context = await self._open_logs(coord, cluster_id)
        dispatcher, server = await self._bind_ports(context)
        self._spawn(watch.run(), "configs")
        self._replicate(context)
        await context.membership.join(self._describe)
        self._spawn(context.membership.run(self._describe), "membership")
        await server.listen()
        assert self._controller is not None
        self._spawn(self._controller.run(), "controller")
        while not await self.metadata.wait_until(lambda: self.metadata.is_known, _LOOK_SECONDS):
            self.check()
        dispatcher.release()
        log.info("broker %d is ready at %s", context.broker_id, ", ".join(map(_shown, self.addresses)))

    async def _settle_broker_id(self, coord: Coord) -> None:
        """Use the id of the configuration, of the log directories, or one that nobody has had yet."""
        config = self.config.broker
        if config.broker_id < 0:
            known = [read_identity(self._seams.disk, each) for each in config.log_dirs]
            broker_id = next((each.broker_id for each in known if each is not None), -1)
            if broker_id < 0:
                broker_id = await allocate_broker_id(coord, config.reserved_broker_max_id)
            self.config.set_broker(config._replace(broker_id=broker_id))

    async def _open_logs(self, coord: Coord, cluster_id: str) -> Context:
        seams, config = self._seams, self.config.broker
        log_dirs = LogDirs(seams.disk, config.log_dirs)
        identity = Identity(config.broker_id, cluster_id)
        await load(log_dirs, identity, lambda topic: self.config.topic(topic).log, seams.work, seams.clock)
        clock = self._steady_clock
        clock.resume_after(log_dirs.last_written_ms)
        partitions = Partitions(
            config.broker_id, log_dirs, self.config, self.metadata, clock, seams.work, self.statistics
        )
        partitions.read_configs = self._read_configs
        partitions.descriptors.limit = self._fd_limit
        membership = Membership(coord, config.broker_id, config.zookeeper_session_timeout_ms, self.statistics.session)
        membership.on_lost = partitions.drop_roles
        self._upkeep = Upkeep(partitions, self.config, clock, seams.work)
        self._upkeep.start()
        self.context = Context(
            broker_id=config.broker_id,
            cluster_id=cluster_id,
            clock=seams.clock,
            steady_clock=clock,
            work=seams.work,
            rng=seams.rng,
            coord=coord,
            contact=Contact(coord, self.config, seams.clock),
            config=self.config,
            metadata=self.metadata,
            membership=membership,
            partitions=partitions,
        )
        return self.context

    def _replicate(self, context: Context) -> None:
        """Follow other leaders, and keep an eye on our own followers."""
        self._link = ControllerLink(context.broker_id, self._seams.net, self.config, self.metadata)
        self.followers = Followers(context, self._seams.net, self._spawn)
        proposals = IsrProposals(context, self._link)
        context.partitions.on_role_changed = self._on_role_changed
        context.partitions.on_proposal = proposals.add
        failures = DirFailures(context.coord, context.broker_id)
        context.partitions.on_dir_failed = failures.add
        self._spawn(failures.run(), "failed log directories")
        self._spawn(context.contact.run(), "contact with ZooKeeper")
        self._spawn(proposals.run(), "proposals for the ISR")
        self._spawn(proposals.watch_lag(), "followers' lag")
        assert self._coordinators is not None
        for name, work in self._coordinators.upkeep():
            self._spawn(work, name)

    async def _bind_ports(self, context: Context) -> tuple[Dispatcher, Server]:
        seams, config = self._seams, self.config.broker
        self._controller = ControllerTask(
            context.broker_id,
            context.coord,
            seams.net,
            seams.clock,
            seams.work,
            self.config,
            self.metadata,
            self.statistics.controller,
        )
        control = {config.inter_broker_listener_name, config.control_plane_listener_name or ""}
        coordinators = self._coordinators = Coordinators(context, seams.net)
        self.metadata.on_topics_deleted = coordinators.on_topics_deleted
        dispatcher = Dispatcher(all_routes(context, self._controller, coordinators), self.statistics, control)
        dispatcher.hold()
        server = self._server = Server(
            dispatcher,
            server_limits(config),
            seams.clock,
            seams.net,
            self.statistics,
            context.arrivals,
            context.partitions.descriptors,
        )
        self.config.add_listener(self._on_config)
        self.addresses = await server.bind(
            [Listener(each.name, each.host or "", each.port) for each in config.listeners]
        )
        return dispatcher, server

    # ------------------------------------------------------------------------------------------------ running

    def _describe(self) -> BrokerNode:
        """What to register, with the ports that are really ours."""
        config = self.config.broker
        protocols = {each.name: each.protocol.value for each in config.listeners}
        told: Iterable[Listener] = self.addresses
        if config.advertised_listeners is not None:
            told = [Listener(each.name, each.host or "", each.port) for each in config.advertised_listeners]
        endpoints = tuple(Endpoint(each.name, protocols[each.name], each.host, each.port) for each in told)
        return BrokerNode(
            endpoints,
            rack=config.broker_rack,
            features=registered(self.supported_features),
            timestamp_ms=self._seams.clock.wall_ms(),
            host=socket.gethostname(),
            previous_epoch=self._kept_since(),
            is_durable=self._is_durable(),
        )

    def _is_durable(self) -> bool:
        """Whether all that was ever acknowledged is here. What was on a disk that was replaced is not."""
        assert self.context is not None
        mode = Durability(self.config.broker.minikafka_durability)
        return mode is Durability.FSYNC and not self.context.partitions.log_dirs.has_new

    def _kept_since(self) -> int:
        """The broker epoch since which nothing was lost here; -1 if this process has yet to be registered first."""
        assert self.context is not None
        clean_epoch = self.context.partitions.log_dirs.clean_epoch
        return clean_epoch if clean_epoch >= 0 else self.context.membership.first_epoch

    def _on_role_changed(self, partition: Partition) -> None:
        assert self.followers is not None and self._coordinators is not None
        self.followers.on_role_changed(partition)
        self._coordinators.on_role_changed(partition)

    async def _read_configs(self, topics: Iterable[str]) -> None:
        assert self._coord is not None
        try:
            for complaint in await refresh_topics(self._coord, self.config, topics):
                log.warning("%s", complaint)
        except Disconnected as error:
            # They are read again, with all others, when the session is back.
            log.warning("the configs of topics to be opened cannot be read now: %s", error)

    def _on_config(self, topic: str | None) -> None:
        if topic is None and self._server is not None:
            self._server.limits = server_limits(self.config.broker)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Have something go on as long as the broker does."""
        task = self._seams.work.spawn(work, name)
        task.add_done_callback(self._on_ended)
        self._tasks.append(task)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fault = BrokerFault(f"{task.get_name()} ended by a fault: {error!r}")

    def check(self) -> None:
        """Raise BrokerFault if the broker cannot go on; whoever runs it looks from time to time."""
        if self._fault is not None:
            raise self._fault

    # --------------------------------------------------------------------------------------------------- stop

    async def stop(self) -> None:
        """Finish what is in flight, close the logs cleanly, and leave the cluster."""
        if self._link is not None and self.context is not None and self.config.broker.controlled_shutdown_enable:
            await hand_over(self.context, self._link)
        await _cancel(self._tasks)
        if self._coordinators is not None:
            self._coordinators.stop()
        if self._controller is not None:
            await self._controller.stop()
        if self._server is not None:
            await self._server.stop(_GRACE_SECONDS)
        if self.context is not None:
            await self.context.partitions.wait_told()
            # Roles that came last have begun to fetch.
            await _cancel(self._tasks)
        if self._upkeep is not None:
            await self._upkeep.stop()
        if self._link is not None:
            self._link.close()
        if self.context is not None:
            await self.context.partitions.wait_idle()
            log_dirs, broker_epoch = self.context.partitions.log_dirs, self.context.membership.last_epoch
            self.context.membership.stop()
            # If it was never registered, nobody relies on it but for what it was before.
            await close(log_dirs, max(broker_epoch, log_dirs.clean_epoch), self._seams.work)
        if self._coord is not None:
            await self._coord.close()
        await self._seams.work.stop()


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _new_cluster_id(rng: Rng) -> str:
    """Sixteen random bytes in Kafka's spelling, which begins with no dash."""
    while True:
        text = base64.urlsafe_b64encode(rng.randbytes(16)).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def _shown(listener: Listener) -> str:
    return f"{listener.name}://{listener.host}:{listener.port}"
