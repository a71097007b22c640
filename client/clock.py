"""Time and chance, as the client sees them: seams, so that tests can move them."""

from __future__ import annotations

import time
from random import Random
from typing import Final, Protocol

_JITTER: Final = 0.2
"""A fifth to either side, so that clients which lost the same broker do not come back in the same moment."""


class Clock(Protocol):
    """Two clocks: one that only ever goes forward, for timeouts, and one that people set, for timestamps."""

    def monotonic_ms(self) -> int: ...

    def wall_ms(self) -> int: ...


class SystemClock:
    """The machine's clocks."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class Backoff:
    """How long to wait before trying again: doubling from one delay to another, with jitter."""

    def __init__(self, first_ms: int, max_ms: int, rng: Random) -> None:
        self._first_ms = first_ms
        self._max_ms = max(first_ms, max_ms)
        self._rng = rng

    def delay_ms(self, failures: int) -> float:
        """The delay after so many failures in a row, the first being 1."""
        # Beyond 2**30 the exponent would only make a larger number of the same maximum.
        delay = min(self._max_ms, self._first_ms << min(failures - 1, 30)) if failures > 0 else 0
        return delay * self._rng.uniform(1 - _JITTER, 1 + _JITTER)

    def delay_s(self, failures: int) -> float:
        return self.delay_ms(failures) / 1000
