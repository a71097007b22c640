"""The meter of throttled replication, and who is held back by it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replicas.throttle import Throttle

BROKER = 7


class Clock:
    """Time stands until it is told to go on."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def uptime_ms(self) -> int:
        return self.now_ms


class Setting:
    """A throttle, its clock and its rate."""

    def __init__(self, rate: int | None, *listed: str) -> None:
        self.rate = rate
        self.clock = Clock()
        self.throttle = Throttle(lambda: self.rate, lambda _: frozenset(listed), self.clock)

    def pass_ms(self, passed_ms: int) -> None:
        self.clock.now_ms += passed_ms


def replica(index: int) -> Partition:
    return cast(Partition, SimpleNamespace(index=index, broker_id=BROKER))


@pytest.mark.parametrize(
    ("listed", "index", "holds"),
    [
        ((), 0, False),
        (("*",), 3, True),
        (("0:7",), 0, True),
        (("0:7",), 1, False),
        (("0:8", "1:7"), 0, False),
        (("0:8", "1:7"), 1, True),
    ],
)
def test_a_topic_lists_the_replicas_that_are_throttled(listed: Any, index: int, holds: bool) -> None:
    assert Setting(1000, *listed).throttle.holds(replica(index)) is holds


def test_nothing_waits_without_a_rate() -> None:
    setting = Setting(None)
    setting.throttle.record(1 << 40)
    assert setting.throttle.wait_ms == 0


def test_what_went_over_is_waited_for_at_the_rate() -> None:
    setting = Setting(1000)
    assert setting.throttle.wait_ms == 0
    setting.throttle.record(500)
    assert 500 <= setting.throttle.wait_ms <= 501
    setting.pass_ms(200)
    assert 300 <= setting.throttle.wait_ms <= 301
    setting.pass_ms(300)
    assert setting.throttle.wait_ms == 0


def test_time_in_which_nothing_went_over_is_not_saved_up() -> None:
    setting = Setting(1000)
    setting.pass_ms(3_600_000)
    setting.throttle.record(500)
    assert setting.throttle.wait_ms >= 500


def test_another_rate_holds_at_once() -> None:
    setting = Setting(1000)
    setting.throttle.record(800)
    setting.rate = 100_000
    assert setting.throttle.wait_ms <= 9
    setting.rate = None
    assert setting.throttle.wait_ms == 0
    setting.rate = 1000
    assert setting.throttle.wait_ms == 0


def test_whoever_waits_long_looks_again_for_another_rate() -> None:
    setting = Setting(1)
    setting.throttle.record(1_000_000)
    assert setting.throttle.wait_ms == 1_000
    setting.rate = 0
    assert setting.throttle.wait_ms == 1_000


@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(1, 50_000)), min_size=2), st.integers(1_000, 1_000_000))
def test_no_more_goes_over_than_the_rate_and_what_was_under_way(steps: list[tuple[int, int]], rate: int) -> None:
    setting = Setting(rate)
    began_ms, sent = setting.clock.now_ms, 0
    for pause_ms, count in steps:
        setting.pass_ms(pause_ms)
        if setting.throttle.wait_ms == 0:
            passed_seconds = (setting.clock.now_ms - began_ms) / 1000
            assert sent <= passed_seconds * rate + 1
            setting.throttle.record(count)
            sent += count
