"""A relay between a client and ZooKeeper that loses things on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

_PING_XID = -2


class Frames:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self._rest = b""

    def split(self, data: bytes) -> list[bytes]:
        self._rest += data
        whole = []
        while len(self._rest) >= 4 and len(self._rest) >= (end := 4 + int.from_bytes(self._rest[:4])):
            whole.append(self._rest[:end])
            self._rest = self._rest[end:]
        return whole


def _xid(frame: bytes) -> int:
    """What a request and its answer have in common."""
    return int.from_bytes(frame[4:8], signed=True)


class Link:
    """One connection through the relay, to which one loss may happen."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        # Pass nothing on in either direction, but keep the connection.
        self.is_frozen = False
        self._loss: tuple[int, bool] | None = None
        self._lost_xid: int | None = None
        self._requests = Frames()
        self._answers = Frames()
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        self.client.close()
        self.server.close()

    def lose(self, skip: int, *, done: bool) -> None:
        self._loss = (skip, done)

    def requested(self, data: bytes) -> None:
        # A question of four letters is no frame.
        for frame in [data] if data == b"srvr" else self._requests.split(data):
            if self._loss is not None and _xid(frame) != _PING_XID:
                self._count_down(_xid(frame), *self._loss)
            if not self._is_closed and not self.is_frozen:
                self.server.write(frame)

    def _count_down(self, xid: int, skip: int, done: bool) -> None:
        self._loss = (skip - 1, done) if skip else None
        if not skip and done:
            self._lost_xid = xid
        elif not skip:
            self.close()

    def answered(self, data: bytes) -> None:
        if self._lost_xid is not None and self._lost_xid in map(_xid, self._answers.split(data)):
            # Its answer shows that the request was carried out.
            self.close()
        if not self._is_closed and not self.is_frozen:
            self.client.write(data)


class Proxy:
    """The relay; `port` is where it listens."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._links: list[Link] = []
        self._is_cut = False
        self.port = 0

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Break all connections, and take no more."""
        self.refuse()
        self.drop()

    def refuse(self) -> None:
        """Take no more connections, but leave those there are."""
        self._is_cut = True

    def heal(self) -> None:
        self._is_cut = False

    def drop(self) -> None:
        """Break all connections."""
        for link in self._links:
            link.close()
        self._links.clear()

    def freeze(self) -> None:
        """Let those there are fall silent."""
        for link in self._links:
            link.is_frozen = True

    def lose(self, skip: int, *, done: bool) -> None:
        """Break the connection at a request that comes after so many others, when or before it is carried out."""
        for link in self._links:
            link.lose(skip, done=done)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.close()
            return
        link = Link(writer, to_server)
        self._links.append(link)
        back = asyncio.create_task(_relay(from_server, link.answered, link))
        await _relay(reader, link.requested, link)
        await back


async def _relay(reader: asyncio.StreamReader, pass_on: Callable[[bytes], None], link: Link) -> None:
    try:
        while data := await reader.read(1 << 16):
            pass_on(data)
    except OSError:
        pass
    link.close()
