"""What a request makes its connection hold: a fetch no more than there is room for, a produce nothing once written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import Mock

import pytest

from minikafka.broker.replicas.reading import PartitionRead
from minikafka.broker.work import Work
from minikafka.protocol.message import Request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.pipeline import Pipeline
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.storage.scanning import ColdRead
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


async def fetched_bytes(
    broker: Station, min_bytes: int = 0, max_wait_ms: int = 0, max_bytes: int = 1 << 20, partition_max: int = 1 << 20
) -> int:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=partition_max)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic="t", partitions=[partition])],
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


def connect(broker: Station) -> None:
    """Memory of a connection without a transport is not counted."""
    transport = Mock()
    transport.get_extra_info.return_value = None
    broker.connection.connection_made(transport)


async def test_fetch_that_waits_for_more_holds_what_it_has_read(broker: Station) -> None:
    await broker.add_topic("t", replicas=(1,))
    await broker.ask(produce("t", 1), 9)
    connect(broker)
    shares, size = broker.connection._shares, len(batch())
    waiting = asyncio.ensure_future(fetched_bytes(broker, min_bytes=2 * size, max_wait_ms=60_000))
    async with asyncio.timeout(10):
        while not shares.used_bytes:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert shares.used_bytes == size
        await broker.ask(produce("t", 1), 9, broker.another_connection())
        assert await waiting == 2 * size
    assert shares.used_bytes == 0


@pytest.mark.parametrize("is_short", [False, True])
async def test_fetch_that_can_hold_no_more_is_answered_at_once(broker: Station, is_short: bool) -> None:
    """As in Kafka no more is waited for than an answer can have."""
    await broker.add_topic("t", replicas=(1,))
    for _ in range(_BATCHES):
        await broker.ask(produce("t", 1), 9)
    size = len(batch())
    if is_short:
        broker.connection._shares.change(broker.connection._shares.memory_bytes)
    async with asyncio.timeout(10):
        max_bytes = 1 << 20 if is_short else size
        assert await fetched_bytes(broker, 2 * size, 600_000, max_bytes) == size


async def test_thread_reads_no_more_than_partitions_may_give(broker: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    await broker.add_topic("t", replicas=(1,))
    await broker.ask(produce("t", 1), 9)
    connect(broker)
    shares, used = broker.connection._shares, list[int]()

    async def read(self: PartitionRead, work: Work) -> None:
        used.append(shares.used_bytes)
        self._finish(b"")

    def is_cold(self: PartitionRead) -> None:
        raise ColdRead

    monkeypatch.setattr(PartitionRead, "read", read)
    monkeypatch.setattr(PartitionRead, "read_now", is_cold)
    await fetched_bytes(broker, max_bytes=50 << 20, partition_max=100_000)
    assert used == [100_000]
    assert shares.used_bytes == 0


async def test_produce_that_came_too_early_releases_nothing_of_the_next_request(broker: Station) -> None:
    await broker.add_topic("t")
    broker.dispatcher.hold()
    waiting = asyncio.ensure_future(broker.ask(produce("t", -1), 9))
    await asyncio.sleep(0)
    broker.dispatcher.release()
    partition = broker.context.partitions.get("t", 0)
    async with asyncio.timeout(10):
        while not partition.log.log_end_offset:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert not broker.connection.has_released
    waiting.cancel()
    await asyncio.wait([waiting])
