"""Groups in tests: members that read in the background, and what a group is expected to come to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from minikafka.client.consumer import Consumer, ConsumerRebalanceListener
from minikafka.client.structs import TopicPartition
from tests.broker.eventually import eventually
from tests.client.consumer.reading import open_consumer

SETTLE_S = 40.0


class Witness(ConsumerRebalanceListener):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, frozenset[int]]] = []

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.told.append(("revoked", frozenset(tp.partition for tp in revoked)))

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        self.told.append(("assigned", frozenset(tp.partition for tp in assigned)))

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self.told.append(("lost", frozenset(tp.partition for tp in lost)))


class Reader:
    """A member that reads one record after the other, and counts them."""

    def __init__(self, consumer: Consumer, witness: Witness) -> None:
        self.consumer = consumer
        self.witness = witness
        self.found: Counter[tuple[int, int]] = Counter()
        self.order: list[tuple[int, int]] = []

    @property
    def partitions(self) -> frozenset[int]:
        return frozenset(tp.partition for tp in self.consumer.assignment())

    async def run(self) -> None:
        async for record in self.consumer:
            self.found[record.partition, record.offset] += 1
            self.order.append((record.partition, record.offset))


@asynccontextmanager
async def reader(bootstrap: str, topic: str, **options: Any) -> AsyncIterator[Reader]:
    witness = Witness()
    given = {"group_id": topic, "session_timeout_ms": 10_000, **options}
    async with open_consumer(bootstrap, **given) as consumer:
        consumer.subscribe([topic], listener=witness)
        made = Reader(consumer, witness)
        reading = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    if not reading.cancelled():
        reading.result()


def shares(readers: Collection[Reader], partitions: int) -> bool:
    """Whether every partition has one reader, and none has two more than another."""
    given_out = [number for each in readers for number in each.partitions]
    counts = [len(each.partitions) for each in readers]
    return sorted(given_out) == [*range(partitions)] and max(counts) - min(counts) <= 1


async def wait_settled(readers: Collection[Reader], partitions: int) -> None:
    await eventually(lambda: shares(readers, partitions), SETTLE_S)


def all_found(readers: Collection[Reader]) -> Counter[tuple[int, int]]:
    total: Counter[tuple[int, int]] = Counter()
    for each in readers:
        total += each.found
    return total
