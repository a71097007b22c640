"""A Coord without a network: the same promises as `ZkCoord`, and every kind of trouble on demand.

Requests and answers travel in two lanes, in order, each for as long as `latency` says. What a lost connection finds in
the lanes is lost: requests were not carried out, or were if their answers were on the way back. By default everything
takes one turn of the event loop. There are no threads, no clock and no chance in here, so the same calls always lead to
the same run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from minikafka.broker.zookeeper.coord import (
    ANY_VERSION,
    AclPolicy,
    ConnectionLoss,
    CoordError,
    Create,
    Created,
    Delete,
    NoNode,
    Op,
    OpResult,
    Session,
    SessionState,
    Set,
    Stat,
    Waker,
    check_size,
    open_acl,
)
from minikafka.broker.zookeeper.session_desk import SessionDesk
from tests.sim.memory_zookeeper import MemoryZooKeeper, Node

_T = TypeVar("_T")

# Seconds that the next thing spends on its way.
Latency = Callable[[], float]


def no_latency() -> float:
    return 0.0


def call_after(seconds: float, call: Callable[[], None]) -> None:
    """At the next turn of the loop if there is no time to pass: two timers for now would be called in any order."""
    loop = asyncio.get_running_loop()
    if seconds > 0:
        loop.call_later(seconds, call)
    else:
        loop.call_soon(call)


class Request(NamedTuple):
    """One thing that was asked."""

    kind: str
    paths: tuple[str, ...]


class Fault(NamedTuple):
    """The connection is to break at this request, after or before it is carried out."""

    is_due: Callable[[Request], bool]
    is_done: bool


class Lane:
    """Calls that are made later, one after the other."""

    def __init__(self, latency: Latency) -> None:
        self._latency = latency
        self._calls: deque[Callable[[], None]] = deque()
        self._generation = 0

    def push(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        call_after(self._latency(), partial(self._next, self._generation))

    def clear(self) -> None:
        self._calls.clear()
        self._generation += 1

    def _next(self, generation: int) -> None:
        # Whichever timer is first makes the first call.
        if generation == self._generation:
            self._calls.popleft()()


class MemoryCoord(SessionDesk):
    """A Coord, and what may befall it."""

    def __init__(self, server: MemoryZooKeeper, *, acl: AclPolicy = open_acl, latency: Latency = no_latency) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self._server = server
        self._acl = acl
        self._latency = latency
        self._there = Lane(latency)
        self._back = Lane(latency)
        # The session as the client knows it: the server may have ended it.
        self._session_id = 0
        self._is_cut = False
        self._in_flight: dict[asyncio.Future[Any], None] = {}
        self._faults: list[Fault] = []

    async def start(self) -> None:
        self._later(self._connect)
        await self.connected()

    async def close(self) -> None:
        self.end_closed()
        self._lose_connection()
        if not self._is_cut:
            self._server.close_session(self._session_id)

    # Trouble

    def lose_answer(self, kind: str = "", *, path: str = "", done: bool, skip: int = 0) -> None:
        """Break the connection at the next request of a kind, on a path, after so many others of them."""
        left = skip

        def is_due(request: Request) -> bool:
            nonlocal left
            if kind not in ("", request.kind) or (path and path not in request.paths):
                return False
            left -= 1
            return left < 0

        self._faults.append(Fault(is_due, done))

    def drop(self) -> None:
        """Break the connection; the next one is made at once."""
        self._lose_connection()
        self.announce(Session(SessionState.SUSPENDED, self._session_id))
        self._later(self._connect)

    def cut(self) -> None:
        """Break the connection, and let there be none until `heal`."""
        self._is_cut = True
        self.drop()

    def heal(self) -> None:
        self._is_cut = False
        self._later(self._connect)

    def expire(self) -> None:
        """End the session, as ZooKeeper does when it has not heard from it for too long."""
        self._server.expire(self._session_id)

    def _expired(self) -> None:
        if self._session.state is SessionState.CONNECTED:
            self.drop()

    def _lose_connection(self) -> None:
        self._there.clear()
        self._back.clear()
        self._server.forget_watches(self._session_id)
        for answer in list(self._in_flight):
            if not answer.done():
                answer.set_exception(ConnectionLoss("the connection was lost before the answer came"))
        self._in_flight.clear()

    def _later(self, call: Callable[[], None]) -> None:
        call_after(self._latency(), call)

    def _connect(self) -> None:
        if self._is_cut or self._end is not None or self._session.state is SessionState.CONNECTED:
            return
        if self._session_id and not self._server.is_alive(self._session_id):
            self.announce(Session(SessionState.LOST, self._session_id))
            self._session_id = 0
            self._later(self._connect)
            return
        if not self._session_id:
            self._session_id = self._server.open_session(self._expired)
        self.announce(Session(SessionState.CONNECTED, self._session_id))

    # One operation

    async def _ask(self, kind: str, paths: tuple[str, ...], act: Callable[[int], _T]) -> _T:
        self.require_session()
        request = Request(kind, paths)
        self.requests.append(request)
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._in_flight[answer] = None
        self._there.push(lambda: self._arrive(request, act, answer))
        try:
            return await answer
        finally:
            self._in_flight.pop(answer, None)

    def _arrive(self, request: Request, act: Callable[[int], _T], answer: asyncio.Future[_T]) -> None:
        fault = next((fault for fault in self._faults if fault.is_due(request)), None)
        if fault is not None:
            self._faults.remove(fault)
            if not fault.is_done:
                self.drop()
                return
        try:
            result = act(self._session_id)
        except CoordError as error:
            failure = error
            self._back.push(lambda: None if answer.done() else answer.set_exception(failure))
        else:
            self._back.push(lambda: None if answer.done() else answer.set_result(result))
        if fault is not None:
            self.drop()

    # What a Coord does

    def _find(self, session_id: int, path: str) -> Node | None:
        return self._server.find(session_id, path)

    def _watch(self, path: str, waker: Waker | None, *, of_children: bool = False) -> None:
        if waker is not None:
            self._server.watch(self._session_id, path, self._notify, of_children=of_children)

    def _notify(self, path: str) -> None:
        self._back.push(lambda: self.fire(path))

    async def _read_node(self, kind: str, path: str, waker: Waker | None) -> Node:
        if waker is not None:
            self.arm(path, waker)

        def act(session_id: int) -> Node:
            node = self._find(session_id, path)
            self._watch(path, waker, of_children=kind == "children" and node is not None)
            if node is None:
                raise NoNode(path)
            return node

        return await self._ask(kind, (path,), act)

    async def get(self, path: str, waker: Waker | None = None) -> tuple[bytes, Stat]:
        node = await self._read_node("get", path, waker)
        return node.data, node.stat

    async def exists(self, path: str, waker: Waker | None = None) -> Stat | None:
        try:
            return (await self._read_node("exists", path, waker)).stat
        except NoNode:
            return None

    async def children(self, path: str, waker: Waker | None = None) -> list[str]:
        return sorted((await self._read_node("children", path, waker)).children)

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> Created:
        op = Create(path, data, ephemeral, sequence)
        check_size(op)

        def act(session_id: int) -> Created:
            made = self._server.write(session_id, op)
            assert isinstance(made, str)
            return Created(made, self._server.nodes[made].stat)

        return await self._ask("create", (path,), act)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        op = Set(path, data, version)
        check_size(op)
        stat = await self._ask("set", (path,), lambda session_id: self._server.write(session_id, op))
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        op = Delete(path, version)
        await self._ask("delete", (path,), lambda session_id: self._server.write(session_id, op))

    async def multi(self, *ops: Op) -> tuple[OpResult, ...]:
        assert ops
        check_size(*ops)
        paths = tuple(op.path for op in ops)
        return await self._ask("multi", paths, lambda session_id: self._server.multi(session_id, ops))

    async def sync(self) -> None:
        await self._ask("sync", ("/",), lambda session_id: None)
