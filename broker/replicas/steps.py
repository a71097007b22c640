"""Long work on the loop, in steps: nobody else waits for longer than one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

from minikafka.broker.clock import Clock

_T = TypeVar("_T")

STEP_MS: Final = 2


async def in_steps(items: Iterable[_T], clock: Clock) -> AsyncIterator[_T]:
    """Each of the items, as they are now, with a pause for others whenever a step is over.

    Whatever the items stand for may have changed, or be gone, when their turn comes.
    """
    until_ms = clock.monotonic_ms() + STEP_MS
    for item in [*items]:
        if clock.monotonic_ms() >= until_ms:
            await asyncio.sleep(0)
            until_ms = clock.monotonic_ms() + STEP_MS
        yield item
