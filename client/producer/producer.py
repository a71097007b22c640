"""The producer as its users see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Self, Unpack

from minikafka.client.clock import Clock
from minikafka.client.cluster import Cluster
from minikafka.client.errors import ClientClosed, ConfigError, RecordTooLarge
from minikafka.client.producer.accumulator import Accumulator
from minikafka.client.producer.batch import (
    RECORD_OVERHEAD_BYTES,
    Batch,
    Delivery,
    RecordHeaders,
    RecordMetadata,
    headers_size,
)
from minikafka.client.producer.batch_calls import BatchCalls
from minikafka.client.producer.checks import check_timestamp, copy_headers
from minikafka.client.producer.config import RECORDS_MAX, ProducerConfig, ProducerOptions
from minikafka.client.producer.identity import Identities
from minikafka.client.producer.metrics import ProducerMetrics
from minikafka.client.producer.partitioners import STICKY, find_partitioner
from minikafka.client.producer.queues import PartitionQueue, Topic
from minikafka.client.producer.sender import Sender
from minikafka.client.producer.sequences import Identity
from minikafka.client.producer.topics import Topics
from minikafka.client.producer.transaction_calls import TransactionCalls
from minikafka.client.producer.transactions import Transactions
from minikafka.client.serializers import find_serializer, serialize
from minikafka.client.shared import see_through


class Producer(TransactionCalls, BatchCalls):
    """Sends records.

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            await producer.send("orders", b"tea", key=b"alice")             # goes on as soon as it is buffered
            where = await producer.send_and_wait("orders", b"milk")         # waits until it is acknowledged
            await producer.send_batch("orders", [b"one", b"two", b"three"])  # many at once, much faster

    Options are those of `ProducerConfig`; `Producer.from_config` takes Kafka's dotted names. By default records are
    compressed with lz4, acknowledged by all in-sync replicas, and neither lost nor doubled nor reordered by retries.
    Whatever is wrong is a `KafkaError`, from the call itself or from the delivery that it returned.
    """

    def __init__(
        self,
        *,
        config: ProducerConfig | None = None,
        clock: Clock | None = None,
        rng: Random | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        if config is not None and options:
            raise ConfigError("a config and options beside it")
        self.config = ProducerConfig.from_options(options) if config is None else config
        self._clock, self._rng = clock, rng
        self._key_serializer = find_serializer(self.config.key_serializer)
        self._value_serializer = find_serializer(self.config.value_serializer)
        self._partitioner = find_partitioner(self.config.partitioner)
        self._takes_bytes = self._value_serializer is None
        self._is_sticky = not callable(self._partitioner)
        self._ignores_keys = self._partitioner == STICKY
        self._record_bytes_max = self.config.max_request_size
        # Empty before the start and after the end, so that looking a topic up is all that `send` checks.
        self._topics: dict[str, Topic] = {}
        self._cluster: Cluster | None = None
        self._starting: Cluster | None = None
        self._start_lock = asyncio.Lock()
        self._finder: Topics
        self._sender: Sender
        self._identities: Identities
        self._accumulator: Accumulator
        self._transactions: Transactions | None = None
        self._wall_ms: Callable[[], int]
        self._is_closed = False
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """A producer by Kafka's own names: `Producer.from_config({"bootstrap.servers": "...", "linger.ms": 5})`."""
        return cls(config=ProducerConfig.from_config(config))

    # ------------------------------------------------------------------------------------------ its life

    async def start(self) -> None:
        """Find the cluster, and get what is needed to be idempotent or to have transactions."""
        async with self._start_lock:
            self._require_not_closed()
            if self._cluster is not None:
                return
            cluster = self._starting = Cluster(self.config, clock=self._clock, rng=self._rng)
            try:
                await cluster.start()
                identities = Identities(cluster, self.config)
                await identities.obtain()
                self._require_not_closed()
            except BaseException:
                await cluster.close()
                raise
            finally:
                self._starting = None
            self._set_up(cluster, identities)

    def _require_not_closed(self) -> None:
        if self._is_closed:
            raise ClientClosed("a producer that was closed cannot be started again")

    def _set_up(self, cluster: Cluster, identities: Identities) -> None:
        self._cluster, self._identities = cluster, identities
        self._finder = Topics(cluster, self.config.max_block_ms)
        self._topics = self._finder.known
        self._sender = Sender(cluster, self.config, identities)
        self._accumulator = self._sender.accumulator
        self._wall_ms = cluster.clock.wall_ms
        identities.on_change = self._sender.wake_all
        if self.config.transactional_id is not None:
            self._transactions = self._sender.transactions = Transactions(
                cluster,
                self.config,
                identities,
                on_admitted=self._sender.ready,
                on_refused=self._sender.drop_unsent,
                on_fatal=self._sender.fail_for_good,
            )
        self._sender.start()

    async def stop(self, *, flush: bool = True) -> None:
        """Send what is buffered, abort the transaction if one is open, then close.

        Without flushing it closes at once, and a transaction that is open stays open for somebody else to end. May be
        called twice, also at the same time: the first call that has nothing more to send closes for all of them.
        """
        await self._stop(flush, aborts=flush)

    async def _stop(self, flush: bool, aborts: bool) -> None:
        try:
            had_transaction = aborts and self._is_usable and await self._abort_before_closing()
            if flush and not had_transaction and self._is_usable:
                await self.flush()
        finally:
            self._is_closed = True
            self._topics = {}
            if self._closing is None:
                self._closing = asyncio.create_task(self._close(), name="close the producer")
            await see_through(self._closing)

    async def _close(self) -> None:
        if self._starting is not None:
            await self._starting.close()
        if self._cluster is None:
            return
        await self._finder.stop()
        await self._sender.stop()
        if self._transactions is not None:
            await self._transactions.stop()
        await self._identities.stop()
        await self._cluster.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        # Whoever is cancelled or interrupted does not want to wait for a cluster that may not answer.
        await self._stop(flush=kind is None or issubclass(kind, Exception), aborts=True)

    # ------------------------------------------------------------------------------------------------ sending

    async def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: RecordHeaders | None = None,
    ) -> Delivery:
        """Buffer a record, waiting for room if there is none; the delivery can be awaited or ignored.

        Without a partition the key decides, and without a key whichever partition is being filled.
        """
        # All in one function, as calls would cost more than what they do.
        bare_value = value if type(value) is bytes and self._takes_bytes else serialize(self._value_serializer, value)
        bare_key = None if key is None else serialize(self._key_serializer, key)
        size = RECORD_OVERHEAD_BYTES if bare_value is None else RECORD_OVERHEAD_BYTES + len(bare_value)
        if headers:
            headers = copy_headers(headers)
            size += headers_size(headers)
        if timestamp_ms is not None:
            check_timestamp(timestamp_ms)
        found = self._topics.get(topic)
        if found is None or self._transactions is not None:
            found = await self._find_topic(topic)
        is_sticky = False
        if partition is None and (bare_key is None or self._ignores_keys) and self._is_sticky:
            queue, is_sticky = found.sticky, True
        else:
            queue = await self._queue_for(found, bare_key, partition)
        if bare_key is not None:
            size += len(bare_key)
        room = self._accumulator
        batch = queue.open
        if batch is not None and batch.size + size <= room.batch_bytes_max and room.bytes + size <= room.bytes_limit:
            room.bytes += size
        else:
            batch = await self._make_room(found, queue, size, is_sticky)
        values = batch.values
        index = len(values)
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        if timestamp_ms != batch.last_stamp:
            batch.last_stamp = timestamp_ms
            batch.runs.append((timestamp_ms, index))
        values.append(bare_value)
        batch.keys.append(bare_key)
        if headers:
            batch.headers[index] = headers
        batch.size += size
        return Delivery(batch, index)

    async def send_and_wait(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: RecordHeaders | None = None,
    ) -> RecordMetadata:
        """Send a record and wait until it is acknowledged."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    async def flush(self) -> None:
        """Wait until everything that was sent before is delivered, or has failed."""
        self._require_usable()
        for batch in self._sender.flush():
            await batch.wait()

    async def partitions_for(self, topic: str) -> set[int]:
        """The partitions of a topic."""
        return {queue.topic_partition.partition for queue in (await self._find_topic(topic, False)).queues}

    async def partition_for(self, topic: str, key: object) -> int:
        """The partition that a key goes to."""
        found = await self._find_topic(topic, False)
        queue = await self._queue_for(found, serialize(self._key_serializer, key), None)
        return queue.topic_partition.partition

    @property
    def identity(self) -> Identity | None:
        """The producer id and epoch, with which somebody else can end a transaction; None before the start."""
        return None if self._cluster is None else self._identities.current

    def metrics(self) -> ProducerMetrics:
        """What was done so far, as a snapshot."""
        if self._cluster is None:
            return ProducerMetrics()
        return self._sender.snapshot()

    # ------------------------------------------------------------------------------------------- slower parts

    @property
    def _is_usable(self) -> bool:
        return self._cluster is not None and not self._is_closed and self._sender.fatal is None

    def _require_usable(self) -> Cluster:
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        if self._cluster is None:
            raise ClientClosed("the producer is not started: use `async with`, or call `start`")
        if self._sender.fatal is not None:
            raise type(self._sender.fatal)(*self._sender.fatal.args)
        return self._cluster

    async def _find_topic(self, name: str, to_send: bool = True) -> Topic:
        self._require_usable()
        if self._transactions is not None and to_send:
            self._transactions.require_open()
        found = self._topics.get(name)
        if found is None:
            transaction = self._open_transaction
            found = await self._finder.find(name)
            if to_send:
                self._require_same(transaction)
        return found

    async def _queue_for(self, topic: Topic, key: bytes | None, partition: int | None) -> PartitionQueue:
        if partition is None:
            if callable(self._partitioner):
                partition = self._partitioner(key, range(len(topic.queues)), topic.available)
            elif key is None or self._ignores_keys:
                return topic.sticky
            else:
                return topic.queue_for_key(key)
        if partition < len(topic.queues):
            return topic.queue_at(partition)
        transaction = self._open_transaction
        queue = await self._finder.partition(topic, partition)
        self._require_same(transaction)
        return queue

    async def _make_room(self, topic: Topic, queue: PartitionQueue, size: int, is_sticky: bool) -> Batch:
        """The batch for records of so many bytes, when it is not simply the open one."""
        self._require_usable()
        transaction = self._open_transaction
        if size > self._record_bytes_max:
            raise self._too_large(size)
        room = self._accumulator
        batch = queue.open
        if batch is not None and (batch.size + size > room.batch_bytes_max or len(batch) >= RECORDS_MAX):
            queue.close_open()
            self._sender.ready(queue)
            # Whoever sends without a pause would keep everything else from running.
            await asyncio.sleep(0)
        if not room.has_room(size):
            self._sender.flush()
        await room.wait_room(size)
        try:
            self._require_same(transaction)
        except BaseException:
            room.free(size)
            raise
        if is_sticky and queue.open is None:
            topic.choose_sticky()
            queue = topic.sticky
        return room.batch_for(queue, size)

    def _too_large(self, size: int) -> RecordTooLarge:
        return RecordTooLarge(
            f"a record of {size} bytes is larger than max_request_size, which is {self._record_bytes_max}"
        )
