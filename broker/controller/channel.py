"""What one broker has to be told, and telling it until it has heard.

Told is what holds: a channel remembers of which partitions its broker has to hear, and looks up what to say at the
moment of saying it. However long the broker takes, it is told the latest, once. One request is under way at a time, in
this order: roles first, then metadata once leaders have heard of theirs (see `gate`), then what to stop.

A broker that does not answer is told again, as long as it is registered under the same epoch. It may hear the same
twice, never something older after something newer. When it registers anew it gets a new channel, and is told all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from minikafka.broker.controller.gate import Gate
from minikafka.broker.controller.state import Broker, Cluster, Name
from minikafka.broker.network.net import Net
from minikafka.broker.network.peer import Peer, PeerGone
from minikafka.protocol.control import (
    FeatureLevel,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    StoppedPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from minikafka.protocol.control_codec import ControlMessage
from minikafka.protocol.errors import ErrorCode

log: Final = logging.getLogger(__name__)

_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})

PARTITIONS_MAX: Final = 1_000
"""In one request, unless it is a full one: putting together more keeps the loop from its other work."""

_RETRY_SECONDS: Final = 0.05
_RETRY_SECONDS_MAX: Final = 1.0


_V = TypeVar("_V")
_A = TypeVar("_A", LeaderAndIsrResponse, UpdateMetadataResponse, StopReplicaResponse)


class Heard(NamedTuple):
    """What a broker answered: by partition 0, or why not."""

    broker_id: int
    broker_epoch: int
    codes: dict[Name, int]


class Sender(NamedTuple):
    """What all channels of a controller have in common."""

    controller_id: int
    controller_epoch: int
    cluster: Cluster
    net: Net
    listener: Callable[[], str]
    timeout_seconds: Callable[[], float]
    on_roles: Callable[[Heard], None]
    on_stopped: Callable[[Heard], None]
    on_fenced: Callable[[], None]


class Refused(Exception):
    """The broker does not take anything from us any more."""


class Channel:
    """See the module's description."""

    def __init__(self, sender: Sender, broker: Broker, gate: Gate) -> None:
        self._sender = sender
        self._broker = broker
        self._gate = gate
        gate.shut(self)
        self._peer: Peer | None = None
        # What to tell. At first that is everything.
        self._all_roles = True
        self._all_metadata = True
        self._roles: dict[Name, bool] = {}
        self._metadata: dict[Name, None] = {}
        self._deleted: dict[str, None] = {}
        self._brokers_changed = False
        self._stops: dict[Name, StoppedPartition] = {}
        self._news = asyncio.Event()
        self._news.set()
        # Who wants to know when roles were heard of.
        self._listening: list[asyncio.Future[None]] = []
        # Who wants to know when there is nothing more to tell.
        self._all_ears: list[asyncio.Future[None]] = []
        self._is_closed = False

    @property
    def broker(self) -> Broker:
        return self._broker

    # ------------------------------------------------------------------------------------------- what to tell

    def tell_roles(self, names: Iterable[Name], *, is_new: bool = False) -> asyncio.Future[None]:
        """Tell it to lead or follow; done when it has heard, or will never hear."""
        for name in names:
            self._roles[name] = is_new or self._roles.get(name, False)
            self._stops.pop(name, None)
            partition = self._sender.cluster.partition(name)
            if partition is not None and partition.leader == self._broker.broker_id and not self._is_closed:
                self._gate.shut(self)
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            heard.set_result(None)
        else:
            self._listening.append(heard)
        self._news.set()
        return heard

    def tell_metadata(self, names: Iterable[Name] = (), deleted: Iterable[str] = ()) -> None:
        """Tell it of partitions and of topics that are gone, and in any case of all live brokers."""
        self._metadata.update(dict.fromkeys(names))
        self._deleted.update(dict.fromkeys(deleted))
        self._brokers_changed = True
        self._news.set()

    def stop_replicas(self, stops: Iterable[StoppedPartition]) -> None:
        for stop in stops:
            name = (stop.topic, stop.partition)
            self._stops[name] = stop
            self._roles.pop(name, None)
        self._news.set()

    def told(self) -> asyncio.Future[None]:
        """Done when the broker has heard all that there is to tell, or will never hear."""
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            heard.set_result(None)
        else:
            self._all_ears.append(heard)
        self._news.set()
        return heard

    # ------------------------------------------------------------------------------------------------- telling

    async def run(self) -> None:
        """Tell what there is to tell, until the broker refuses or this is cancelled."""
        pause_seconds = _RETRY_SECONDS
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                try:
                    await self._tell()
                    pause_seconds = _RETRY_SECONDS
                except PeerGone as gone:
                    log.info("broker %d has to be told again: %s", self._broker.broker_id, gone)
                    await asyncio.sleep(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, _RETRY_SECONDS_MAX)
                    self._news.set()
        except Refused as refused:
            log.warning("broker %d is told nothing more: %s", self._broker.broker_id, refused)
        finally:
            self._close()

    def on_open(self) -> None:
        """Metadata need not wait any longer."""
        self._news.set()

    async def _tell(self) -> None:
        while True:
            if self._all_roles or self._roles or self._listening:
                await self._tell_roles()
            elif self._all_metadata or self._brokers_changed:
                if self._gate.is_shut:
                    return
                await self._tell_metadata()
            elif self._stops:
                await self._tell_stops()
            else:
                listening, self._all_ears = self._all_ears, []
                _announce(listening)
                return

    async def _tell_roles(self) -> None:
        cluster, broker_id = self._sender.cluster, self._broker.broker_id
        is_full, self._all_roles = self._all_roles, False
        roles, self._roles = _split(self._roles, len(self._roles) if is_full else PARTITIONS_MAX)
        listening = list(self._listening)
        found = cluster.partitions_on(broker_id) if is_full else filter(None, map(cluster.partition, roles))
        states = [
            cluster.wire_state(each, is_new=roles.get(each.name, False))
            for each in found
            if each.state is not None and not each.topic.is_deleted and broker_id in each.replicas
        ]
        try:
            if states or is_full:
                kept = cluster.kept_topics() if is_full else []
                request = LeaderAndIsrRequest(**self._fence(), partitions=states, is_full=is_full, kept_topics=kept)
                answer = await self._ask(request, LeaderAndIsrResponse)
                names = [(each.topic, each.partition) for each in states]
                self._sender.on_roles(self._heard(names, answer.errors))
        except PeerGone:
            self._all_roles |= is_full
            # What was said of a partition meanwhile is newer.
            again = {name: is_new for name, is_new in roles.items() if name not in self._stops}
            self._roles = {**again, **{name: is_new or again.get(name, False) for name, is_new in self._roles.items()}}
            raise
        if not self._roles:
            self._gate.open(self)
            self._listening = [each for each in self._listening if each not in listening]
            _announce(listening)

    async def _tell_metadata(self) -> None:
        cluster = self._sender.cluster
        is_full, self._all_metadata = self._all_metadata, False
        names, self._metadata = _split(self._metadata, len(self._metadata) if is_full else PARTITIONS_MAX)
        deleted, self._deleted = self._deleted, {}
        if is_full:
            deleted |= dict.fromkeys(each.name for each in cluster.topics.values() if each.is_deleted)
        self._brokers_changed = bool(self._metadata)
        found = cluster.partitions() if is_full else filter(None, map(cluster.partition, names))
        request = UpdateMetadataRequest(
            **self._fence(),
            brokers=cluster.wire_brokers(),
            partitions=[cluster.wire_state(each) for each in found if each.state and not each.topic.is_deleted],
            deleted_topics=list(deleted),
            is_full=is_full,
            features=[FeatureLevel(name=name, level=level) for name, level in cluster.features.levels.items()],
            features_epoch=cluster.features.epoch,
        )
        try:
            await self._ask(request, UpdateMetadataResponse)
        except PeerGone:
            self._all_metadata |= is_full
            self._brokers_changed = True
            self._metadata = {**names, **self._metadata}
            self._deleted = {**deleted, **self._deleted}
            raise

    async def _tell_stops(self) -> None:
        stops, self._stops = _split(self._stops, PARTITIONS_MAX)
        try:
            request = StopReplicaRequest(**self._fence(), partitions=list(stops.values()))
            answer = await self._ask(request, StopReplicaResponse)
        except PeerGone:
            again = {name: stop for name, stop in stops.items() if name not in self._roles}
            self._stops = {**again, **self._stops}
            raise
        self._sender.on_stopped(self._heard(stops, answer.errors))

    def _fence(self) -> dict[str, Any]:
        return {
            "controller_id": self._sender.controller_id,
            "controller_epoch": self._sender.controller_epoch,
            "broker_epoch": self._broker.epoch,
        }

    def _heard(self, names: Iterable[Name], errors: Iterable[PartitionError]) -> Heard:
        codes = dict.fromkeys(names, int(ErrorCode.NONE))
        codes.update({(each.topic, each.partition): each.error_code for each in errors})
        return Heard(self._broker.broker_id, self._broker.epoch, codes)

    # -------------------------------------------------------------------------------------------- the connection

    async def _ask(self, request: ControlMessage, answer_class: type[_A]) -> _A:
        peer = await self._connected()
        answer = await peer.ask_control(request, answer_class, self._sender.timeout_seconds())
        if answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH:
            self._sender.on_fenced()
            raise Refused("it knows a newer controller")
        if answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
            # ZooKeeper will tell us of the new one.
            raise Refused("it has registered anew")
        if answer.error_code != ErrorCode.NONE:
            raise PeerGone(f"it answered {type(request).__name__} with {answer.error_code}")
        return answer

    async def _connected(self) -> Peer:
        if self._peer is None or not self._peer.is_open:
            sender = self._sender
            # It may have changed its address since.
            node = sender.cluster.brokers.get(self._broker.broker_id, self._broker).node
            endpoint = next((each for each in node.endpoints if each.listener == sender.listener()), None)
            if endpoint is None:
                raise PeerGone(f"it has no listener {sender.listener()}")
            self._peer = await Peer.connect(
                sender.net,
                # One that listens on all interfaces says separately where it is.
                node.host if endpoint.host in _WILDCARDS else endpoint.host,
                endpoint.port,
                client_id=f"controller-{sender.controller_id}",
                timeout_seconds=sender.timeout_seconds(),
            )
        return self._peer

    def _close(self) -> None:
        self._is_closed = True
        self._gate.open(self)
        if self._peer is not None:
            self._peer.close()
        _announce([*self._listening, *self._all_ears])
        self._listening, self._all_ears = [], []


def _split(items: dict[Name, _V], size: int) -> tuple[dict[Name, _V], dict[Name, _V]]:
    """So many of the first, and the rest; costs what is taken."""
    if len(items) <= size:
        return items, {}
    first = dict(islice(items.items(), size))
    for name in first:
        del items[name]
    return first, items


def _announce(listening: Iterable[asyncio.Future[None]]) -> None:
    for heard in listening:
        if not heard.done():
            heard.set_result(None)
