"""The steady clock: a wall clock that was set forward is believed only after it has gone on for long enough."""

from __future__ import annotations

import pytest

from minikafka.broker.clock import CONFIRMATION_MS, STEP_MS_MAX, SteadyClock, SystemClock

DAY_MS = 24 * 3_600_000
WALL_MS = 1_750_000_000_000


class TwoClocks:
    """A Clock whose wall clock can be set."""

    def __init__(self) -> None:
        self.uptime = 5_000
        self.wall = WALL_MS

    def monotonic_ms(self) -> int:
        return self.uptime

    def uptime_ms(self) -> int:
        return self.uptime

    def wall_ms(self) -> int:
        return self.wall

    def sleep(self, ms: int) -> None:
        self.uptime += ms
        self.wall += ms


@pytest.fixture
def clock() -> TwoClocks:
    return TwoClocks()


def test_steady_clock_follows_the_wall_clock(clock: TwoClocks) -> None:
    steady = SteadyClock(clock)
    for _ in range(5):
        clock.sleep(DAY_MS)
        clock.wall += STEP_MS_MAX
        assert steady.wall_ms() == clock.wall


@pytest.mark.parametrize("looks", [1, 5])
def test_steady_clock_leaves_out_a_jump_until_it_is_confirmed(clock: TwoClocks, looks: int) -> None:
    steady = SteadyClock(clock)
    clock.wall += DAY_MS
    for _ in range(looks):
        clock.sleep((CONFIRMATION_MS - 1) // looks)
        assert steady.wall_ms() == clock.wall - DAY_MS
    clock.sleep(CONFIRMATION_MS)
    assert steady.wall_ms() == clock.wall


def test_steady_clock_begins_again_with_every_jump(clock: TwoClocks) -> None:
    steady = SteadyClock(clock)
    for number in range(1, 4):
        clock.wall += DAY_MS
        steady.wall_ms()
        clock.sleep(CONFIRMATION_MS - 1)
        assert steady.wall_ms() == clock.wall - number * DAY_MS
    clock.sleep(1)
    assert steady.wall_ms() == clock.wall


def test_steady_clock_follows_a_correction(clock: TwoClocks) -> None:
    steady = SteadyClock(clock)
    clock.wall += DAY_MS
    steady.wall_ms()
    clock.sleep(1000)
    clock.wall -= DAY_MS
    assert steady.wall_ms() == clock.wall == WALL_MS + 1000


def test_steady_clock_follows_backwards_and_returns_slowly(clock: TwoClocks) -> None:
    steady = SteadyClock(clock)
    clock.wall -= DAY_MS
    assert steady.wall_ms() == clock.wall
    clock.wall += DAY_MS
    assert steady.wall_ms() == clock.wall - DAY_MS


def test_steady_clock_doubts_a_start_after_a_long_absence(clock: TwoClocks) -> None:
    steady = SteadyClock(clock)
    steady.resume_after(None)
    steady.resume_after(WALL_MS - CONFIRMATION_MS)
    assert steady.wall_ms() == clock.wall
    steady.resume_after(WALL_MS - CONFIRMATION_MS - 1)
    assert steady.wall_ms() == clock.wall - CONFIRMATION_MS - 1
    clock.sleep(CONFIRMATION_MS)
    assert steady.wall_ms() == clock.wall


def test_steady_clock_starts_with_a_clock_that_is_behind(clock: TwoClocks) -> None:
    steady = SteadyClock(clock)
    steady.resume_after(WALL_MS + DAY_MS)
    assert steady.wall_ms() == clock.wall


def test_system_clock_has_an_uptime() -> None:
    clock = SystemClock()
    assert 0 < clock.monotonic_ms() <= clock.uptime_ms() + 1
