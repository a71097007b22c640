"""What is sent is what arrives: contents, partitions, order, offsets, timestamps, codecs, acks."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from minikafka.client.producer import BatchMetadata, Producer
from minikafka.protocol.compression import Compression
from minikafka.protocol.hashing import partition_for_key
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.model import Reading, Received
from tests.compat.clients.topics import Topics

STAMP_MS = 1_600_000_000_123


def read(confluent: Confluent, topic: str, count: int, partitions: int = 1) -> list[Received]:
    return [*confluent.read(topic, count, Reading(partitions=range(partitions)))]


async def test_a_record_arrives_whole(bootstrap: str, topic: str, confluent: Confluent) -> None:
    headers = [("trace", b"\x00\x01"), ("empty", b""), ("null", None), ("trace", b"again")]
    async with Producer(bootstrap_servers=bootstrap) as producer:
        sent = await producer.send_and_wait(topic, b"value", b"key", 0, STAMP_MS, headers)
    assert (sent.topic, sent.partition, sent.offset) == (topic, 0, 0)
    assert (sent.timestamp, sent.timestamp_type) == (STAMP_MS, 0)
    (found,) = read(confluent, topic, 1)
    assert (found.key, found.value, found.timestamp_ms) == (b"key", b"value", STAMP_MS)
    assert found.headers == tuple(headers)


async def test_nulls_and_empty_ones_are_different(bootstrap: str, topic: str, confluent: Confluent) -> None:
    rows = [(None, None), (b"", b""), (None, b""), (b"", None), (b"k", None), (None, b"v")]
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for key, value in rows:
            await producer.send(topic, value, key, partition=0)
    assert [(found.key, found.value) for found in read(confluent, topic, len(rows))] == rows


async def test_deliveries_tell_the_offsets(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap_servers=bootstrap, max_batch_size=500) as producer:
        deliveries = [await producer.send(topic, b"%d" % number) for number in range(100)]
        assert [(await delivery).offset for delivery in deliveries] == [*range(100)]
        assert all(delivery.done() and delivery.exception() is None for delivery in deliveries)
        assert producer.metrics().batches_delivered > 5


async def test_a_callback_is_called_before_and_after(bootstrap: str, topic: str) -> None:
    told: list[int] = []
    async with Producer(bootstrap_servers=bootstrap) as producer:
        delivery = await producer.send(topic, b"x")
        delivery.add_done_callback(lambda found: told.append(found.result().offset))
        assert told == []
        await delivery
        delivery.add_done_callback(lambda found: told.append(found.result().offset))
    assert told == [0, 0]


async def test_order_is_kept_over_many_requests(bootstrap: str, topic: str, confluent: Confluent) -> None:
    values = [b"%d" % number for number in range(5_000)]
    async with Producer(bootstrap_servers=bootstrap, max_batch_size=2_000) as producer:
        for value in values:
            await producer.send(topic, value)
    assert [found.value for found in read(confluent, topic, len(values))] == values


async def test_keys_go_where_every_client_sends_them(bootstrap: str, topics: Topics, confluent: Confluent) -> None:
    topic = topics.make(7)
    keys = [f"key {number}".encode() for number in range(200)]
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for key in keys * 2:
            await producer.send(topic, b"", key)
        assert await producer.partition_for(topic, keys[0]) == partition_for_key(keys[0], 7)
    found = {received.key: received.partition for received in read(confluent, topic, 400, 7)}
    assert found == {key: partition_for_key(key, 7) for key in keys}


async def test_records_without_a_key_are_spread_by_batches(
    bootstrap: str, topics: Topics, confluent: Confluent
) -> None:
    topic = topics.make(4)
    async with Producer(bootstrap_servers=bootstrap, max_batch_size=1_000) as producer:
        for number in range(2_000):
            await producer.send(topic, b"%d" % number)
    counts = Counter(received.partition for received in read(confluent, topic, 2_000, 4))
    assert len(counts) == 4
    assert min(counts.values()) > 100


@pytest.mark.parametrize("name", ["sticky", "random"])
async def test_partitioners_by_name(bootstrap: str, topics: Topics, name: str) -> None:
    topic = topics.make(3)
    async with Producer(bootstrap_servers=bootstrap, partitioner=name, max_batch_size=100) as producer:
        deliveries = [await producer.send(topic, b"", b"one key") for _ in range(60)]
        assert {(await delivery).partition for delivery in deliveries} == {0, 1, 2}


async def test_a_partitioner_of_ones_own(bootstrap: str, topics: Topics) -> None:
    topic = topics.make(3)
    asked = []

    def choose(key: bytes | None, every: object, available: object) -> int:
        asked.append((key, [*every], [*available]))  # type: ignore[misc]
        return 2

    async with Producer(bootstrap_servers=bootstrap, partitioner=choose) as producer:
        assert (await producer.send_and_wait(topic, b"", b"k")).partition == 2
        assert (await producer.send_and_wait(topic, b"", b"k", partition=1)).partition == 1
    assert asked == [(b"k", [0, 1, 2], [0, 1, 2])]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_codecs(bootstrap: str, topics: Topics, confluent: Confluent, codec: str) -> None:
    topic = topics.make()
    values = [b"%d " % number * 50 for number in range(200)]
    async with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        await (await producer.send_batch(topic, values))
    assert [found.value for found in read(confluent, topic, 200)] == values
    assert topics.batches(topic)[0].compression is Compression[codec.upper()]


async def test_compression_is_lz4_and_idempotence_on_if_nothing_is_said(bootstrap: str, topics: Topics) -> None:
    topic = topics.make()
    async with Producer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"x" * 1_000)
    (batch,) = topics.batches(topic)
    assert batch.compression is Compression.LZ4
    assert batch.producer_id >= 0


@pytest.mark.parametrize("acks", [0, 1, "all", -1])
async def test_acks(bootstrap: str, topic: str, confluent: Confluent, acks: int | str) -> None:
    async with Producer(bootstrap_servers=bootstrap, acks=acks) as producer:
        sent = [await producer.send_and_wait(topic, b"%d" % number) for number in range(20)]
    assert [each.offset for each in sent] == ([-1] * 20 if acks == 0 else [*range(20)])
    assert [found.value for found in read(confluent, topic, 20)] == [b"%d" % number for number in range(20)]


async def test_append_time_is_told(bootstrap: str, topics: Topics) -> None:
    topic = topics.make(configs={"message.timestamp.type": "LogAppendTime"})
    async with Producer(bootstrap_servers=bootstrap) as producer:
        sent = await producer.send_and_wait(topic, b"x", timestamp_ms=STAMP_MS)
    assert sent.timestamp_type == 1
    assert sent.timestamp > STAMP_MS


async def test_many_at_once(bootstrap: str, topics: Topics, confluent: Confluent) -> None:
    topic = topics.make(2)
    values = [b"%d" % number for number in range(30_000)]
    keys = [b"k%d" % number for number in range(30_000)]
    async with Producer(bootstrap_servers=bootstrap) as producer:
        sent = await (await producer.send_batch(topic, values, keys, partition=1, timestamp_ms=STAMP_MS))
    assert {each.partition for each in sent} == {1}
    assert sum(each.records for each in sent) == 30_000
    assert [each.base_offset for each in sent] == [sum(one.records for one in sent[:at]) for at in range(len(sent))]
    found = [*confluent.read(topic, 30_000, Reading(partitions=[1]))]
    assert [(each.key, each.value) for each in found] == [*zip(keys, values, strict=True)]
    assert {each.timestamp_ms for each in found} == {STAMP_MS}


async def test_many_at_once_and_one_by_one_keep_their_order(bootstrap: str, topic: str, confluent: Confluent) -> None:
    async with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        await producer.send(topic, b"0")
        first = await producer.send_batch(topic, [b"1", b"2"])
        delivery = await producer.send(topic, b"3", headers=[("h", b"")])
        second = await producer.send_batch(topic, [b"4", None, b"6"])
        assert await first == [BatchMetadata(topic, 0, 1, 2)]
        assert (await delivery).offset == 3
        assert await second == [BatchMetadata(topic, 0, 4, 3)]
        assert await (await producer.send_batch(topic, [])) == []
        assert producer.metrics().batches_delivered == 1
    assert [found.value for found in read(confluent, topic, 7)] == [b"0", b"1", b"2", b"3", b"4", None, b"6"]


async def test_lingering_fills_one_batch_and_flush_ends_it(bootstrap: str, topics: Topics) -> None:
    topic = topics.make()
    async with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
        deliveries = []
        for number in range(10):
            deliveries.append(await producer.send(topic, b"%d" % number))
            await asyncio.sleep(0)
        assert not deliveries[0].done()
        await producer.flush()
        assert all(delivery.done() for delivery in deliveries)
    assert len(topics.batches(topic)) == 1


async def test_lingering_ends_by_itself(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        assert (await asyncio.wait_for(producer.send_and_wait(topic, b"x"), 10)).offset == 0


async def test_serializers(bootstrap: str, topic: str, confluent: Confluent) -> None:
    async with Producer(bootstrap_servers=bootstrap, key_serializer="str", value_serializer="json") as producer:
        await producer.send_and_wait(topic, {"tea": 2}, 17)
        await (await producer.send_batch(topic, [[1], None], ["a", None]))
    rows = [(found.key, found.value) for found in read(confluent, topic, 3)]
    assert rows == [(b"17", b'{"tea":2}'), (b"a", b"[1]"), (None, None)]


async def test_many_tasks_at_once(bootstrap: str, topics: Topics, confluent: Confluent) -> None:
    topic = topics.make(3)
    async with Producer(bootstrap_servers=bootstrap) as producer:

        async def work(task: int) -> None:
            for number in range(20):
                await producer.send_and_wait(topic, b"%d" % number, b"task %d" % task)

        await asyncio.gather(*map(work, range(50)))
    found: dict[bytes | None, list[bytes | None]] = {}
    for received in read(confluent, topic, 1_000, 3):
        found.setdefault(received.key, []).append(received.value)
    assert len(found) == 50
    assert all(values == [b"%d" % number for number in range(20)] for values in found.values())


async def test_partitions_that_are_added_are_used(bootstrap: str, topics: Topics) -> None:
    topic = topics.make(1)
    async with Producer(bootstrap_servers=bootstrap) as producer:
        assert await producer.partitions_for(topic) == {0}
        topics._keeper.add_partitions(topic, 2)
        topics.wait_for(topic, 2)
        assert (await producer.send_and_wait(topic, b"x", partition=1)).partition == 1
        assert await producer.partitions_for(topic) == {0, 1}
