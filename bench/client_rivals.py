"""The clients of `make bench-client`, each as its users would use it when they want it fast.

Every rival has the same four jobs: to send records one by one or many at a time, and to read them one by one or many at
a time. Sending ends when all records are acknowledged. All of them send with acks=all and idempotence, and are given
the same batch size and linger time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import aiokafka
import confluent_kafka
import kafka

from minikafka.client import Consumer, Producer, TopicPartition

CHUNK: Final = 1_000
"""Records of one call, where many are sent in one."""
LINGER_MS: Final = 5
BATCH_BYTES: Final = 1 << 18
READ_S: Final = 60.0


class Task(NamedTuple):
    """One measurement."""

    servers: str
    topic: str
    codec: str
    values: Sequence[bytes]


class Rival(Protocol):
    """Seconds that each job takes, without starting and closing the client."""

    def send_singly(self, task: Task) -> float: ...

    def send_many(self, task: Task) -> float: ...

    def read_singly(self, task: Task) -> float: ...

    def read_many(self, task: Task) -> float: ...


def chunks(values: Sequence[bytes]) -> list[list[bytes]]:
    return [[*values[start : start + CHUNK]] for start in range(0, len(values), CHUNK)]


class Minikafka:
    """Ours."""

    def send_singly(self, task: Task) -> float:
        return asyncio.run(self._send_singly(task))

    def send_many(self, task: Task) -> float:
        return asyncio.run(self._send_many(task))

    def read_singly(self, task: Task) -> float:
        return asyncio.run(self._read_singly(task))

    def read_many(self, task: Task) -> float:
        return asyncio.run(self._read_many(task))

    def _producer(self, task: Task) -> Producer:
        return Producer(
            bootstrap_servers=task.servers,
            compression_type=task.codec,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
        )

    async def _send_singly(self, task: Task) -> float:
        async with self._producer(task) as producer:
            await producer.partitions_for(task.topic)
            start = time.perf_counter()
            for value in task.values:
                await producer.send(task.topic, value)
            await producer.flush()
            seconds = time.perf_counter() - start
            assert producer.metrics().records_delivered == len(task.values)
            return seconds

    async def _send_many(self, task: Task) -> float:
        parts = chunks(task.values)
        async with self._producer(task) as producer:
            await producer.partitions_for(task.topic)
            start = time.perf_counter()
            for part in parts:
                await producer.send_batch(task.topic, part)
            await producer.flush()
            seconds = time.perf_counter() - start
            assert producer.metrics().records_delivered == len(task.values)
            return seconds

    async def _read_singly(self, task: Task) -> float:
        async with Consumer(bootstrap_servers=task.servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(task.topic, 0)])
            left = len(task.values)
            start = time.perf_counter()
            async for record in consumer:
                assert record.value is not None
                left -= 1
                if not left:
                    break
            return time.perf_counter() - start

    async def _read_many(self, task: Task) -> float:
        async with Consumer(bootstrap_servers=task.servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(task.topic, 0)])
            left = len(task.values)
            start = time.perf_counter()
            while left > 0:
                batch = await consumer.getbatch(timeout_ms=1000, max_records=10 * CHUNK)
                left -= 0 if batch is None else len(batch.values)
            return time.perf_counter() - start


class Aiokafka:
    """aiokafka, whose records are read and written in C."""

    def send_singly(self, task: Task) -> float:
        return asyncio.run(self._send(task, many=False))

    def send_many(self, task: Task) -> float:
        return asyncio.run(self._send(task, many=True))

    def read_singly(self, task: Task) -> float:
        return asyncio.run(self._read(task, many=False))

    def read_many(self, task: Task) -> float:
        return asyncio.run(self._read(task, many=True))

    async def _send(self, task: Task, many: bool) -> float:
        codec = None if task.codec == "none" else task.codec
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=task.servers,
            acks="all",
            enable_idempotence=True,
            compression_type=codec,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
        )
        await producer.start()
        try:
            await producer.partitions_for(task.topic)
            start = time.perf_counter()
            await (self._send_batches(producer, task) if many else self._send_all(producer, task))
            await producer.flush()
            return time.perf_counter() - start
        finally:
            await producer.stop()

    async def _send_all(self, producer: Any, task: Task) -> None:
        for value in task.values:
            await producer.send(task.topic, value)

    async def _send_batches(self, producer: Any, task: Task) -> None:
        batch = producer.create_batch()
        for value in task.values:
            if batch.append(key=None, value=value, timestamp=None) is None:
                await producer.send_batch(batch, task.topic, partition=0)
                batch = producer.create_batch()
                batch.append(key=None, value=value, timestamp=None)
        await producer.send_batch(batch, task.topic, partition=0)

    async def _read(self, task: Task, many: bool) -> float:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=task.servers, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(task.topic, 0)])
            left = len(task.values)
            start = time.perf_counter()
            while left > 0:
                if many:
                    found = await consumer.getmany(timeout_ms=1000, max_records=10 * CHUNK)
                    left -= sum(len([record.value for record in records]) for records in found.values())
                else:
                    assert (await consumer.getone()).value is not None
                    left -= 1
            return time.perf_counter() - start
        finally:
            await consumer.stop()


class KafkaPython:
    """kafka-python. It has no call for many records to send; its own batching is at work in both."""

    def send_singly(self, task: Task) -> float:
        producer = kafka.KafkaProducer(
            bootstrap_servers=task.servers.split(","),
            compression_type=None if task.codec == "none" else task.codec,
            linger_ms=LINGER_MS,
            batch_size=BATCH_BYTES,
        )
        try:
            producer.partitions_for(task.topic)
            start = time.perf_counter()
            for value in task.values:
                producer.send(task.topic, value)
            producer.flush()
            return time.perf_counter() - start
        finally:
            producer.close()

    send_many = send_singly

    def read_singly(self, task: Task) -> float:
        return self._read(task, many=False)

    def read_many(self, task: Task) -> float:
        return self._read(task, many=True)

    def _read(self, task: Task, many: bool) -> float:
        consumer = kafka.KafkaConsumer(bootstrap_servers=task.servers.split(","), auto_offset_reset="earliest")
        try:
            consumer.assign([kafka.TopicPartition(task.topic, 0)])
            left = len(task.values)
            start = time.perf_counter()
            while left > 0:
                if many:
                    found = consumer.poll(timeout_ms=1000, max_records=10 * CHUNK)
                    left -= sum(len([record.value for record in records]) for records in found.values())
                else:
                    assert next(consumer).value is not None
                    left -= 1
            return time.perf_counter() - start
        finally:
            consumer.close()


class Confluent:
    """confluent-kafka, which is librdkafka in C with a Python face."""

    def _producer(self, task: Task) -> Any:
        return confluent_kafka.Producer(
            {
                "bootstrap.servers": task.servers,
                "enable.idempotence": True,
                "compression.type": task.codec,
                "linger.ms": LINGER_MS,
                "batch.size": BATCH_BYTES,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def send_singly(self, task: Task) -> float:
        producer = self._producer(task)
        producer.list_topics(task.topic)
        start = time.perf_counter()
        for value in task.values:
            while True:
                try:
                    producer.produce(task.topic, value, partition=0)
                    break
                except BufferError:
                    producer.poll(0.01)
        assert producer.flush(READ_S) == 0
        return time.perf_counter() - start

    def send_many(self, task: Task) -> float:
        producer = self._producer(task)
        producer.list_topics(task.topic)
        parts = chunks(task.values)
        start = time.perf_counter()
        for part in parts:
            messages = [{"value": value} for value in part]
            while messages:
                producer.produce_batch(task.topic, messages, partition=0)
                # What did not fit into the queue is marked.
                messages = [{"value": message["value"]} for message in messages if "_error" in message]
                if messages:
                    producer.poll(0.01)
        assert producer.flush(READ_S) == 0
        return time.perf_counter() - start

    def read_singly(self, task: Task) -> float:
        return self._read(task, many=False)

    def read_many(self, task: Task) -> float:
        return self._read(task, many=True)

    def _read(self, task: Task, many: bool) -> float:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": task.servers, "group.id": "bench", "enable.auto.commit": False}
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition(task.topic, 0, confluent_kafka.OFFSET_BEGINNING)])
            left = len(task.values)
            start = time.perf_counter()
            while left > 0:
                if many:
                    left -= len([message.value() for message in consumer.consume(10 * CHUNK, 1.0)])
                else:
                    message = consumer.poll(1.0)
                    if message is not None:
                        assert message.value() is not None
                        left -= 1
            return time.perf_counter() - start
        finally:
            consumer.close()


RIVALS: Final[dict[str, Rival]] = {
    "minikafka": Minikafka(),
    "aiokafka": Aiokafka(),
    "kafka-python": KafkaPython(),
    "confluent": Confluent(),
}
