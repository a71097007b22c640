"""The records of one batch on their way, and what is told to whoever sent them.

Records are collected as columns, and turned into bytes all at once when the batch is sent. For a record no future is
made: `send` gives back a `Delivery`, two words that point to the batch, and only whoever awaits it pays for more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from minikafka.client.errors import IllegalState
from minikafka.client.producer.sequences import Identity, add_to_sequence
from minikafka.client.structs import TopicPartition
from minikafka.protocol.compression import Compression
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.records import HEADER_BYTES, BatchBuilder, TimestampType

RecordHeaders: TypeAlias = Collection[tuple[str, "bytes | None"]]

RECORD_OVERHEAD_BYTES: Final = 21
"""What a record takes beside key, value and headers, at most: the sizes of record, key and value (5 bytes each), two
deltas (2 each), attributes and header count."""


class RecordMetadata(NamedTuple):
    """Where a record went. The offset is -1 if the broker did not tell: with acks=0, and after some retries."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    timestamp_type: int
    log_start_offset: int


class BatchMetadata(NamedTuple):
    """Where records that were sent together went: so many of them, from `base_offset` on (-1 if not told)."""

    topic: str
    partition: int
    base_offset: int
    records: int


class Answer(NamedTuple):
    """What the leader said of a batch."""

    base_offset: int = -1
    append_time_ms: int = -1
    log_start_offset: int = -1


class Batch:
    """See the module's description."""

    __slots__ = (
        "answer",
        "callbacks",
        "deadline_ms",
        "error",
        "headers",
        "identity",
        "is_done",
        "is_uncertain",
        "keys",
        "last_stamp",
        "order",
        "parts",
        "ready_ms",
        "runs",
        "sequence",
        "size",
        "topic_partition",
        "values",
        "waiters",
        "wire",
    )

    def __init__(
        self, topic_partition: TopicPartition, order: tuple[int, ...], deadline_ms: int, ready_ms: float
    ) -> None:
        self.topic_partition = topic_partition
        self.order = order  # among the batches of the partition; the halves of (7,) are (7, 0) and (7, 1)
        self.deadline_ms = deadline_ms
        self.ready_ms = ready_ms
        # The records: columns, and where in them another timestamp starts.
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] = []
        self.headers: dict[int, RecordHeaders] = {}
        self.runs: list[tuple[int, int]] = []
        self.last_stamp: int | None = None
        self.size = HEADER_BYTES
        # As it was sent.
        self.sequence = -1
        self.identity = Identity()
        self.wire: bytearray | None = None
        self.is_uncertain = False  # an attempt that is over may have been written, or may yet be
        # What became of it: done is what its sender knows; the batch itself may still be in flight.
        self.is_done = False
        self.error: KafkaError | None = None
        self.answer = Answer()
        self.waiters: list[asyncio.Future[None]] | None = None
        self.callbacks: list[tuple[Delivery, Callable[[Delivery], object]]] = []
        # The halves, if it was split: where the second one starts, and both.
        self.parts: tuple[int, Batch, Batch] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def extend(
        self, timestamp_ms: int, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None, size: int
    ) -> None:
        """Add records of one timestamp, which together take so many bytes."""
        if timestamp_ms != self.last_stamp:
            self.runs.append((timestamp_ms, len(self.values)))
            self.last_stamp = timestamp_ms
        self.values += values
        self.keys += [None] * len(values) if keys is None else keys
        self.size += size

    # --------------------------------------------------------------------------------------------- as bytes

    def build(self, compression: Compression, level: int | None, is_transactional: bool) -> bytearray:
        """The batch as bytes, under its identity and sequence."""
        builder = BatchBuilder()
        starts = [start for _, start in self.runs] + [len(self.values)]
        for (timestamp_ms, start), end in zip(self.runs, starts[1:], strict=True):
            if self.headers:
                self._append_singly(builder, timestamp_ms, start, end)
                continue
            keys = self.keys[start:end]
            builder.append_many(timestamp_ms, self.values[start:end], None if _all_null(keys) else keys)
        self.wire = builder.build(
            compression=compression,
            level=level,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=self.sequence,
            is_transactional=is_transactional,
        )
        return self.wire

    def _append_singly(self, builder: BatchBuilder, timestamp_ms: int, start: int, end: int) -> None:
        headers, keys, values = self.headers, self.keys, self.values
        for index in range(start, end):
            builder.append(timestamp_ms, keys[index], values[index], headers.get(index, ()))

    def number_anew(self) -> None:
        """Forget identity and sequence; the next attempt gives others. Never of a batch that may have been written."""
        assert not self.is_uncertain
        self.sequence = -1
        self.wire = None

    def split(self) -> tuple[Batch, Batch]:
        """Two batches with a half of the records each, under the same sequence numbers; deliveries follow them."""
        middle = len(self.values) // 2
        halves = []
        for which, start, end in ((0, 0, middle), (1, middle, len(self.values))):
            half = Batch(self.topic_partition, (*self.order, which), self.deadline_ms, self.ready_ms)
            half.identity = self.identity
            half.is_uncertain = self.is_uncertain
            half.sequence = self.sequence if self.sequence < 0 else add_to_sequence(self.sequence, start)
            half.values, half.keys = self.values[start:end], self.keys[start:end]
            half.headers = {index - start: found for index, found in self.headers.items() if start <= index < end}
            half.runs = [(stamp, max(at - start, 0)) for stamp, at in self._runs_between(start, end)]
            half.size = HEADER_BYTES + _size_of(half)
            halves.append(half)
        self.parts = (middle, halves[0], halves[1])
        self._wake()
        return halves[0], halves[1]

    def _runs_between(self, start: int, end: int) -> list[tuple[int, int]]:
        ends = [at for _, at in self.runs[1:]] + [len(self.values)]
        return [run for run, run_end in zip(self.runs, ends, strict=True) if run_end > start and run[1] < end]

    # -------------------------------------------------------------------------------------- what became of it

    def finish(self, answer: Answer | None = None, error: KafkaError | None = None) -> None:
        """Tell whoever waits. Records are let go: a delivery may be kept for long."""
        if self.is_done:
            return
        self.is_done = True
        self.error = error
        if answer is not None:
            self.answer = answer
        self._wake()

    def _wake(self) -> None:
        """Let all who wait look again."""
        waiters, self.waiters = self.waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)
        while self.callbacks:
            delivery, callback = self.callbacks.pop(0)
            try:
                # Looks again, since the batch may have been split instead.
                delivery.add_done_callback(callback)
            except Exception as error:
                # Whatever a caller's code does, the batch and the others of its answer are done with.
                details = {"message": f"a callback of a delivery to {self.topic_partition} failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(details)

    def release(self) -> int:
        """Let the records go; how many bytes they took."""
        size, self.size = self.size - HEADER_BYTES, HEADER_BYTES
        self.values, self.keys, self.headers, self.wire = [], [], {}, None
        return size

    async def wait(self) -> None:
        """Wait until it is done, one way or the other. Whoever is cancelled here does not matter to others."""
        while not self.is_done:
            if self.parts is not None:
                await self.parts[1].wait()
                await self.parts[2].wait()
                return
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if self.waiters is None:
                self.waiters = []
            self.waiters.append(waiter)
            await waiter

    def find(self, index: int) -> tuple[Batch, int]:
        """The batch that a record is in after all splits, and its place there."""
        if self.parts is None:
            return self, index
        middle, first, second = self.parts
        return first.find(index) if index < middle else second.find(index - middle)


class Delivery:
    """A record on its way: await it for its `RecordMetadata`, or ignore it.

    It raises what kept the record from being delivered. Has what is used of a future, also by `asyncio.wait`. A record
    cannot be taken back: `cancel` does nothing, nor does cancelling a task that awaits it.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        batch, _ = self._batch.find(self._index)
        while not batch.is_done:
            yield from batch.wait().__await__()
            batch, _ = self._batch.find(self._index)
        return self.result()

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.find(self._index)[0].is_done

    def cancel(self, msg: object = None) -> bool:
        """False, as for a future that cannot be cancelled any more."""
        return False

    def cancelled(self) -> bool:
        return False

    def exception(self) -> KafkaError | None:
        """What kept it from being delivered, or None."""
        batch, _ = self._batch.find(self._index)
        if not batch.is_done:
            raise IllegalState("the record is still on its way")
        return batch.error

    def result(self) -> RecordMetadata:
        """Where the record went."""
        error = self.exception()
        if error is not None:
            # Each raise adds to the traceback of an exception, and this one belongs to many records.
            raise type(error)(*error.args)
        batch, index = self._batch.find(self._index)
        return _metadata(batch, index)

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call when the outcome is known; at once if it is. Any thread may ask for that; the loop's thread calls.

        What it raises later goes to the loop's exception handler.
        """
        entry = (self, callback)
        while True:
            batch, _ = self._batch.find(self._index)
            if batch.is_done:
                callback(self)
                return
            batch.callbacks.append(entry)
            if batch.parts is None and not self.done():
                return
            try:
                batch.callbacks.remove(entry)
            except ValueError:
                return  # the loop's thread has taken it out and goes on with it

    def remove_done_callback(self, callback: Callable[[Delivery], object]) -> int:
        """Do not call; how many calls that were asked for are taken back."""
        callbacks = self._batch.find(self._index)[0].callbacks
        entries = [entry for entry in [*callbacks] if entry[0] is self and entry[1] == callback]
        for entry in entries:
            with suppress(ValueError):
                callbacks.remove(entry)
        return len(entries)


class BatchDelivery:
    """Records that were sent in one call: await it for a `BatchMetadata` for each batch that they went in."""

    __slots__ = ("_spans",)

    def __init__(self, spans: list[tuple[Batch, int, int]]) -> None:
        self._spans = spans

    def __await__(self) -> Generator[Any, None, list[BatchMetadata]]:
        for batch, _, _ in self._spans:
            yield from batch.wait().__await__()
        return [found for span in self._spans for found in _results(*span)]

    def done(self) -> bool:
        return all(batch.find(index)[0].is_done for batch, start, end in self._spans for index in (start, end - 1))


def _all_null(keys: list[bytes | None]) -> bool:
    return keys.count(None) == len(keys)


def _size_of(batch: Batch) -> int:
    fields = [*batch.values, *batch.keys]
    headers = sum(headers_size(each) for each in batch.headers.values())
    return sum(len(each) for each in fields if each is not None) + len(batch) * RECORD_OVERHEAD_BYTES + headers


def headers_size(headers: RecordHeaders) -> int:
    """What headers take, at most: two sizes each."""
    return sum(4 * len(key) + len(value or b"") + 10 for key, value in headers)


def _metadata(batch: Batch, index: int) -> RecordMetadata:
    answer = batch.answer
    if answer.append_time_ms >= 0:
        stamp, kind = answer.append_time_ms, TimestampType.LOG_APPEND_TIME
    else:
        stamp, kind = _stamp(batch, index), TimestampType.CREATE_TIME
    offset = -1 if answer.base_offset < 0 else answer.base_offset + index
    place = batch.topic_partition
    return RecordMetadata(place.topic, place.partition, place, offset, stamp, int(kind), answer.log_start_offset)


def _stamp(batch: Batch, index: int) -> int:
    return next(stamp for stamp, start in reversed(batch.runs) if start <= index)


def _results(batch: Batch, start: int, end: int) -> list[BatchMetadata]:
    if batch.parts is not None:
        middle, first, second = batch.parts
        left = _results(first, start, min(end, middle)) if start < middle else []
        return left + (_results(second, max(start - middle, 0), end - middle) if end > middle else [])
    if batch.error is not None:
        raise type(batch.error)(*batch.error.args)
    base = batch.answer.base_offset
    place = batch.topic_partition
    return [BatchMetadata(place.topic, place.partition, base + start if base >= 0 else -1, end - start)]
