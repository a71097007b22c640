"""Records on their way into batches: which batch, and whether there is room.

The room is counted in bytes over all partitions. Whoever finds none waits in line: the first to come is the first to be
let in, and one answer wakes as many as it made room for, not all.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, repeat
from operator import add

from minikafka.client.clock import Clock
from minikafka.client.errors import ClientClosed
from minikafka.client.producer.batch import RECORD_OVERHEAD_BYTES, Batch
from minikafka.client.producer.config import RECORDS_MAX, ProducerConfig
from minikafka.client.producer.queues import PartitionQueue
from minikafka.protocol.records import HEADER_BYTES

_Column = Sequence["bytes | None"]


class Accumulator:
    """See the module's description. `on_ready` is called with a queue that got its first batch, or a full one."""

    def __init__(self, config: ProducerConfig, clock: Clock, on_ready: Callable[[PartitionQueue], None]) -> None:
        self._clock = clock
        self._on_ready = on_ready
        self._linger_ms = config.linger_ms
        self._delivery_timeout_ms = config.delivery_timeout_ms
        self.batch_bytes_max = min(config.max_batch_size, config.max_request_size)
        self.bytes_max = config.buffer_memory
        self.bytes_limit = config.buffer_memory
        """The same while nobody waits in line, and 0 while somebody does: what `send` compares with."""
        self.bytes = 0
        self.incomplete: dict[Batch, PartitionQueue] = {}
        """Every batch that has no answer yet."""
        self._emptied: asyncio.Future[None] | None = None
        self._line: deque[tuple[asyncio.Future[None], int]] = deque()
        self.is_closed = False

    # --------------------------------------------------------------------------------------------------- room

    def has_room(self, size: int) -> bool:
        """Whether a record may come in now. One that is larger than all the room is let in alone."""
        return not self._line and (self.bytes + size <= self.bytes_max or not self.bytes)

    async def wait_room(self, size: int) -> None:
        """Wait in line for room; it is taken when this returns."""
        if self.is_closed:
            raise ClientClosed
        if self.has_room(size):
            self.bytes += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((turn, size))
        self.bytes_limit = 0
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.free(size)  # it had been let in already
            raise

    def free(self, size: int) -> None:
        """Give room back, and let in whoever it is enough for."""
        self.bytes -= size
        line = self._line
        while line and (line[0][0].done() or self.bytes + line[0][1] <= self.bytes_max or not self.bytes):
            turn, wanted = line.popleft()
            if not turn.done():
                self.bytes += wanted
                turn.set_result(None)
        if not line:
            self.bytes_limit = self.bytes_max

    def close(self) -> None:
        """Let nobody in any more."""
        self.is_closed = True
        for turn, _ in self._line:
            if not turn.done():
                turn.set_exception(ClientClosed())
        self._line.clear()

    # ------------------------------------------------------------------------------------------------ batches

    def batch_for(self, queue: PartitionQueue, size: int) -> Batch:
        """The batch that takes another record of a partition; a new one if the open one is full."""
        batch = queue.open
        if batch is not None and batch.size + size <= self.batch_bytes_max and len(batch.values) < RECORDS_MAX:
            return batch
        now_ms = self._clock.monotonic_ms()
        # A batch that follows a full one does not wait behind it for nothing: it lingers for itself. While others wait
        # in line, what it takes is what they wait for.
        ready_ms = 0 if self._line else now_ms + self._linger_ms
        batch = queue.new_batch(now_ms + self._delivery_timeout_ms, ready_ms)
        self.incomplete[batch] = queue
        self._on_ready(queue)
        return batch

    def finished(self, batch: Batch) -> None:
        """A batch has its answer: its records are let go."""
        if self.incomplete.pop(batch, None) is not None:
            self.free(batch.release())
            if self._emptied is not None and not self.incomplete:
                self._emptied.set_result(None)
                self._emptied = None

    async def wait_empty(self) -> None:
        """Wait until the outcome of every batch is known, also of those whose senders have an error already."""
        while self.incomplete:
            if self._emptied is None:
                self._emptied = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._emptied)

    def split(self, batch: Batch, halves: tuple[Batch, Batch]) -> None:
        """Two batches took the place of one."""
        queue = self.incomplete.pop(batch)
        self.bytes += sum(half.size - HEADER_BYTES for half in halves)
        self.incomplete.update(dict.fromkeys(halves, queue))
        self.free(batch.release())

    # ----------------------------------------------------------------------------------------- many at a time

    def fitting(self, queue: PartitionQueue, sizes: Sequence[int], start: int) -> tuple[int, int]:
        """How many records from `start` on go into one batch, and their bytes; at least one."""
        batch = queue.open
        room, records = self.batch_bytes_max - HEADER_BYTES, RECORDS_MAX
        if batch is not None and batch.size + sizes[start] <= self.batch_bytes_max and len(batch) < RECORDS_MAX:
            room, records = self.batch_bytes_max - batch.size, RECORDS_MAX - len(batch)
        ends = [*accumulate(sizes[start : start + records])]
        count = max(bisect_right(ends, room), 1)
        return count, ends[count - 1]


def total_size(values: _Column, keys: _Column | None) -> int:
    """What records take together, at most."""
    size = sum(_lengths(values)) + len(values) * RECORD_OVERHEAD_BYTES
    return size if keys is None else size + sum(_lengths(keys))


def record_sizes(values: _Column, keys: _Column | None) -> list[int]:
    """What records take, at most."""
    sizes = _lengths(values)
    if keys is not None:
        sizes = map(add, sizes, _lengths(keys))
    return [*map(add, sizes, repeat(RECORD_OVERHEAD_BYTES))]


def _lengths(column: _Column) -> Iterator[int]:
    # None has no length; it is rare, and looking for it is quick.
    if None in column:
        return iter([0 if each is None else len(each) for each in column])
    return map(len, column)  # type: ignore[arg-type]
