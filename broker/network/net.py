"""The seam to the network: listening and connecting, with asyncio's protocols and transports on both sides."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, cast

_P = TypeVar("_P", bound=asyncio.BaseProtocol)


class Port(Protocol):
    """An address that is ours alone until it is closed; nobody is served there until it listens."""

    @property
    def number(self) -> int: ...

    async def listen(self) -> None:
        """Accept connections. OSError if it cannot be."""

    def close(self) -> None: ...


class Net(Protocol):
    """See the module's description."""

    async def bind(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int, backlog: int
    ) -> Port:
        """Take an address; port 0 takes a free one, no host means all interfaces. OSError if it cannot be."""

    async def connect(self, factory: Callable[[], _P], host: str, port: int) -> _P:
        """Open a connection; OSError if nobody answers."""


class _Refusal(asyncio.Protocol):
    """A connection that came too early."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


class _TcpPort:
    """A port of which the kernel knows from the beginning that it is taken.

    Two processes may bind one address as long as neither listens, and the second learns of the other only then. So the
    socket listens at once, and a peer that connects before `listen` is cut off.
    """

    def __init__(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self._factory = factory
        self._serves = False
        self._server: asyncio.Server | None = None

    async def open(self, host: str | None, port: int, backlog: int) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, host or None, port, backlog=backlog, reuse_address=True)

    def _accept(self) -> asyncio.BaseProtocol:
        return self._factory() if self._serves else _Refusal()

    @property
    def number(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def listen(self) -> None:
        self._serves = True

    def close(self) -> None:
        assert self._server is not None
        loop = self._server.get_loop()
        if not isinstance(loop, asyncio.SelectorEventLoop):
            self._server.close()
            return
        # Asyncio loses a connection that it has accepted and not handed over when its server is closed: stop accepting,
        # and let it do so first.
        for each in self._server.sockets:
            loop.remove_reader(each.fileno())
        loop.call_soon(loop.call_soon, self._server.close)


CLOSING_TURNS: Final = 4
"""Turns of the loop after which a port that was closed is closed, and whoever it had accepted is known."""


class TcpNet:
    """A Net of real sockets."""

    async def bind(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int, backlog: int
    ) -> Port:
        opened = _TcpPort(factory)
        await opened.open(host, port, backlog)
        return opened

    async def connect(self, factory: Callable[[], _P], host: str, port: int) -> _P:
        transport, protocol = await asyncio.get_running_loop().create_connection(factory, host, port)
        _send_at_once(transport.get_extra_info("socket"))
        return protocol


def _send_at_once(sock: Any) -> None:
    """Small requests are not to wait for more; uvloop and asyncio set this by themselves, other loops may not."""
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
