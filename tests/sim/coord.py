"""The session of a simulated broker: what ZooKeeper says arrives within its process, and may be held up on the way.

Its server may fall behind the others: then it answers reads as of that moment, and wakes nobody, until it catches up.
That it does before it carries out a write or a sync of the session, and a new connection goes to a server that has not
fallen behind: a session never sees an older state than it has seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from minikafka.broker.zookeeper.coord import Waker
from tests.sim.loop import Process
from tests.sim.memory_coord import Latency, MemoryCoord, Request
from tests.sim.memory_zookeeper import MemoryZooKeeper, Node

_T = TypeVar("_T")


_READS = ("get", "exists", "children")


class SimCoord(MemoryCoord):
    """A session of a process: what it is told arrives there, whoever has caused it."""

    def __init__(self, server: MemoryZooKeeper, process: Process, latency: Latency) -> None:
        super().__init__(server, latency=latency)
        self._process = process
        self.is_cut_off = False
        self._awaited: tuple[str, str] | None = None
        self._awaited_answer: tuple[str, str] | None = None
        self.held: list[Callable[[], None]] = []
        self._view: dict[str, Node] | None = None
        self._missed: list[str] = []
        self._view_watches: list[tuple[str, bool]] = []

    @property
    def is_alive(self) -> bool:
        """Whether ZooKeeper still keeps the session."""
        return self._server.is_alive(self._session_id)

    def expire(self) -> None:
        if self.is_alive:
            super().expire()

    def fall_behind(self) -> bool:
        """From now on the server of the session knows of nothing new."""
        if self._view is not None or not self.is_alive:
            return False
        self._view = dict(self._server.nodes)
        return True

    def catch_up(self) -> None:
        view, self._view = self._view, None
        missed, self._missed = self._missed, []
        watches, self._view_watches = self._view_watches, []
        for path in missed:
            self._notify(path)
        for path, of_children in watches:
            before, now = (view or {}).get(path), self._server.nodes.get(path)
            if of_children and before is not None and now is not None:
                is_news = (before.czxid, before.children) != (now.czxid, now.children)
            else:
                is_news = before != now
            if is_news:
                self._notify(path)
            else:
                self._server.watch(self._session_id, path, self._notify, of_children=of_children)

    def _find(self, session_id: int, path: str) -> Node | None:
        node = super()._find(session_id, path)
        return node if self._view is None else self._view.get(path)

    def _watch(self, path: str, waker: Waker | None, *, of_children: bool = False) -> None:
        if self._view is None:
            super()._watch(path, waker, of_children=of_children)
        elif waker is not None:
            self._view_watches.append((path, of_children))

    def _lose_connection(self) -> None:
        super()._lose_connection()
        self._view = None
        self._missed.clear()
        self._view_watches.clear()

    def hold(self, kind: str, path: str) -> None:
        """Let something that is asked be on its way until `release`, and with it all that is asked later."""
        self._awaited = (kind, path)

    def hold_answer(self, kind: str, path: str) -> None:
        """Let something be carried out, and its answer be on its way until `release`, with all that is asked later."""
        self._awaited_answer = (kind, path)

    def release(self) -> None:
        self._awaited = self._awaited_answer = None
        late, self.held = self.held, []
        for arrive in late:
            arrive()

    def _arrive(self, request: Request, act: Callable[[int], _T], answer: asyncio.Future[_T]) -> None:
        if request.kind not in _READS:
            self.catch_up()
        if _is_of(request, self._awaited) or self.held:
            self.held.append(partial(super()._arrive, request, act, answer))
        elif _is_of(request, self._awaited_answer):
            result = act(self._session_id)
            self.held.append(lambda: None if answer.done() else answer.set_result(result))
        else:
            super()._arrive(request, act, answer)

    def _notify(self, path: str) -> None:
        if self._view is not None:
            self._missed.append(path)
            return
        self._process.run(super()._notify, path)

    def _expired(self) -> None:
        self._process.run(super()._expired)


def _is_of(request: Request, awaited: tuple[str, str] | None) -> bool:
    return awaited is not None and awaited[0] == request.kind and awaited[1] in request.paths
