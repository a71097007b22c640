"""The other brokers, as one of them asks them: a connection to each, made when it is first needed.

For what brokers ask each other now and then. Followers and the controller have connections of their own, since what
they ask may take long.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from minikafka.broker.live_config import LiveConfig
from minikafka.broker.metadata import Metadata
from minikafka.broker.network.net import Net
from minikafka.broker.network.peer import Peer, PeerGone
from minikafka.broker.replication.controller_link import inter_broker_address
from minikafka.protocol.message import Request

_DIAL_SECONDS: Final = 5.0


def client_id_of(broker_id: int) -> str:
    """How a broker calls itself when it asks others."""
    return f"broker-{broker_id}"


class Peers:
    """See the module's description."""

    def __init__(self, broker_id: int, net: Net, config: LiveConfig, metadata: Metadata) -> None:
        self.broker_id = broker_id
        self._net = net
        self._config = config
        self._metadata = metadata
        self._open: dict[int, Peer] = {}
        self._dialling: dict[int, asyncio.Lock] = {}

    async def ask(self, broker_id: int, request: Request, version: int, timeout_seconds: float) -> Any:
        """The answer of a broker; PeerGone if it is not there, or does not answer in time."""
        peer = self._open.get(broker_id)
        if peer is None or not peer.is_open:
            peer = await self._connected(broker_id)
        return await peer.ask(request, version, timeout_seconds)

    async def _connected(self, broker_id: int) -> Peer:
        async with self._dialling.setdefault(broker_id, asyncio.Lock()):
            peer = self._open.get(broker_id)
            if peer is not None and peer.is_open:
                return peer
            broker = self._metadata.brokers.get(broker_id)
            if broker is None:
                raise PeerGone(f"broker {broker_id} is not there")
            host, port = inter_broker_address(broker, self._config.broker)
            peer = await Peer.connect(
                self._net, host, port, client_id=client_id_of(self.broker_id), timeout_seconds=_DIAL_SECONDS
            )
            self._open[broker_id] = peer
            return peer

    def close(self) -> None:
        for peer in self._open.values():
            peer.close()
        self._open.clear()
