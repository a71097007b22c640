"""Clocks of one broker in a simulation: they go with the loop's time, and the wall clock can be set."""

from __future__ import annotations

import asyncio

WALL_MS = 1_750_000_000_000
"""What the wall clock says when a simulation begins."""

_UPTIME_MS = 1_000_000
"""A machine has been up for a while, so that no moment is 0 by chance."""


class SimClock:
    """A Clock."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ahead_ms = 0

    def monotonic_ms(self) -> int:
        return _UPTIME_MS + int(self._loop.time() * 1000)

    def wall_ms(self) -> int:
        return WALL_MS + self._ahead_ms + int(self._loop.time() * 1000)

    def uptime_ms(self) -> int:
        return self.monotonic_ms()

    def jump(self, ms: int) -> None:
        """Somebody sets the wall clock, forwards or backwards."""
        self._ahead_ms += ms
