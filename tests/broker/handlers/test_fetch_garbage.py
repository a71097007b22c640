"""Fetches that waited leave nothing for the collector: at a thousand a second it would stop the broker all the time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator

import pytest

from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records import BatchBuilder
from tests.broker.handlers.station import Station, station, with_data

FETCHES = 30


@pytest.fixture
async def alone() -> AsyncIterator[Station]:
    async with station(with_data) as made:
        await made.add_topic("t", replicas=[1])
        yield made


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def fetch_as_it_comes(at: Station, offset: int) -> None:
    """A fetch that waits, and a record that ends its wait."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[wanted])]
    request = FetchRequest(max_wait_ms=60_000, min_bytes=1, session_epoch=-1, topics=topics)
    waiting = asyncio.create_task(at.ask(request, 11))
    await asyncio.sleep(0)
    assert not waiting.done()
    builder = BatchBuilder()
    builder.append(1_700_000_000_000, None, b"value")
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=bytes(builder.build()))])]
    await at.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=data), 7)
    assert (await waiting).responses[0].partitions[0].records


async def test_waiting_leaves_no_garbage(alone: Station, uncollected: None) -> None:
    await fetch_as_it_comes(alone, 0)
    gc.collect()
    for number in range(1, FETCHES):
        await fetch_as_it_comes(alone, number)
    # Fewer than one each: what little there is comes from elsewhere.
    assert gc.collect() < FETCHES
