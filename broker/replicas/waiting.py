"""Requests that cannot be answered yet: what they wait for, and for how long.

A waiting request watches partitions. It is registered first and looks again then, so no change is missed; whatever
wakes it, it decides by what is there now. Time is up by a timer of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from minikafka.broker.replicas.commits import Pending, Promise
from minikafka.broker.replicas.leadership import Leadership
from minikafka.broker.replicas.partition import Partition
from minikafka.protocol.errors import KafkaError, RequestTimedOutError

Key: TypeAlias = tuple[str | bytes, int]
"""A topic, by name or by id as the request has it, and the partition."""


class DataWatch:
    """The partitions of a fetch: which of them changed since they were looked at, and whether that may be enough.

    One that belongs to a session outlives its requests: only what has changed is read again, however many there are.
    """

    def __init__(self, readable_end: Callable[[Partition], int]) -> None:
        """`readable_end` is the offset below which this reader sees what a partition has."""
        self._readable_end = readable_end
        self._seen: dict[Partition, _Seen] = {}
        self._partitions: dict[Key, Partition] = {}
        self._changed: dict[Key, None] = {}
        # Looked at, and nobody was told yet.
        self._examined: dict[Key, None] = {}
        self._missing_bytes = 0
        self._turn = 0
        self._future: asyncio.Future[bool] | None = None

    def pending(self) -> list[Key]:
        """What has to be read for the next answer."""
        return list({**self._examined, **self._changed})

    def mark(self, keys: Iterable[Key]) -> None:
        """The reader wants something else of these than before."""
        self._changed.update(dict.fromkeys(keys))

    def mark_where(self, holds: Callable[[Partition], bool]) -> None:
        """Something is to be said of these although nothing was written."""
        self.mark([key for key, partition in self._partitions.items() if holds(partition)])

    def look_at(self, key: Key, partition: Partition) -> None:
        """To be called right before a partition is read: what changes after this is noticed."""
        known = self._partitions.get(key)
        if known is not partition:
            self.forget(key)
            self._partitions[key] = partition
            partition.watchers[self] = None
        self._changed.pop(key, None)
        self._examined[key] = None
        end = self._readable_end(partition)
        held_back = end if end < partition.log.log_end_offset else None
        self._seen[partition] = _Seen(key, partition.appended_bytes, partition.leadership, held_back)

    def forget(self, key: Key) -> None:
        """The reader does not want it any more, or there is another partition under this name."""
        self._changed.pop(key, None)
        self._examined.pop(key, None)
        partition = self._partitions.pop(key, None)
        if partition is not None:
            partition.watchers.pop(self, None)
            del self._seen[partition]

    def told(self, unfinished: Iterable[Key]) -> None:
        """The reader got an answer; of some there is more to tell."""
        self._examined.clear()
        self.mark(unfinished)

    def on_change(self, partition: Partition) -> None:
        key, appended_bytes, leadership, held_back = self._seen[partition]
        self._changed[key] = None
        # How much was written is known without reading, so a fetch that wants much is not woken by every little.
        self._missing_bytes -= partition.appended_bytes - appended_bytes
        self._seen[partition] = _Seen(key, partition.appended_bytes, leadership, held_back)
        # What is written but was not for this reader becomes readable without another append.
        is_released = held_back is not None and self._readable_end(partition) > held_back
        is_other = partition.is_offline or partition.leadership is not leadership
        if self._missing_bytes <= 0 or is_released or is_other:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(True)

    def next_turn(self) -> int:
        """The next request is there: whoever waits answers now, and whoever has not begun to wait yet will not."""
        if self._future is not None and not self._future.done():
            self._future.set_result(False)
        self._turn += 1
        return self._turn

    async def wait_data(self, missing_bytes: int, timeout_ms: int, turn: int = 0) -> bool:
        """Until so many bytes were written, or anything else happened that has to be told, or time is up.

        False if another request's turn has come, which then tells everything.
        """
        if turn != self._turn:
            return False
        if self._changed:
            # It changed while others were being read.
            return True
        self._missing_bytes = missing_bytes
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._future = future
        timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self._stop_waiting)
        try:
            return await future
        finally:
            timer.cancel()
            # Another request of the session may wait by now.
            if self._future is future:
                self._future = None

    def close(self) -> None:
        for key in list(self._partitions):
            self.forget(key)


class _Seen(NamedTuple):
    """A partition as it was when it was looked at."""

    key: Key
    appended_bytes: int
    leadership: Leadership | None
    held_back: int | None
    """Where the reader's view ended, if there was more in the log."""


class CommitWait:
    """A produce request that waits for its batches to be where they have to be."""

    def __init__(self, promises: Iterable[Promise]) -> None:
        self.errors: dict[Partition, KafkaError] = {}
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open = {each.partition.commits.add(each, self._on_outcome): None for each in promises}

    def _on_outcome(self, pending: Pending, outcome: KafkaError | bool) -> None:
        del self._open[pending]
        if isinstance(outcome, KafkaError):
            self.errors[pending.promise.partition] = outcome
        if not self._open:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def wait_committed(self, timeout_ms: int) -> dict[Partition, KafkaError]:
        """The partitions for which it did not come to that, with the reason."""
        timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self._stop_waiting)
        try:
            # What was settled before it was in the queue.
            for pending in list(self._open):
                if outcome := pending.promise.outcome():
                    pending.promise.partition.commits.remove(pending)
                    self._on_outcome(pending, outcome)
            if self._open:
                await self._future
        finally:
            timer.cancel()
            for pending in self._open:
                pending.promise.partition.commits.remove(pending)
        for pending in self._open:
            partition = pending.promise.partition
            self.errors[partition] = RequestTimedOutError(f"{partition}: not replicated in time")
        return self.errors
