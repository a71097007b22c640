"""A relay between a client and ZooKeeper that loses things on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self


class Link:
    """One connection through the relay, to which one loss may happen."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        # Lose the answer to the next request, or the request itself.
        self.is_answer_lost = False
        self.is_request_lost = False
        # Pass nothing on in either direction, but keep the connection.
        self.is_frozen = False
        self._is_lost = False

    def close(self) -> None:
        self._is_lost = True
        self.client.close()
        self.server.close()

    def requested(self, data: bytes) -> None:
        if self.is_request_lost:
            self.close()
        elif not self._is_lost and not self.is_frozen:
            self.server.write(data)

    def answered(self, data: bytes) -> None:
        # By then the request has been carried out.
        if self.is_answer_lost:
            self.close()
        elif not self._is_lost and not self.is_frozen:
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
        self._is_cut = True
        self.drop()

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

    def lose(self, *, done: bool) -> None:
        """Break the connection at the next request, after or before it is carried out."""
        for link in self._links:
            link.is_answer_lost = done
            link.is_request_lost = not done

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
