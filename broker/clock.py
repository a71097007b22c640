"""Time, as the broker sees it: a seam, so that a simulator can move it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

log: Final = logging.getLogger(__name__)

STEP_MS_MAX: Final = 60_000
"""A wall clock that moves further than this beyond the time that has passed was set: a daemon only slews it."""

CONFIRMATION_MS: Final = 24 * 3_600_000
"""How long a wall clock that was set forward has to go on without another jump until it is believed."""


_UPTIME: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Two clocks: one that only ever goes forward, for timeouts, and one that people set, for timestamps."""

    def monotonic_ms(self) -> int: ...

    def wall_ms(self) -> int: ...

    def uptime_ms(self) -> int:
        """As monotonic, but it goes on while the machine is suspended."""


class SystemClock:
    """The machine's clocks."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def uptime_ms(self) -> int:
        return time.clock_gettime_ns(_UPTIME) // 1_000_000


class SteadyClock:
    """A Clock by which data expires: its wall clock leaves out a jump forward until that is confirmed.

    Kafka deletes by the wall clock as it is, so a clock that is a day ahead for some seconds deletes a day of records
    on all replicas. Here `wall_ms` follows the wall clock at its pace and backwards at once, since an earlier time
    deletes nothing. What it gains on the uptime by a jump forward is left out until it has lasted for
    `CONFIRMATION_MS`. Meanwhile time passes as before, so what grows old is still deleted, and only what the jump
    would have added waits.

    A broker that starts cannot see a jump. It compares the wall clock with the last time at which the process before it
    has written a checkpoint (`resume_after`): an absence of more than `CONFIRMATION_MS` is taken for a jump.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.monotonic_ms: Callable[[], int] = clock.monotonic_ms
        self.uptime_ms: Callable[[], int] = clock.uptime_ms
        # Wall clock less uptime, at the last look.
        self._offset_ms = clock.wall_ms() - clock.uptime_ms()
        self._left_out_ms = 0
        self._jumped_at_ms = 0

    def wall_ms(self) -> int:
        now_ms, uptime_ms = self._clock.wall_ms(), self.uptime_ms()
        step_ms = now_ms - uptime_ms - self._offset_ms
        self._offset_ms += step_ms
        if step_ms > STEP_MS_MAX:
            self._leave_out(step_ms, uptime_ms)
        elif step_ms < 0:
            self._left_out_ms = max(0, self._left_out_ms + step_ms)
        if self._left_out_ms and uptime_ms - self._jumped_at_ms >= CONFIRMATION_MS:
            log.warning("data expires by the wall clock again, %d s later than before", self._left_out_ms // 1000)
            self._left_out_ms = 0
        return now_ms - self._left_out_ms

    def resume_after(self, last_ms: int | None) -> None:
        """Start from the last sign of life of the broker before this one, if there is any."""
        absence_ms = 0 if last_ms is None else self.wall_ms() - last_ms
        if absence_ms > CONFIRMATION_MS:
            self._leave_out(absence_ms, self.uptime_ms())

    def _leave_out(self, step_ms: int, uptime_ms: int) -> None:
        log.warning(
            "the wall clock is %d s ahead of what was expected; nothing expires by that for the next %d hours",
            step_ms // 1000,
            CONFIRMATION_MS // 3_600_000,
        )
        self._left_out_ms += step_ms
        self._jumped_at_ms = uptime_ms
