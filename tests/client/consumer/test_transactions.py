"""Transactions seen by readers: what was aborted, what is still open, and reading and writing as one."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.client.consumer import Consumer, ConsumerRecord
from minikafka.client.consumer.errors import CommitFailed
from minikafka.client.producer import Producer
from minikafka.client.structs import OffsetAndMetadata, TopicPartition
from tests.broker.eventually import eventually
from tests.client.consumer.reading import READ_S, numbers, open_consumer, take, take_batches, take_many, values
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.topics import Topics

COMMITTED = {"isolation_level": "read_committed"}


class Regret(Exception):
    """Why a transaction is aborted."""


async def write(producer: Producer, topic: str, start: int, stop: int) -> None:
    for number in range(start, stop):
        await producer.send(topic, b"%d" % number, partition=0)


async def test_aborted_records_are_not_seen(bootstrap: str, confluent: Confluent, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        async with producer.transaction():
            await write(producer, topic, 0, 5)
        with pytest.raises(Regret):
            async with producer.transaction():
                await write(producer, topic, 5, 10)
                await producer.flush()
                raise Regret
        async with producer.transaction():
            await write(producer, topic, 10, 15)
    confluent.produce(topic, numbers(15, 16))
    committed = [*range(5), *range(10, 16)]
    async with open_consumer(bootstrap, topic, **COMMITTED) as consumer:
        assert values(await take(consumer, 11)) == committed
        await consumer.seek_to_beginning()
        assert values(await take_many(consumer, 11)) == committed
        await consumer.seek_to_beginning()
        assert [int(value or b"") for value in await take_batches(consumer, 11)] == committed
        # Three markers have offsets too.
        assert await consumer.position(tp) == 19
        assert consumer.lag(tp) == 0
        consumer.seek(tp, 7)
        assert values(await take(consumer, 1)) == [10]
    async with open_consumer(bootstrap, topic) as consumer:
        assert values(await take(consumer, 16)) == [*range(16)]


async def test_readers_wait_for_the_end_of_a_transaction(bootstrap: str, confluent: Confluent, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    async with (
        Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer,
        open_consumer(bootstrap, topic, **COMMITTED) as careful,
        open_consumer(bootstrap, topic) as eager,
    ):
        async with producer.transaction():
            await write(producer, topic, 0, 3)
            await producer.flush()
            await asyncio.to_thread(confluent.produce, topic, numbers(3, 4))
            assert values(await take(eager, 4)) == [0, 1, 2, 3]
            assert await careful.getmany(timeout_ms=700) == {}
            assert (await careful.end_offsets([tp]), await eager.end_offsets([tp])) == ({tp: 0}, {tp: 4})
        assert values(await take(careful, 4)) == [0, 1, 2, 3]
        # The markers are read past, without anything to show for it.
        assert await eager.getmany(timeout_ms=700) == {}
        assert await eager.position(tp) == await careful.position(tp) == 5


async def test_reading_and_writing_as_one(bootstrap: str, confluent: Confluent, topics: Topics) -> None:
    """Every record is doubled once, though every other attempt fails."""
    source, target = topics.make(), topics.make()
    tp = TopicPartition(source, 0)
    confluent.produce(source, numbers(0, 40))
    options = {"group_id": source, "enable_auto_commit": False, **COMMITTED}
    attempts = 0
    async with (
        Producer(bootstrap_servers=bootstrap, transactional_id=source) as producer,
        open_consumer(bootstrap, source, **options) as consumer,
    ):
        done = 0
        while done < 40:
            records = (await consumer.getmany(timeout_ms=5000, max_records=10)).get(tp, [])
            attempts += bool(records)
            try:
                async with producer.transaction():
                    for record in records:
                        await producer.send(target, b"%d" % (2 * int(record.value)), partition=0)
                    offsets = {tp: OffsetAndMetadata(records[-1].offset + 1)}
                    await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                    if attempts % 2:
                        raise Regret
                done += len(records)
            except Regret:
                await consumer.seek_to_committed()
                if done == 0:
                    await consumer.seek_to_beginning()
        assert await consumer.committed(tp) == 40
    async with open_consumer(bootstrap, target, **COMMITTED) as consumer:
        assert values(await take(consumer, 40)) == [*range(0, 80, 2)]
        assert await consumer.getmany(timeout_ms=500) == {}


async def test_member_commits_in_generation_of_its_records(bootstrap: str, confluent: Confluent, topic: str) -> None:
    confluent.produce(topic, numbers(0, 5))
    tp = TopicPartition(topic, 0)
    options = {"group_id": topic, "enable_auto_commit": False, "rebalance_timeout_ms": 1_000}
    async with (
        Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer,
        open_consumer(bootstrap, topic, **options) as consumer,
    ):
        await take(consumer, 5)
        before = consumer.group_metadata()
        consumer.subscribe([topic])
        await eventually(lambda: consumer.metrics().rebalances == 2, READ_S)
        assert consumer.group_metadata() == before
        with pytest.raises(CommitFailed):
            async with producer.transaction():
                await producer.send_offsets_to_transaction({tp: OffsetAndMetadata(5)}, before)
        assert await consumer.committed(tp) is None
        # It is read again.
        await take(consumer, 5)
        async with producer.transaction():
            await producer.send_offsets_to_transaction({tp: OffsetAndMetadata(5)}, consumer.group_metadata())
        assert await consumer.committed(tp) == 5


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_one_output_for_each_input_when_a_partition_moves(
    bootstrap: str, confluent: Confluent, topics: Topics, strategy: str
) -> None:
    """One member works on a record for longer than a rebalance waits; another one gets the partition, and is done."""
    source, target = topics.make(2), topics.make()
    options = {
        "group_id": source,
        "enable_auto_commit": False,
        "partition_assignment_strategy": strategy,
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 1_000,
    }
    for number in range(2):
        confluent.produce(source, numbers(number, number + 1), number)

    async def transform(consumer: Consumer, producer: Producer, record: ConsumerRecord, who: bytes) -> None:
        async with producer.transaction():
            await producer.send(target, record.value + who)
            done = {TopicPartition(source, record.partition): record.offset + 1}
            await producer.send_offsets_to_transaction(done, consumer.group_metadata())

    async with (
        Producer(bootstrap_servers=bootstrap, transactional_id=f"{source}-slow") as slow_producer,
        Producer(bootstrap_servers=bootstrap, transactional_id=f"{source}-quick") as quick_producer,
        open_consumer(bootstrap, source, **options) as slow,
    ):
        in_hand = (await take_many(slow, 2))[:2]
        async with open_consumer(bootstrap, source, **options) as quick:
            record = (await take(quick, 1))[0]
            await transform(quick, quick_producer, record, b" quick")
            same = next(each for each in in_hand if each.partition == record.partition)
            with pytest.raises(CommitFailed):
                await transform(slow, slow_producer, same, b" slow")
            with pytest.raises(CommitFailed):
                await slow.commit({same.topic_partition: same.offset + 1})
    async with open_consumer(bootstrap, target, **COMMITTED) as consumer:
        found = await take(consumer, 1)
        assert [each.value for each in found] == [record.value + b" quick"]
        assert await consumer.getmany(timeout_ms=500) == {}
