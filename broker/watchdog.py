"""How well the event loop does: how late it is, and how long the garbage collector keeps it.

The loop is asked to call back after a while; by how much it is late is what every request has to wait as well.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from minikafka.broker.clock import Clock
from minikafka.broker.metrics import named_requests
from minikafka.broker.recent import Recent
from minikafka.broker.statistics import LoopStatistics, Statistics

log: Final = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.25
_MINUTE_MS: Final = 60_000
# How many looks count as "of late": ten seconds.
_LOOKS: Final = 40
_LAG_MS_WARN: Final = 1_000


class Watchdog:
    """Looks after the loop that it runs on, and puts the counters aside every minute."""

    def __init__(self, clock: Clock, statistics: Statistics) -> None:
        self.recent = Recent()
        self._clock = clock
        self._statistics = statistics
        self._lags_ms: deque[int] = deque(maxlen=_LOOKS)

    async def run(self) -> None:
        """Until cancelled."""
        aside_ms = before_ms = self._clock.monotonic_ms()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now_ms = self._clock.monotonic_ms()
            self._note(max(0, now_ms - before_ms - int(_LOOK_SECONDS * 1000)))
            before_ms = now_ms
            if now_ms - aside_ms >= _MINUTE_MS:
                aside_ms = now_ms
                self.recent.put_aside(named_requests(self._statistics))

    def _note(self, lag_ms: int) -> None:
        if lag_ms >= _LAG_MS_WARN:
            log.warning("the event loop was %d ms late", lag_ms)
        self._lags_ms.append(lag_ms)
        loop = self._statistics.loop
        loop.lag_ms = max(self._lags_ms)
        loop.lag_ms_max = max(loop.lag_ms_max, lag_ms)


@contextmanager
def collections_counted(statistics: LoopStatistics) -> Iterator[None]:
    """Count the runs of the garbage collector, of which a process has only one."""
    began_nanos = 0

    def on_collection(phase: str, _: Mapping[str, Any]) -> None:
        nonlocal began_nanos
        if phase == "start":
            began_nanos = time.perf_counter_ns()
            return
        took = time.perf_counter_ns() - began_nanos
        statistics.collections += 1
        statistics.collection_nanos += took
        statistics.collection_nanos_max = max(statistics.collection_nanos_max, took)

    gc.callbacks.append(on_collection)
    try:
        yield
    finally:
        gc.callbacks.remove(on_collection)
