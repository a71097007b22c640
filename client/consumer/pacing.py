"""A program that reads without ever waiting still lets the event loop run: heartbeats, fetching, all other tasks.

Every 20 ms a call waits for some passes of the loop, so that other tasks run at least every 50 ms. A look at the clock
for each record would be too much, so records are handed out in slices. A slice has 128 records at most, and only one
after a slice that took long: what the program does for one record is the program's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Final, TypeVar

from minikafka.client.clock import Clock

_BUSY_MS_MAX: Final = 20
_PASSES: Final = 3
"""One finds that a timer is due, one runs what waits for it, and the reader is the first in each of them."""

_SLICE_MS_MAX: Final = 4
_SLICE_MAX: Final = 128

_T = TypeVar("_T")


class Pacing:
    """See the module's description."""

    def __init__(self, clock: Clock) -> None:
        self._now_ms = clock.monotonic_ms
        self._loop_ran_at_ms = 0
        self._slice = 1
        self._slice_since_ms = 0

    def loop_ran(self) -> None:
        """Something else than the program runs now."""
        self._loop_ran_at_ms = self._now_ms()

    @property
    def is_due(self) -> bool:
        """Whether it is time for the loop to run."""
        return self._now_ms() - self._loop_ran_at_ms >= _BUSY_MS_MAX

    async def let_loop_run(self) -> bool:
        for _ in range(_PASSES):
            await asyncio.sleep(0)
        self.loop_ran()
        return True

    def cut(self, rest: Iterator[_T], *, is_first: bool = False) -> Iterator[_T]:
        """The next slice; nothing if the loop is to run before, unless it is the first one since then."""
        now_ms = self._now_ms()
        if not is_first and now_ms - self._loop_ran_at_ms >= _BUSY_MS_MAX:
            return iter(())
        is_quick = now_ms - self._slice_since_ms <= _SLICE_MS_MAX
        if not is_quick:
            self._slice = 1
        elif self._slice < _SLICE_MAX:
            self._slice *= 2
        self._slice_since_ms = now_ms
        return islice(rest, self._slice)
