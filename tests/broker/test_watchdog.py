"""The loop's lag and the collector's pauses."""

from __future__ import annotations

import asyncio
import gc

import pytest

from minikafka.broker.clock import SystemClock
from minikafka.broker.statistics import LoopStatistics, Statistics
from minikafka.broker.watchdog import Watchdog, collections_counted
from tests.broker.eventually import eventually


class SlowLoopClock(SystemClock):
    """Two seconds pass whenever it is looked at."""

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        self.now_ms += 2000
        return self.now_ms


async def test_a_loop_that_is_held_up_is_late(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("minikafka.broker.watchdog._LOOK_SECONDS", 0.01)
    statistics = Statistics()
    task = asyncio.create_task(Watchdog(SlowLoopClock(), statistics).run())
    await eventually(lambda: statistics.loop.lag_ms_max)
    task.cancel()
    assert statistics.loop.lag_ms == statistics.loop.lag_ms_max == 1990
    assert "the event loop was 1990 ms late" in caplog.text


async def test_every_minute_the_counters_are_put_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.broker.watchdog._LOOK_SECONDS", 0.001)
    monkeypatch.setattr("minikafka.broker.watchdog._MINUTE_MS", 10)
    statistics = Statistics()
    statistics.requests[3].add(0, 5)
    watchdog = Watchdog(SystemClock(), statistics)
    task = asyncio.create_task(watchdog.run())
    await eventually(lambda: sum(watchdog.recent.buckets("Metadata", statistics.requests[3])) == 0)
    task.cancel()


def test_collections_are_counted() -> None:
    statistics = LoopStatistics()
    with collections_counted(statistics):
        gc.collect()
    counted = statistics.collections
    assert counted >= 1
    assert 0 < statistics.collection_nanos_max <= statistics.collection_nanos
    gc.collect()
    assert statistics.collections == counted
