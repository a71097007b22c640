"""The way to the controller, whoever it is: a connection that is made when it is needed."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.endpoints import WILDCARDS
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.metadata import Metadata
from minikafka.broker.network.net import Net
from minikafka.broker.network.peer import Peer, PeerGone
from minikafka.protocol.control import LiveBroker
from minikafka.protocol.control_codec import ControlMessage

_A = TypeVar("_A", bound=ControlMessage)


def inter_broker_address(broker: LiveBroker, config: BrokerConfig, *, for_control: bool = False) -> tuple[str, int]:
    """Where brokers find each other; PeerGone if the broker has no such listener."""
    name = config.inter_broker_listener_name
    if for_control and config.control_plane_listener_name is not None:
        name = config.control_plane_listener_name
    for endpoint in broker.endpoints:
        if endpoint.listener == name:
            return broker.host if endpoint.host in WILDCARDS else endpoint.host, endpoint.port
    raise PeerGone(f"broker {broker.broker_id} has no listener {name}")


class ControllerLink:
    """See the module's description."""

    def __init__(self, broker_id: int, net: Net, config: LiveConfig, metadata: Metadata) -> None:
        self._client_id = f"broker-{broker_id}"
        self._net = net
        self._config = config
        self._metadata = metadata
        self._controller_id: int | None = None
        self._peer: Peer | None = None
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, request: ControlMessage, answer: type[_A]) -> _A:
        """Ask whoever is the controller now; PeerGone if nobody is, or it does not answer."""
        # Two who ask at once would both connect, and one connection be nobody's.
        async with self._one_at_a_time:
            peer = await self._connected()
        return await peer.ask_control(request, answer)

    async def _connected(self) -> Peer:
        controller_id = self._metadata.controller_id
        if self._peer is not None and self._peer.is_open and controller_id == self._controller_id:
            return self._peer
        self.close()
        broker = None if controller_id is None else self._metadata.brokers.get(controller_id)
        if broker is None:
            raise PeerGone("there is no controller")
        config = self._config.broker
        host, port = inter_broker_address(broker, config, for_control=True)
        timeout_seconds = config.controller_socket_timeout_ms / 1000
        self._peer = await Peer.connect(
            self._net, host, port, client_id=self._client_id, timeout_seconds=timeout_seconds
        )
        self._controller_id = controller_id
        return self._peer

    def close(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.close()
