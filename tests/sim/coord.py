"""The session of a simulated broker: what ZooKeeper says arrives within its process, and may be held up on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tests.sim.loop import Process
from tests.sim.memory_coord import Latency, MemoryCoord, Request
from tests.sim.memory_zookeeper import MemoryZooKeeper

_T = TypeVar("_T")


class SimCoord(MemoryCoord):
    """A session of a process: what it is told arrives there, whoever has caused it."""

    def __init__(self, server: MemoryZooKeeper, process: Process, latency: Latency) -> None:
        super().__init__(server, latency=latency)
        self._process = process
        self.is_cut_off = False
        self._awaited: tuple[str, str] | None = None
        self._awaited_answer: tuple[str, str] | None = None
        self.held: list[Callable[[], None]] = []

    @property
    def is_alive(self) -> bool:
        """Whether ZooKeeper still keeps the session."""
        return self._server.is_alive(self._session_id)

    def expire(self) -> None:
        if self.is_alive:
            super().expire()

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
        if _is_of(request, self._awaited) or self.held:
            self.held.append(partial(super()._arrive, request, act, answer))
        elif _is_of(request, self._awaited_answer):
            result = act(self._session_id)
            self.held.append(lambda: None if answer.done() else answer.set_result(result))
        else:
            super()._arrive(request, act, answer)

    def _notify(self, path: str) -> None:
        self._process.run(super()._notify, path)

    def _expired(self) -> None:
        self._process.run(super()._expired)


def _is_of(request: Request, awaited: tuple[str, str] | None) -> bool:
    return awaited is not None and awaited[0] == request.kind and awaited[1] in request.paths
