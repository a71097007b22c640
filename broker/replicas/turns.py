"""One thing after the other, and each to its end, whether or not somebody still waits for it.

What the controller wants is brought by a connection, and that may be lost while a disk is at work. If the work ended
with the connection, a log could come to be of which nobody here knows, and the next request make another one of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from minikafka.broker.work import Work

_T = TypeVar("_T")

BEGUN_AT_ONCE: Final = 100
"""Pieces of work that begin in one turn of the loop: some milliseconds, if each opens a log."""


class Turns:
    """See the module's description."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._one_at_a_time = asyncio.Lock()

    def take(self, act: Callable[[], Awaitable[_T]], name: str) -> asyncio.Future[_T]:
        """Have something done in the order of these calls; whoever stops waiting for it does not stop it."""
        done: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._work.spawn(self._run(act, done), name)
        return done

    async def _run(self, act: Callable[[], Awaitable[_T]], done: asyncio.Future[_T]) -> None:
        try:
            async with self._one_at_a_time:
                result = await act()
            if not done.done():
                done.set_result(result)
        except Exception as error:
            if done.done():
                raise
            done.set_exception(error)
        finally:
            # Nothing comes of it any more if the broker has stopped.
            done.cancel()


async def all_of(works: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """What came of all of them, when all have ended: a fault of one does not leave the others to go on unseen.

    They begin in order, so many in a turn of the loop: there may be ten thousand, and others are not to wait for all.
    """
    tasks: list[asyncio.Task[_T]] = []
    try:
        for work in works:
            tasks.append(asyncio.ensure_future(work))
            if len(tasks) % BEGUN_AT_ONCE == 0:
                await asyncio.sleep(0)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        raise
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]
