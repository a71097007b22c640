"""Listening, counting connections, and stopping without cutting anybody off.

The port opens when `start` is called, which is when the broker can serve.  Stopping: no new connections, no
new requests, then the answers in flight go out; what is left after the grace period is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from minikafka.broker.clock import Clock
from minikafka.broker.network.connection import Connection, ConnectionLimits, Serve
from minikafka.protocol.frame import SCRATCH_BYTES

log: Final = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 1.0


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


class Server:
    """All listeners and connections of one broker."""

    def __init__(self, serve: Serve, limits: ServerLimits, clock: Clock) -> None:
        self.serve = serve
        self.limits = limits
        self.clock = clock
        # Every connection reads into it: reading and handling what was read are never apart.
        self.scratch = bytearray(4 * SCRATCH_BYTES)
        self._servers: list[asyncio.Server] = []
        self._per_ip: Counter[str] = Counter()
        self._sweeper: asyncio.Task[None] | None = None
        self._none_left = asyncio.Event()
        self.connections: set[Connection] = set()

    async def start(self, listeners: Iterable[Listener]) -> list[Listener]:
        """Open the ports; returns the listeners with the ports they really have."""
        loop = asyncio.get_running_loop()
        opened = []
        for listener in listeners:
            server = await loop.create_server(
                partial(_Counted, self, listener.name),
                listener.host or None,
                listener.port,
                backlog=self.limits.backlog,
                reuse_address=True,
            )
            self._servers.append(server)
            opened.append(listener._replace(port=server.sockets[0].getsockname()[1]))
        self._sweeper = asyncio.create_task(self._sweep())
        return opened

    async def stop(self, grace_seconds: float) -> None:
        for server in self._servers:
            server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
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
        """Count a connection in, unless there are too many."""
        host = connection.peer_host
        if len(self.connections) >= self.limits.connections_max:
            log.warning("%s: refused, %d connections are open", host, len(self.connections))
            return False
        if self._per_ip[host] >= self.limits.connections_per_ip_max:
            log.warning("%s: refused, it has %d connections already", host, self._per_ip[host])
            return False
        self.connections.add(connection)
        self._per_ip[host] += 1
        return True

    def dismiss(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)
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
            for connection in list(self.connections):
                silent_ms = now_ms - connection.last_active_ms
                limit_ms = self.limits.unfinished_frame_ms_max if connection.is_amid_frame else self.limits.idle_ms_max
                if silent_ms > limit_ms and not connection.is_busy:
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
            server.clock.monotonic_ms,
            server.dismiss,
        )
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._server.admit(self):
            self.abort()
