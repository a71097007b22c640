"""Housekeeping that goes on while a broker runs."""

from __future__ import annotations

import asyncio

from minikafka.broker.clock import Clock
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.work import Work


class Upkeep:
    """See the module's description."""

    def __init__(self, partitions: Partitions, config: LiveConfig, clock: Clock, work: Work) -> None:
        self._partitions = partitions
        self._config = config
        self._clock = clock
        self._work = work
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        interval_ms = self._config.broker.log_flush_scheduler_interval_ms
        self._tasks.append(self._work.spawn(self._partitions.flusher.watch(interval_ms), "flushing"))

    async def stop(self) -> None:
        """Let nothing begin any more, and wait for what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._partitions.flusher.wait_idle()
