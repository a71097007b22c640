"""Tasks that go on for as long as the producer: if one ends by a mistake of ours, everybody is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from minikafka.client.errors import ClientError
from minikafka.protocol.errors import KafkaError

log: Final = logging.getLogger(__name__)


def watched(work: Coroutine[Any, Any, None], name: str, on_failure: Callable[[KafkaError], None]) -> asyncio.Task[None]:
    """Start a task. What it raises is told to `on_failure`: nobody would notice, and records wait for ever."""

    def ended(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            on_failure(unforeseen(name, error))

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(ended)
    return task


def unforeseen(what: str, error: BaseException) -> KafkaError:
    """An error that nothing was made for: logged with all there is to know, and told as a KafkaError."""
    log.error("%s failed", what, exc_info=error)
    failure = ClientError(f"{what} failed: {error!r}")
    failure.__cause__ = error
    return failure
