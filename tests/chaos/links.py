"""Connections between processes that can be cut: each goes through a relay of ours, for which no rights are needed.

A relay listens for everybody who wants to reach one process. Who it is that wants to is found out by the port the
connection comes from, or said beforehand where everybody has a relay of its own. Then two names make a link, which is

    open      everything passes
    silent    nothing passes and nothing is answered, as if every packet was dropped. What was sent meanwhile arrives
              after the heal, as it does by TCP: a peer that was long forgotten speaks up again.
    broken    connections are reset, and new ones too

The relays run in a thread with an event loop of their own, so that they are never late because a test is busy.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal, Self, TypeVar

State = Literal["open", "silent", "broken"]
Identify = Callable[[int], str]
"""From the inode of a socket to the name of its owner."""

T = TypeVar("T")

HOST = "127.0.0.1"
_CHUNK_BYTES = 1 << 16


class _Link:
    """From one process to another."""

    def __init__(self) -> None:
        self.state: State = "open"
        self.is_passing = asyncio.Event()
        self.is_passing.set()
        self.writers: set[asyncio.StreamWriter] = set()

    def change(self, state: State) -> None:
        self.state = state
        if state == "silent":
            self.is_passing.clear()
        else:
            self.is_passing.set()
        if state == "broken":
            for writer in self.writers:
                writer.transport.abort()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction of a connection, until one side ends it."""
        try:
            while True:
                data = await reader.read(_CHUNK_BYTES)
                await self.is_passing.wait()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            return
        finally:
            writer.close()


class Links:
    """See the module's description. Its methods are for other threads than its own."""

    def __init__(self, identify: Identify) -> None:
        self._identify = identify
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="links", daemon=True)
        self._links: dict[tuple[str, str], _Link] = defaultdict(_Link)
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self, port: int, destination: str, source: str = "") -> int:
        """A relay to a port; returns where it listens. Without a source everybody may use it."""
        return self._call(self._open(port, destination, source))

    def cut(self, ones: Iterable[str], others: Iterable[str], state: State = "silent") -> None:
        """Between any of some and any of others, both ways."""
        pairs = [(one, other) for one in ones for other in others]
        self._call(self._change([*pairs, *((other, one) for one, other in pairs)], state))

    def heal(self) -> None:
        self._call(self._heal())

    # In the thread of the relays

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _open(self, port: int, destination: str, source: str) -> int:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._relay(reader, writer, port, destination, source))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        server = await asyncio.start_server(accept, HOST, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _change(self, pairs: Iterable[tuple[str, str]], state: State) -> None:
        for pair in pairs:
            self._links[pair].change(state)

    async def _heal(self) -> None:
        for link in self._links.values():
            link.change("open")

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, destination: str, source: str
    ) -> None:
        link = self._links[source or self._identify(_inode_of_peer(writer)), destination]
        link.writers.add(writer)
        onward: asyncio.StreamWriter | None = None
        try:
            await link.is_passing.wait()
            if link.state == "broken":
                writer.transport.abort()
                return
            answers, onward = await asyncio.open_connection(HOST, port)
            link.writers.add(onward)
            await asyncio.gather(link.carry(reader, onward), link.carry(answers, writer))
        except OSError:
            # As it is without a relay where nobody listens.
            writer.transport.abort()
        finally:
            for each in (writer, onward):
                if each is not None:
                    link.writers.discard(each)
                    each.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


def _inode_of_peer(writer: asyncio.StreamWriter) -> int:
    """The socket at the other end of a connection within this machine."""
    ours = writer.get_extra_info("sockname")[1]
    theirs = writer.get_extra_info("peername")[1]
    wanted = (f":{theirs:04X}", f":{ours:04X}")
    with open("/proc/net/tcp") as lines:
        for line in lines:
            fields = line.split()
            if fields[1].endswith(wanted[0]) and fields[2].endswith(wanted[1]):
                return int(fields[9])
    return 0


def holds_socket(pid: int, inode: int) -> bool:
    """Whether a process has a socket open."""
    folder = f"/proc/{pid}/fd"
    try:
        return any(_target(f"{folder}/{name}") == f"socket:[{inode}]" for name in os.listdir(folder))
    except OSError:
        return False


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        # Closed in the meantime.
        return ""
