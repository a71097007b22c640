"""Waiting in a test for what has no event of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def eventually(holds: Callable[[], object], timeout_seconds: float = 30.0) -> None:
    async with asyncio.timeout(timeout_seconds):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
