"""Listening, counting connections, and stopping without cutting anybody off.

Ports are taken first, since a registration names them, and serve when the broker is registered: a client that connects
before that is cut off, and turns to another broker (Kafka's SocketServer starts its acceptors as late).  Stopping: no
new connections, no new requests, then the answers in flight go out; what is left after the grace period is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from minikafka.broker.arrivals import Arrivals
from minikafka.broker.clock import Clock
from minikafka.broker.descriptors import Descriptors
from minikafka.broker.network.connection import Connection, ConnectionLimits
from minikafka.broker.network.net import CLOSING_TURNS, Net, Port, TcpNet
from minikafka.broker.network.reply import Serve
from minikafka.broker.network.shares import MEMORY_BYTES, Shares
from minikafka.broker.statistics import Statistics
from minikafka.protocol.frame import SCRATCH_BYTES

log: Final = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 1.0
_DEAF_MS_MAX: Final = 10_000
"""While memory is short: a peer that takes nothing for so long of what it asked for keeps others from being served."""

_SWEPT_AT_ONCE: Final = 500
"""A fraction of a millisecond; then requests get their turn."""


class Listener(NamedTuple):
    """An address to listen on; port 0 takes a free one."""

    name: str
    host: str
    port: int


class ServerLimits(NamedTuple):
    connection: ConnectionLimits
    connections_max: int
    connections_per_ip_max: int
    idle_ms_max: int
    unfinished_frame_ms_max: int
    backlog: int = 1024
    per_ip_overrides: Mapping[str, int] = MappingProxyType({})
    per_listener: Mapping[str, int] = MappingProxyType({})
    """Limits of listeners that have one of their own."""
    memory_bytes: int = MEMORY_BYTES
    """What all connections of clients may hold; see `shares`."""
    protected: frozenset[str] = frozenset()
    """Listeners of brokers, which `connections_max` does not keep out (KIP-402)."""


class Server:
    """All listeners and connections of one broker."""

    def __init__(
        self,
        serve: Serve,
        limits: ServerLimits,
        clock: Clock,
        net: Net | None = None,
        statistics: Statistics | None = None,
        arrivals: Arrivals | None = None,
        descriptors: Descriptors | None = None,
    ) -> None:
        self.descriptors = descriptors or Descriptors()
        self.descriptors.count_connections = lambda: len(self.connections)
        self.serve = serve
        self.limits = limits
        self.clock = clock
        self.statistics = (statistics or Statistics()).connections
        self._net = net or TcpNet()
        # Every connection reads into it: reading and handling what was read are never apart.
        self.shares = Shares(limits.memory_bytes, clock)
        self.scratch = bytearray(4 * SCRATCH_BYTES)
        self._ports: list[Port] = []
        self._per_ip: Counter[str] = Counter()
        self._sweeper: asyncio.Task[None] | None = None
        self._none_left = asyncio.Event()
        # In the order in which they came, so that a simulated run is the same every time.
        self.connections: dict[Connection, None] = {}
        self._arrivals = arrivals or Arrivals()
        self._is_stopping = False

    async def bind(self, listeners: Iterable[Listener]) -> list[Listener]:
        """Take the ports, or OSError; returns the listeners with the ports they really have."""
        bound = []
        for listener in listeners:
            factory = partial(_Counted, self, listener.name)
            port = await self._net.bind(factory, listener.host or None, listener.port, self.limits.backlog)
            self._ports.append(port)
            bound.append(listener._replace(port=port.number))
        return bound

    async def listen(self) -> None:
        """Accept connections."""
        self._sweeper = asyncio.create_task(self._sweep())
        for port in self._ports:
            await port.listen()

    async def stop(self, grace_seconds: float) -> None:
        # One that was accepted just now would else be left open.
        self._is_stopping = True
        for port in self._ports:
            port.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for _ in range(CLOSING_TURNS):
            await asyncio.sleep(0)
        for connection in list(self.connections):
            connection.drain()
        self._check_none_left()
        try:
            await asyncio.wait_for(self._none_left.wait(), grace_seconds)
        except TimeoutError:
            log.warning("%d connections were still busy after %.1f s", len(self.connections), grace_seconds)
            for connection in list(self.connections):
                connection.abort()

    # ------------------------------------------------------------------------------------------- connections

    def admit(self, connection: Connection) -> bool:
        """Count a connection in, unless there are too many, or no more are wanted."""
        if self._is_stopping:
            return False
        host, limits = connection.peer_host, self.limits
        if not connection.is_of_broker and len(self.connections) >= self.descriptors.connections_max:
            log.warning("%s: refused, the file descriptors that are left are for logs", host)
            return False
        own_limit, opened = limits.per_listener.get(connection.listener), self.statistics[connection.listener]
        is_full = len(self.connections) >= limits.connections_max and not self._make_room(connection)
        if is_full or (own_limit is not None and opened.opened - opened.closed >= own_limit):
            log.warning("%s: refused, %d connections are open", host, len(self.connections))
            return False
        if self._per_ip[host] >= limits.per_ip_overrides.get(host, limits.connections_per_ip_max):
            log.warning("%s: refused, it has %d connections already", host, self._per_ip[host])
            return False
        connection.number = self._arrivals.next()
        self.connections[connection] = None
        self._per_ip[host] += 1
        return True

    def _make_room(self, connection: Connection) -> bool:
        """Let a broker in although the limit is reached: who was silent for longest on another listener goes for it."""
        protected = self.limits.protected
        if connection.listener not in protected:
            return False
        others = [each for each in self.connections if each.listener not in protected]
        if others:
            victim = min(others, key=lambda each: (each.has_news, each.silent_since_ms, each.number))
            log.warning("%s: closing, a broker needs its place", victim.peer_host)
            self.dismiss(victim)
            victim.abort()
        return True

    def dismiss(self, connection: Connection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            self.statistics[connection.listener].closed += 1
            self._per_ip[connection.peer_host] -= 1
            if not self._per_ip[connection.peer_host]:
                del self._per_ip[connection.peer_host]
        self._check_none_left()

    def _check_none_left(self) -> None:
        if self.connections:
            self._none_left.clear()
        else:
            self._none_left.set()

    async def _sweep(self) -> None:
        """Close connections that have been silent for too long, sooner those that stopped amid a frame."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now_ms = self.clock.monotonic_ms()
            for number, connection in enumerate(list(self.connections), 1):
                self._look_at(connection, now_ms)
                if number % _SWEPT_AT_ONCE == 0:
                    await asyncio.sleep(0)

    def _look_at(self, connection: Connection, now_ms: int) -> None:
        if (
            self.shares.alone is connection
            and now_ms - self.shares.alone_since_ms > self.limits.unfinished_frame_ms_max
        ):
            # However steadily single bytes come: others wait for it.
            log.info("%s: closing, memory is short and others wait for its request", connection.peer_host)
            connection.abort()
            return
        if connection.is_alive():
            connection.silent_since_ms = now_ms
            return
        silent_ms = now_ms - connection.silent_since_ms
        limit_ms = self.limits.unfinished_frame_ms_max if connection.is_amid_frame else self.limits.idle_ms_max
        if self.shares.is_short and connection.unsent_bytes and not connection.is_of_broker:
            limit_ms = min(limit_ms, _DEAF_MS_MAX)
        if silent_ms > limit_ms and not connection.is_awaited:
            log.info("%s: closing, silent for %d ms", connection.peer_host, silent_ms)
            connection.abort()


class _Counted(Connection):
    """A connection that its server knows of."""

    def __init__(self, server: Server, listener: str) -> None:
        super().__init__(
            server.serve,
            listener,
            server.limits.connection,
            server.scratch,
            server.dismiss,
            server.shares,
        )
        self.is_of_broker = listener in server.limits.protected
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        statistics = self._server.statistics[self.listener]
        if self._server.admit(self):
            statistics.opened += 1
        else:
            statistics.refused += 1
            self.abort()
