"""A Work without threads: what would block is done in one go, a little later.

In between other things happen, as they would beside a thread. What a task raises that nobody awaits is remembered as a
fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")

Seconds = Callable[[], float]


class SimWork:
    """A Work."""

    def __init__(self, faults: list[str], seconds: Seconds) -> None:
        """`seconds` tells how long the next blocking call takes."""
        self._faults = faults
        self._seconds = seconds
        self._tasks: dict[asyncio.Task[None], None] = {}

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    async def run_blocking(self, call: Callable[[], _T]) -> _T:
        await asyncio.sleep(self._seconds())
        return call()

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._faults.append(f"{task.get_name()} ended by {error!r}")
