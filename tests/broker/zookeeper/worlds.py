"""The two worlds a Coord lives in: a real ZooKeeper and one in memory, with the same trouble in both."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from typing import Any, Protocol, Self

from kazoo.client import KazooClient

from minikafka.broker.zookeeper.coord import Coord, Session, SessionState
from minikafka.broker.zookeeper.embedded import ZooKeeperServer
from minikafka.broker.zookeeper.zk import ZkCoord
from tests.broker.zookeeper.zk_proxy import Proxy
from tests.sim.memory_coord import MemoryCoord
from tests.sim.memory_zookeeper import MemoryZooKeeper

SESSION_TIMEOUT_MS = 6_000

_numbers = itertools.count(1)


class World(Protocol):
    """A tree of its own, and sessions on it."""

    async def open(self) -> Coord: ...

    async def expire(self, coord: Coord) -> None:
        """End a session as ZooKeeper would. The Coord gets to know of it later."""

    def drop(self, coord: Coord) -> None:
        """Break the connection, which is then made again."""

    def cut(self, coord: Coord) -> None:
        """Break the connection until `heal`."""

    def heal(self, coord: Coord) -> None: ...

    def lose_answer(self, coord: Coord, skip: int = 0, *, done: bool) -> None:
        """Break the connection at a request that comes after so many others, when or before it is carried out."""


class MemoryWorld:
    """A World."""

    def __init__(self) -> None:
        self.server = MemoryZooKeeper()
        self._coords: list[MemoryCoord] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for coord in self._coords:
            await coord.close()

    async def open(self) -> MemoryCoord:
        coord = MemoryCoord(self.server)
        self._coords.append(coord)
        await coord.start()
        return coord

    async def expire(self, coord: Coord) -> None:
        _memory(coord).expire()

    def drop(self, coord: Coord) -> None:
        _memory(coord).drop()

    def cut(self, coord: Coord) -> None:
        _memory(coord).cut()

    def heal(self, coord: Coord) -> None:
        _memory(coord).heal()

    def lose_answer(self, coord: Coord, skip: int = 0, *, done: bool) -> None:
        _memory(coord).lose_answer(done=done, skip=skip)


class RealWorld:
    """A World below a node of its own. Every session goes through a relay."""

    def __init__(self, zookeeper: ZooKeeperServer) -> None:
        self.port = zookeeper.nodes[0].ports.client
        self.root = f"/world-{next(_numbers)}"
        self._stack = AsyncExitStack()
        self._proxies: dict[Coord, Proxy] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def open(self) -> ZkCoord:
        proxy = await self._stack.enter_async_context(Proxy(self.port))
        coord = ZkCoord(f"127.0.0.1:{proxy.port}{self.root}", session_timeout_ms=SESSION_TIMEOUT_MS)
        self._proxies[coord] = proxy
        await coord.start()
        self._stack.push_async_callback(coord.close)
        return coord

    async def expire(self, coord: Coord) -> None:
        assert isinstance(coord, ZkCoord)
        # Or the robbed one might be quick enough to take its session back.
        self._proxies[coord].refuse()
        await asyncio.to_thread(_steal, self.port, coord._client.client_id)
        self._proxies[coord].heal()

    def drop(self, coord: Coord) -> None:
        self._proxies[coord].drop()

    def cut(self, coord: Coord) -> None:
        self._proxies[coord].cut()

    def freeze(self, coord: Coord) -> None:
        self._proxies[coord].freeze()

    def heal(self, coord: Coord) -> None:
        self._proxies[coord].heal()

    def lose_answer(self, coord: Coord, skip: int = 0, *, done: bool) -> None:
        self._proxies[coord].lose(skip, done=done)


def _memory(coord: Coord) -> MemoryCoord:
    assert isinstance(coord, MemoryCoord)
    return coord


def _steal(port: int, session: Any) -> None:
    """End somebody's session by taking it over and closing it."""
    thief = KazooClient(f"127.0.0.1:{port}", timeout=SESSION_TIMEOUT_MS / 1000, client_id=session)
    thief.start()
    thief.stop()
    thief.close()


class Diary:
    """The states of a session, as they were announced."""

    def __init__(self, coord: Coord) -> None:
        self.sessions: list[Session] = []
        self._news = asyncio.Event()
        self.stop = coord.add_listener(self._write)

    def _write(self, session: Session) -> None:
        self.sessions.append(session)
        self._news.set()

    @property
    def states(self) -> list[SessionState]:
        return [session.state for session in self.sessions]

    async def until(self, state: SessionState) -> Session:
        """Wait for a state to be announced since the diary was begun."""
        while state not in self.states:
            self._news.clear()
            await self._news.wait()
        return next(session for session in self.sessions if session.state is state)
