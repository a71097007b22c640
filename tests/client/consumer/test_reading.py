"""Reading from real brokers: one by one, many at a time, in columns; from here, from there, and from nowhere."""

from __future__ import annotations

import asyncio
import os

import pytest

from minikafka.client.consumer import Consumer, ConsumerRecord
from minikafka.client.consumer.errors import NoOffsetForPartition, OffsetOutOfRange
from minikafka.client.structs import OffsetAndTimestamp, TopicPartition
from tests.broker.eventually import eventually
from tests.client.consumer.reading import READ_S, numbers, open_consumer, take, take_batches, take_many, values
from tests.compat.clients.confluent import Confluent, ConfluentAdmin
from tests.compat.clients.model import Producing, Record
from tests.compat.clients.topics import Topics

NOW_MS = 1_700_000_000_000


def part(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, number)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_records_arrive_as_they_were_sent(bootstrap: str, confluent: Confluent, topic: str, codec: str) -> None:
    sent = [
        Record(b"value", b"key", (("a", b"1"), ("b", None)), NOW_MS),
        Record(None, b"tombstone", (), NOW_MS + 1),
        Record(b"", None, (), NOW_MS + 2),
        *(Record(b"%d" % number * number, b"k", (), NOW_MS + number) for number in range(3, 100)),
    ]
    confluent.produce(topic, sent, how=Producing(codec))
    async with open_consumer(bootstrap, topic) as consumer:
        found = await take(consumer, len(sent))
        assert [Record(each.value, each.key, each.headers, each.timestamp) for each in found] == sent
        assert [each.offset for each in found] == [*range(len(sent))]
        assert {(each.topic, each.partition, each.timestamp_type, each.checksum) for each in found} == {
            (topic, 0, 0, None)
        }
        assert (found[0].serialized_key_size, found[1].serialized_value_size) == (3, -1)
        await consumer.seek_to_beginning()
        assert await take_many(consumer, len(sent)) == found
        await consumer.seek_to_beginning()
        batch = await consumer.getbatch(timeout_ms=5000)
        assert batch is not None and len(batch) == len(sent)
        columns = zip(batch.values, batch.keys, batch.headers, batch.timestamps.tolist(), strict=True)
        assert [Record(*row) for row in columns] == sent
        assert batch.offsets.tolist() == [*range(len(sent))]
        assert (batch.topic_partition, batch.next_offset) == (part(topic), len(sent))


async def test_ways_of_reading_can_be_mixed(bootstrap: str, confluent: Confluent, topic: str) -> None:
    for start in range(0, 3000, 500):
        confluent.produce(topic, numbers(start, start + 500))
    found: list[int] = []
    async with open_consumer(bootstrap, topic) as consumer:
        while len(found) < 3000:
            found += values(await take(consumer, 7))
            assert await consumer.position(part(topic)) == len(found)
            found += values(await take_many(consumer, 11, max_records=11))
            assert await consumer.position(part(topic)) == len(found)
            found += [int(value or b"") for value in await take_batches(consumer, 1, max_records=13)]
            assert await consumer.position(part(topic)) == len(found)
            if len(found) < 2900:
                async for record in consumer:
                    found.append(int(record.value))
                    break
        assert found == [*range(3000)]
        assert consumer.lag(part(topic)) == 0
        assert consumer.highwater(part(topic)) == 3000


async def test_partitions_take_turns(bootstrap: str, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make(3)
    for number in range(3):
        for start in range(0, 300, 100):
            confluent.produce(topic, numbers(start, start + 100), number)
    async with open_consumer(bootstrap, topic) as consumer:
        # Until everything is here, so that there is a choice: an answer may come without the records.
        states = consumer._require_core().assigned
        await eventually(lambda: [state.fetch_position.offset for state in states] == [300] * 3)
        found = await take(consumer, 900)
        assert [record.partition for record in found[50::100]] == [
            found[50].partition,
            found[150].partition,
            found[250].partition,
        ] * 3
        assert {record.partition for record in found[:300]} == {0, 1, 2}
        for number in range(3):
            assert [each.offset for each in found if each.partition == number] == [*range(300)]


async def test_only_the_partitions_that_are_named(bootstrap: str, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make(2)
    confluent.produce(topic, numbers(0, 10), 0)
    confluent.produce(topic, numbers(10, 20), 1)
    async with open_consumer(bootstrap, topic) as consumer:
        one = [await consumer.getone(part(topic, 1)) for _ in range(5)]
        many = await consumer.getmany(part(topic, 1), timeout_ms=5000)
        assert values(one) + values(many[part(topic, 1)]) == [*range(10, 20)]
        batch = await consumer.getbatch(part(topic, 0), timeout_ms=5000)
        assert batch is not None and batch.partition == 0


async def test_seeking(bootstrap: str, confluent: Confluent, topic: str) -> None:
    times = [Record(b"%d" % number, timestamp_ms=NOW_MS + 1000 * number) for number in range(100)]
    confluent.produce(topic, times)
    async with open_consumer(bootstrap, topic, auto_offset_reset="latest") as consumer:
        tp = part(topic)
        assert await consumer.position(tp) == 100
        consumer.seek(tp, 40)
        assert values(await take(consumer, 2)) == [40, 41]
        await consumer.seek_to_time(NOW_MS + 69_500, tp)
        assert values(await take(consumer, 1)) == [70]
        await consumer.seek_to_time(NOW_MS + 1_000_000)
        assert await consumer.position(tp) == 100
        await consumer.seek_to_beginning(tp)
        assert await consumer.position(tp) == 0
        assert values(await take(consumer, 1)) == [0]
        await consumer.seek_to_end()
        assert await consumer.position(tp) == 100
        asked = {tp: NOW_MS + 1}
        assert await consumer.offsets_for_times(asked) == {tp: OffsetAndTimestamp(1, NOW_MS + 1000, 0)}
        assert await consumer.offsets_for_times({tp: NOW_MS + 1_000_000}) == {tp: None}
        assert (await consumer.beginning_offsets([tp]), await consumer.end_offsets([tp])) == ({tp: 0}, {tp: 100})


async def test_a_seek_counts_at_once(bootstrap: str, confluent: Confluent, topic: str) -> None:
    confluent.produce(topic, numbers(0, 1000))
    async with open_consumer(bootstrap, topic) as consumer:
        for offset in (500, 3, 998, 0, 700, 701):
            await take(consumer, 1)
            consumer.seek(part(topic), offset)
            assert await consumer.position(part(topic)) == offset
            assert values(await take(consumer, 1)) == [offset]
        consumer.seek(part(topic), 10)
        assert values(await take_many(consumer, 1, max_records=1)) == [10]
        consumer.seek(part(topic), 20)
        assert (await take_batches(consumer, 1, max_records=1)) == [b"20"]


async def test_paused_partitions_wait(bootstrap: str, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make(2)
    confluent.produce(topic, numbers(0, 10), 0)
    confluent.produce(topic, numbers(10, 20), 1)
    async with open_consumer(bootstrap, topic) as consumer:
        first = await consumer.getone(part(topic, 0))
        consumer.pause(part(topic, 0))
        assert consumer.paused() == {part(topic, 0)}
        assert {*values(await take(consumer, 10))} == {*range(10, 20)}
        assert await consumer.getmany(timeout_ms=300) == {}
        consumer.resume(part(topic, 0))
        assert values([first, *await take(consumer, 9)]) == [*range(10)]


async def test_a_long_wait_ends_with_the_first_record(bootstrap: str, confluent: Confluent, topic: str) -> None:
    async with open_consumer(bootstrap, topic) as consumer:
        await consumer.position(part(topic))
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.to_thread(confluent.produce, topic, numbers(7, 8))
        assert int((await asyncio.wait_for(waiting, READ_S)).value) == 7
        assert await consumer.getmany(timeout_ms=50) == {}
        assert await consumer.getbatch(timeout_ms=50) is None


async def test_iteration_may_end_by_itself(bootstrap: str, confluent: Confluent, topic: str) -> None:
    confluent.produce(topic, numbers(0, 5))
    async with open_consumer(bootstrap, topic, consumer_timeout_ms=700) as consumer:
        await consumer.position(part(topic))
        assert [int(record.value) async for record in consumer] == [0, 1, 2, 3, 4]


async def test_deserializers(bootstrap: str, confluent: Confluent, topic: str) -> None:
    confluent.produce(topic, [Record(b'{"a": 1}', b"x"), Record(None, None), *(Record(b"[]", b"y") for _ in range(50))])
    async with open_consumer(bootstrap, topic, key_deserializer="str", value_deserializer="json") as consumer:
        first, second, *rest = await take(consumer, 52)
        assert (first.key, first.value, first.serialized_value_size) == ("x", {"a": 1}, 8)
        assert (second.key, second.value) == (None, None)
        assert {each.key for each in rest} == {"y"} and rest[-1].value == []


async def test_nothing_committed_and_no_reset(bootstrap: str, topic: str) -> None:
    async with open_consumer(bootstrap, topic, auto_offset_reset="none", group_id=topic) as consumer:
        with pytest.raises(NoOffsetForPartition) as raised:
            await consumer.getone()
        assert raised.value.partition == part(topic)
        with pytest.raises(NoOffsetForPartition):
            await consumer.position(part(topic))
        consumer.seek(part(topic), 0)
        assert await consumer.position(part(topic)) == 0


async def test_offsets_that_are_gone(bootstrap: str, confluent: Confluent, keeper: ConfluentAdmin, topic: str) -> None:
    confluent.produce(topic, numbers(0, 50))
    keeper.delete_records(topic, 20)
    async with open_consumer(bootstrap, topic) as consumer:
        consumer.seek(part(topic), 3)
        assert values(await take(consumer, 2)) == [20, 21]
        consumer.seek(part(topic), 1000)
        assert values(await take(consumer, 1)) == [20]
    async with open_consumer(bootstrap, topic, auto_offset_reset="none") as consumer:
        consumer.seek(part(topic), 3)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRange, match="offset 3 of"):
                await consumer.getone()
        consumer.seek(part(topic), 20)
        assert values(await take(consumer, 1)) == [20]


async def test_little_memory_is_enough(bootstrap: str, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make(3)
    large = b"x" * 2000
    for number in range(3):
        for _ in range(5):
            confluent.produce(topic, [Record(large)] * 100, number)
    options = {"max_buffered_bytes": 300_000, "max_partition_fetch_bytes": 100_000}
    async with open_consumer(bootstrap, topic, **options) as consumer:
        await eventually(lambda: consumer.metrics().buffered_bytes > 0)
        most = consumer.metrics().buffered_bytes
        found: list[ConsumerRecord] = []
        while len(found) < 1500:
            found += await take_many(consumer, 1, max_records=20)
            most = max(most, consumer.metrics().buffered_bytes)
        assert {(record.partition, record.offset) for record in found} == {(p, o) for p in range(3) for o in range(500)}
        # A batch of a hundred records is two thirds of the limit, and one is always allowed for each broker.
        assert most <= 300_000 + 3 * 210_000
        assert consumer.metrics().buffered_bytes == 0


async def test_all_partitions_without_a_group(bootstrap: str, confluent: Confluent, topics: Topics) -> None:
    topic = topics.make(2)
    confluent.produce(topic, numbers(0, 5), 0)
    confluent.produce(topic, numbers(5, 9), 1)
    async with open_consumer(bootstrap, topic) as consumer:
        assert sorted(values(await take(consumer, 9))) == [*range(9)]
        assert consumer.assignment() == {part(topic, 0), part(topic, 1)}
        assert consumer.subscription() == {topic}
        assert consumer.partitions_for_topic(topic) == {0, 1}
        assert consumer.partitions_for_topic("never heard of") is None
        assert topic in await consumer.topics()
        metrics = consumer.metrics()
        assert (metrics.records_read, metrics.assigned_partitions, metrics.lag_max) == (9, 2, 0)
        assert consumer.last_poll_timestamp(part(topic)) is not None
        assert consumer.last_stable_offset(part(topic)) == 5


async def test_a_pattern_finds_new_topics(
    bootstrap: str, confluent: Confluent, keeper: ConfluentAdmin, topics: Topics
) -> None:
    first = topics.make()
    async with open_consumer(bootstrap, metadata_max_age_ms=200) as consumer:
        consumer.subscribe(pattern=f"{first}.*")
        confluent.produce(first, numbers(0, 1))
        assert values(await take(consumer, 1)) == [0]
        second = f"{first}-more"
        keeper.create_topic(second)
        topics.wait_for(second, 1)
        confluent.produce(second, numbers(1, 2))
        assert values(await take(consumer, 1)) == [1]
        assert consumer.subscription() == {first, second}
        consumer.unsubscribe()
        assert consumer.assignment() == frozenset()


async def test_by_kafkas_names(bootstrap: str, confluent: Confluent, topic: str) -> None:
    confluent.produce(topic, numbers(0, 1))
    config = {"bootstrap.servers": bootstrap, "auto.offset.reset": "smallest", "enable.auto.commit": "false"}
    consumer = Consumer.from_config(config, topic)
    await consumer.start()
    try:
        assert values(await take(consumer, 1)) == [0]
    finally:
        await consumer.stop()
        await consumer.stop()


@pytest.mark.parametrize("how", ["paused", "not asked for"])
async def test_a_full_buffer_of_what_nobody_wants_now(
    bootstrap: str, confluent: Confluent, topics: Topics, how: str
) -> None:
    bulk, urgent = topics.make(4), topics.make()
    for number in [*range(4)] * 20:
        await asyncio.to_thread(confluent.produce, bulk, [Record(os.urandom(10_000))] * 2, number)
    options = {"max_buffered_bytes": 400_000, "max_partition_fetch_bytes": 100_000}
    places, wanted = [TopicPartition(bulk, number) for number in range(4)], TopicPartition(urgent, 0)
    async with open_consumer(bootstrap, **options) as consumer:
        consumer.assign([*places, wanted])
        memory = consumer._core.fetcher.memory  # type: ignore[union-attr]
        await eventually(lambda: memory.used_bytes > 300_000 and not memory.has_room, READ_S)
        if how == "paused":
            consumer.pause(*places)
        waiting = asyncio.create_task(consumer.getone(*([] if how == "paused" else [wanted])))
        await asyncio.to_thread(confluent.produce, urgent, numbers(0, 3))
        async with asyncio.timeout(READ_S):
            assert int((await waiting).value) == 0
        # The limit is overdrawn by one request of a broker at most.
        assert memory.used_bytes <= 400_000 + 3 * 110_000
        consumer.resume(*places)
        assert len(await take_many(consumer, 162)) == 162
        assert memory.used_bytes == 0
