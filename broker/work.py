"""The seam to whatever goes on beside a request: tasks, and calls that would block the loop.

A task that nobody awaits is kept here until it ends, since the loop itself would let it vanish, and what it raises is
logged: it is a fault of ours. Blocking calls run on threads, which is right for what lets go of the interpreter: the
disk, a sync, compression. In a simulation both are the simulator's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

log: Final = logging.getLogger(__name__)

_T = TypeVar("_T")

_THREADS_MAX: Final = 8
"""More than a machine of this size has disks; threads are made when they are needed."""


class Work(Protocol):
    """See the module's description."""

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Let something go on by itself."""

    async def run_blocking(self, call: Callable[[], _T]) -> _T:
        """Do something elsewhere that would keep the loop waiting."""

    async def stop(self) -> None:
        """Cancel what goes on, and wait for calls that are under way."""


class LoopWork:
    """A Work on the running loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="minikafka")

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def run_blocking(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s ended by a fault", task.get_name(), exc_info=error)
