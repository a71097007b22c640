"""What a request makes its connection hold: a fetch no more than there is room for, a produce nothing once written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from minikafka.protocol.message import Request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.pipeline import Pipeline
from minikafka.protocol.records.builder import BatchBuilder
from tests.broker.handlers.station import Station, station, with_data

_BATCHES = 5


@pytest.fixture
async def broker() -> AsyncIterator[Station]:
    async with station(with_data) as made:
        yield made


def batch() -> bytes:
    builder = BatchBuilder(1 << 20)
    builder.append(timestamp_ms=1, key=None, value=bytes(10_000))
    return bytes(builder.build())


def produce(topic: str, acks: int) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch())
    return ProduceRequest(
        acks=acks, timeout_ms=60_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


async def fetched_bytes(broker: Station) -> int:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=[partition])]
    )
    response = await broker.ask(request, 11)
    return len(response.responses[0].partitions[0].records)


async def test_fetch_gets_its_first_batch_when_there_is_no_room(broker: Station) -> None:
    await broker.add_topic("t", replicas=(1,))
    for _ in range(_BATCHES):
        assert not (await broker.ask(produce("t", 1), 9)).responses[0].partition_responses[0].error_code
    size = len(batch())
    assert await fetched_bytes(broker) == _BATCHES * size
    shares = broker.connection._shares
    shares.change(shares.memory_bytes)
    # Whole, and nothing after it (KIP-74).
    assert await fetched_bytes(broker) == size
    shares.change(-shares.memory_bytes)
    assert await fetched_bytes(broker) == _BATCHES * size


@pytest.mark.parametrize("count", [1, 3])
async def test_produce_that_waits_for_followers_holds_no_records(broker: Station, count: int) -> None:
    """Also on the shorter way of a request that is like an earlier one."""
    await broker.add_topic("t")
    connection, waiting = broker.another_connection(), list[asyncio.Future[Any]]()

    def begin(request: Request) -> None:
        frame = b"".join(Pipeline[None]("test").send(request, 9, None))
        reply = broker.dispatcher(connection, bytearray(frame[4:]))
        assert reply is not None and not isinstance(reply, list)
        waiting.append(asyncio.ensure_future(reply))

    for _ in range(count):
        connection.has_released = False
        begin(produce("t", -1))
        await asyncio.sleep(0)
        assert connection.has_released
    assert (connection.shortcut is not None) is True
    for each in waiting:
        each.cancel()
    await asyncio.wait(waiting)
