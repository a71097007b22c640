"""Requests that cannot be answered yet: what they wait for, and for how long.

A waiting request watches partitions. It is registered first and looks again then, so no change is missed; whatever
wakes it, it decides by what is there now. Time is up by a timer of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from minikafka.broker.replicas.partition import Partition, Promise
from minikafka.protocol.errors import KafkaError, RequestTimedOutError


class _Wait:
    """Watches partitions until it is released; `_future` is done when there is no more reason to wait."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._partitions = list(partitions)
        for partition in self._partitions:
            partition.watchers[self] = None

    def on_change(self, partition: Partition) -> None:
        raise AssertionError("each kind of wait has its own")

    def _stop_waiting(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def _wait(self, timeout_ms: int) -> None:
        """Until there is no more reason to, or time is up."""
        timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self._stop_waiting)
        try:
            await self._future
        finally:
            timer.cancel()
            self._release()

    def _release(self) -> None:
        for partition in self._partitions:
            partition.watchers.pop(self, None)


class DataWait(_Wait):
    """A fetch that waits for more bytes, or for anything but bytes to happen to one of its partitions."""

    def __init__(
        self, partitions: Iterable[Partition], missing_bytes: int, readable_end: Callable[[Partition], int]
    ) -> None:
        """`readable_end` is the offset below which this reader sees what a partition has."""
        super().__init__(partitions)
        self._missing_bytes = missing_bytes
        self._readable_end = readable_end
        # How much had been written when it was last looked at: known without reading, so a fetch that wants much is
        # not woken by every little.
        self._seen = {each: (each.appended_bytes, each.leadership) for each in self._partitions}
        # What is written but not for this reader yet: it becomes readable without another append.
        ends = {each: readable_end(each) for each in self._partitions}
        self._held_back = {each: end for each, end in ends.items() if end < each.log.log_end_offset}

    def on_change(self, partition: Partition) -> None:
        appended_bytes, leadership = self._seen[partition]
        self._missing_bytes -= partition.appended_bytes - appended_bytes
        self._seen[partition] = (partition.appended_bytes, leadership)
        is_enough = self._missing_bytes <= 0 or self._is_released(partition)
        if is_enough or partition.is_offline or partition.leadership is not leadership:
            self._stop_waiting()

    def _is_released(self, partition: Partition) -> bool:
        held_back = self._held_back.get(partition)
        return held_back is not None and self._readable_end(partition) > held_back

    async def wait_data(self, timeout_ms: int) -> None:
        await self._wait(timeout_ms)


class CommitWait(_Wait):
    """A produce request that waits for its batches to be where they have to be."""

    def __init__(self, promises: Iterable[Promise]) -> None:
        self._open = list(promises)
        self.errors: dict[Partition, KafkaError] = {}
        super().__init__({each.partition: None for each in self._open})

    def on_change(self, partition: Partition) -> None:
        self._settle()
        if not self._open:
            self._stop_waiting()

    async def wait_committed(self, timeout_ms: int) -> dict[Partition, KafkaError]:
        """The partitions for which it did not come to that, with the reason."""
        self._settle()
        if self._open:
            await self._wait(timeout_ms)
            self._settle()
        else:
            self._release()
        for promise in self._open:
            self.errors[promise.partition] = RequestTimedOutError(f"{promise.partition}: not replicated in time")
        return self.errors

    def _settle(self) -> None:
        still_open = []
        for promise in self._open:
            outcome = promise.outcome()
            if isinstance(outcome, KafkaError):
                self.errors[promise.partition] = outcome
            elif not outcome:
                still_open.append(promise)
        self._open = still_open
