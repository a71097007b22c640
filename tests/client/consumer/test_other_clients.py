"""Groups with members of other clients: librdkafka and aiokafka divide partitions with ours, whoever leads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from confluent_kafka import Consumer as ConfluentConsumer

from tests.broker.eventually import eventually
from tests.client.consumer.groups import SETTLE_S, Reader, reader
from tests.client.consumer.reading import numbers
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.topics import Topics

PARTITIONS = 6

AIOKAFKA = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Other:
    """What a member of another client has and has read."""

    def __init__(self) -> None:
        self.partitions: frozenset[int] = frozenset()
        self.found: set[tuple[int, int]] = set()


@contextmanager
def librdkafka(bootstrap: str, topic: str, strategy: str | None) -> Iterator[Other]:
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 200,
        "session.timeout.ms": 10_000,
        **({"partition.assignment.strategy": strategy} if strategy is not None else {}),
    }
    other, is_over = Other(), threading.Event()

    def run() -> None:
        consumer = ConfluentConsumer(config)
        consumer.subscribe([topic])
        while not is_over.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                other.found.add((message.partition() or 0, message.offset() or 0))
            other.partitions = frozenset(tp.partition for tp in consumer.assignment())
        consumer.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield other
    finally:
        is_over.set()
        thread.join()


@asynccontextmanager
async def aiokafka(bootstrap: str, topic: str, strategy: str | None) -> AsyncIterator[Other]:
    options = {} if strategy is None else {"partition_assignment_strategy": [AIOKAFKA[strategy]]}
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
        **options,
    )
    other = Other()

    async def run() -> None:
        while True:
            for tp, records in (await consumer.getmany(timeout_ms=50)).items():
                other.found.update((tp.partition, record.offset) for record in records)
            other.partitions = frozenset(tp.partition for tp in consumer.assignment())

    await consumer.start()
    reading = asyncio.create_task(run())
    try:
        yield other
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await consumer.stop()


def divided(ours: Reader, other: Other) -> bool:
    return (
        sorted([*ours.partitions, *other.partitions]) == [*range(PARTITIONS)]
        and len(ours.partitions) == PARTITIONS // 2
    )


async def check(confluent: Confluent, topic: str, ours: Reader, other: Other) -> None:
    await eventually(lambda: divided(ours, other), SETTLE_S)
    for number in range(PARTITIONS):
        await asyncio.to_thread(confluent.produce, topic, numbers(0, 10), number)
    expected = {(number, offset) for number in range(PARTITIONS) for offset in range(10)}
    await eventually(lambda: {*ours.found} | other.found == expected, SETTLE_S)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky", None])
async def test_librdkafka(bootstrap: str, confluent: Confluent, topics: Topics, strategy: str | None) -> None:
    """The first one leads. None: both as they are by default."""
    options = {} if strategy is None else {"partition_assignment_strategy": strategy}
    topic = topics.make(PARTITIONS)
    async with reader(bootstrap, topic, **options) as ours:
        await eventually(lambda: len(ours.partitions) == PARTITIONS, SETTLE_S)
        with librdkafka(bootstrap, topic, strategy) as other:
            await check(confluent, topic, ours, other)
        await eventually(lambda: len(ours.partitions) == PARTITIONS, SETTLE_S)
    topic = topics.make(PARTITIONS)
    with librdkafka(bootstrap, topic, strategy) as other:
        await eventually(lambda: len(other.partitions) == PARTITIONS, SETTLE_S)
        async with reader(bootstrap, topic, **options) as ours:
            await check(confluent, topic, ours, other)
        await eventually(lambda: len(other.partitions) == PARTITIONS, SETTLE_S)


@pytest.mark.parametrize("strategy", ["range", "sticky", None])
async def test_aiokafka(bootstrap: str, confluent: Confluent, topics: Topics, strategy: str | None) -> None:
    options = {} if strategy is None else {"partition_assignment_strategy": strategy}
    topic = topics.make(PARTITIONS)
    async with reader(bootstrap, topic, **options) as ours:
        await eventually(lambda: len(ours.partitions) == PARTITIONS, SETTLE_S)
        async with aiokafka(bootstrap, topic, strategy) as other:
            await check(confluent, topic, ours, other)
    topic = topics.make(PARTITIONS)
    async with aiokafka(bootstrap, topic, strategy) as other:
        await eventually(lambda: len(other.partitions) == PARTITIONS, SETTLE_S)
        async with reader(bootstrap, topic, **options) as ours:
            await check(confluent, topic, ours, other)
