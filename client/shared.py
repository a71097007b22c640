"""Waiting together for one task, and waiting for what must not be broken off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from minikafka.client.errors import ClientClosed

_T = TypeVar("_T")


async def wait_shared(task: asyncio.Task[_T]) -> _T:
    """What a task comes to, which others may wait for too: who is cancelled here does not take it away from them.

    A task that was itself cancelled is one of a client that was closed.
    """
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        waiting = asyncio.current_task()
        # Both may happen at once; whoever is cancelled must notice.
        if task.cancelled() and (waiting is None or not waiting.cancelling()):
            raise ClientClosed from None
        raise


async def see_through(
    work: Coroutine[Any, Any, None] | asyncio.Task[None], hurry: Callable[[], object] | None = None
) -> None:
    """Do something to its end, also if whoever wants it is cancelled meanwhile: closing leaves nothing behind.

    `hurry` is called when that happens."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
            if hurry is not None:
                hurry()
    if cancelled is not None:
        raise cancelled
    task.result()
