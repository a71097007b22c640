"""What users call to send many records at once; the producer has these calls too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from typing import cast, overload

from minikafka.client.clock import Clock, SystemClock
from minikafka.client.errors import RecordTooLarge
from minikafka.client.producer.accumulator import Accumulator, record_sizes, total_size
from minikafka.client.producer.batch import Batch, BatchDelivery, Delivery
from minikafka.client.producer.builder import BatchBuilder
from minikafka.client.producer.checks import Column, check_timestamp, serialize_all
from minikafka.client.producer.config import RECORDS_MAX, ProducerConfig
from minikafka.client.producer.queues import PartitionQueue, Topic
from minikafka.client.serializers import Serializer
from minikafka.protocol.records import HEADER_BYTES


class BatchCalls(ABC):
    """See the module's description."""

    config: ProducerConfig
    _clock: Clock | None
    _key_serializer: Serializer | None
    _value_serializer: Serializer | None
    _accumulator: Accumulator
    _record_bytes_max: int
    _wall_ms: Callable[[], int]

    @abstractmethod
    async def _find_topic(self, name: str, to_send: bool = True) -> Topic: ...

    @abstractmethod
    async def _queue_for(self, topic: Topic, key: bytes | None, partition: int | None) -> PartitionQueue: ...

    @abstractmethod
    async def _make_room(self, topic: Topic, queue: PartitionQueue, size: int, is_sticky: bool) -> Batch:
        """The batch for records of so many bytes."""

    @abstractmethod
    def _too_large(self, size: int) -> RecordTooLarge: ...

    @overload
    async def send_batch(
        self,
        topic: str,
        values: Sequence[object],
        keys: Sequence[object] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BatchDelivery: ...

    @overload
    async def send_batch(self, topic: BatchBuilder, values: str, /, *, partition: int) -> Delivery: ...

    async def send_batch(
        self,
        topic: str | BatchBuilder,
        values: Sequence[object] | str,
        keys: Sequence[object] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BatchDelivery | Delivery:
        """Buffer many records at once, in their order: all of them to one partition, with one timestamp.

        Without a partition it is the one that is being filled. Keys do not choose one here, they only travel along:
        records whose keys must decide are sent by `send`, or sorted by `partition_for` first.

        As in aiokafka, `send_batch(batch, topic, partition=0)` takes what `create_batch` made; the delivery is that of
        its first record.
        """
        if isinstance(topic, BatchBuilder):
            return await self._send_built(topic, cast(str, values), partition)
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys for {len(values)} values")
        if timestamp_ms is not None:
            check_timestamp(timestamp_ms)
        bare_values = serialize_all(self._value_serializer, values)
        bare_keys = None if keys is None else serialize_all(self._key_serializer, keys)
        found = await self._find_topic(topic)
        queue = found.sticky if partition is None else await self._queue_for(found, None, partition)
        stamp = self._wall_ms() if timestamp_ms is None else timestamp_ms
        spans = []
        async for batch, start, stop, size in self._spread(found, queue, bare_values, bare_keys, partition is None):
            index = len(batch)
            batch.extend(stamp, bare_values[start:stop], bare_keys and bare_keys[start:stop], size)
            spans.append((batch, index, index + stop - start))
        return BatchDelivery(spans)

    def create_batch(self) -> BatchBuilder:
        """An empty batch to be filled and given to `send_batch`, as in aiokafka. `send_batch` with values is faster."""
        clock = SystemClock() if self._clock is None else self._clock
        size_max = min(self.config.max_batch_size, self.config.max_request_size)
        return BatchBuilder(size_max, self._key_serializer, self._value_serializer, clock.wall_ms)

    async def _send_built(self, built: BatchBuilder, topic: str, partition: int | None) -> Delivery:
        if partition is None or not built.record_count():
            raise ValueError("a batch that was filled needs a record and a partition")
        built.close()
        found = await self._find_topic(topic)
        queue = await self._queue_for(found, None, partition)
        batch = await self._make_room(found, queue, built.size() - HEADER_BYTES, False)
        return Delivery(batch, built.copy_to(batch))

    async def _spread(
        self, topic: Topic, queue: PartitionQueue, values: Column, keys: Column | None, is_sticky: bool
    ) -> AsyncIterator[tuple[Batch, int, int, int]]:
        """The batches of one partition that records go into, each with the span of records it takes and their bytes."""
        size = total_size(values, keys)
        if 0 < len(values) <= RECORDS_MAX and size <= self._accumulator.batch_bytes_max - HEADER_BYTES:
            # One batch takes them all, the usual case.
            yield await self._make_room(topic, queue, size, is_sticky), 0, len(values), size
            return
        sizes = record_sizes(values, keys)
        if sizes and max(sizes) > self._record_bytes_max:
            raise self._too_large(max(sizes))
        start = 0
        while start < len(sizes):
            count, size = self._accumulator.fitting(queue, sizes, start)
            batch = await self._make_room(topic, queue, size, is_sticky)
            yield batch, start, start + count, size
            start += count
            queue, is_sticky = topic.queue_at(batch.topic_partition.partition), False
