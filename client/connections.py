"""Connections to the brokers of a cluster: opened when they are needed, shared by all who need them.

A broker has one connection for each purpose. Requests that the broker may hold back for long (a JoinGroup waits for
all other members) go by a purpose of their own, so that nothing waits behind them. After a failure the next attempt
waits: a little first, more with each failure in a row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from minikafka.client.clock import Backoff
from minikafka.client.config import Address, ClientConfig, make_ssl_context
from minikafka.client.connection import Connection
from minikafka.client.errors import ClientClosed, ConnectionFailed
from minikafka.client.handshake import open_connection
from minikafka.client.shared import wait_shared
from minikafka.client.versions import Features
from minikafka.protocol.errors import KafkaError

_SCRATCH_BYTES: Final = 1 << 17

# All connections of a loop read into the same buffer: what was read is handled before anything else is read.
_scratches: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, bytearray]] = WeakKeyDictionary()


class Target(NamedTuple):
    """Whom to connect to, and what for."""

    address: Address
    purpose: str = ""


class Connections:
    """See the module's description."""

    def __init__(self, config: ClientConfig, rng: Random) -> None:
        self._config = config
        self._tls = make_ssl_context(config)
        self._backoff = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, rng)
        self._open: dict[Target, Connection] = {}
        self._opening: dict[Target, asyncio.Task[Connection]] = {}
        self._leaving: set[Connection] = set()
        self._failures: dict[Target, int] = {}
        self._is_closed = False
        self.features = Features()
        """The newest that any broker has sent."""

    def __iter__(self) -> Iterator[Connection]:
        return iter([*self._open.values()])

    def get_nowait(self, target: Target) -> Connection | None:
        """The connection if it is open."""
        connection = self._open.get(target)
        if connection is not None and connection.is_expired:
            self._retire(target, connection)
            return None
        return connection

    async def get(self, target: Target) -> Connection:
        """The connection, opened if need be; ConnectionFailed or AuthenticationFailed if that does not work."""
        if self._is_closed:
            raise ClientClosed
        connection = self.get_nowait(target)
        if connection is not None:
            return connection
        opening = self._opening.get(target)
        if opening is None:
            opening = asyncio.create_task(self._connect(target), name=f"connect to {target.address}")
            self._opening[target] = opening
            opening.add_done_callback(lambda task: self._opened(target, task))
        return await wait_shared(opening)

    async def _connect(self, target: Target) -> Connection:
        await asyncio.sleep(self._backoff.delay_s(self._failures.get(target, 0)))
        return await open_connection(target.address, self._config, self._tls, _scratch())

    def _opened(self, target: Target, task: asyncio.Task[Connection]) -> None:
        del self._opening[target]
        if task.cancelled():
            return
        if task.exception() is not None:
            self._failures[target] = self._failures.get(target, 0) + 1
            return
        connection = task.result()
        self.features = max(connection.features, self.features, key=lambda each: each.epoch)
        if self._is_closed or not connection.is_open:
            connection.close()
            return
        self._failures.pop(target, None)
        self._open[target] = connection
        connection.on_lost = lambda: self._lost(target, connection)

    def _lost(self, target: Target, connection: Connection) -> None:
        if self._open.get(target) is connection:
            del self._open[target]
        self._leaving.discard(connection)

    def _retire(self, target: Target, connection: Connection) -> None:
        """Let a connection whose login runs out end with its last answer; another one takes its place."""
        del self._open[target]
        if not connection.in_flight:
            connection.close()
            return
        self._leaving.add(connection)
        asyncio.get_running_loop().call_later(self._config.request_timeout_ms / 1000, connection.close)

    def drop(self, target: Target, why: KafkaError | None = None) -> None:
        """Give up a connection that is of no more use."""
        connection = self._open.get(target)
        if connection is not None:
            connection.break_off(ConnectionFailed(f"{target.address}: {why or 'not wanted any more'}"))

    def forget_failures(self) -> None:
        self._failures.clear()

    async def close(self) -> None:
        """End all connections, and wait until their sockets are closed."""
        self._is_closed = True
        opening = [*self._opening.values()]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        ending = [*self._open.values(), *self._leaving]
        for connection in ending:
            connection.close()
        await asyncio.gather(*(connection.wait_closed() for connection in ending))


def _scratch() -> bytearray:
    loop = asyncio.get_running_loop()
    found = _scratches.get(loop)
    if found is None:
        found = _scratches[loop] = bytearray(_SCRATCH_BYTES)
    return found
