"""What a program can do wrong: one clear error each, nothing hangs, nothing is lost, nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from minikafka.client.consumer import Consumer
from minikafka.client.consumer.errors import NoGroup, NotAssigned, RecordNotReadable
from minikafka.client.errors import ClientClosed, ConfigError, IllegalState, NoBrokersAvailable, SerializationFailed
from minikafka.client.structs import OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import InvalidTopicError, UnknownTopicOrPartitionError
from tests.client.consumer.reading import numbers, open_consumer, take, take_many, values
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.model import Record
from tests.compat.clients.topics import Topics
from tests.compat.running import free_ports


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"group_idd": "x"}, "did you mean 'group_id'"),
        ({"group_id": ""}, "must not be empty"),
        ({"group_instance_id": "x"}, "needs a group_id"),
        ({"auto_offset_reset": "oldest"}, "auto_offset_reset must be one of"),
        ({"isolation_level": "snapshot"}, "isolation_level must be one of"),
        ({"partition_assignment_strategy": "random"}, "no assignor 'random'"),
        ({"value_deserializer": "xml"}, "'xml' is no deserializer"),
        ({"fetch_max_bytes": 0}, "fetch_max_bytes must be 1 or more"),
        ({"heartbeat_interval_ms": 60_000}, "must be less than session_timeout_ms"),
    ],
)
def test_options(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Consumer("t", **options)  # type: ignore[arg-type]


def test_kafkas_names() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'group\.id'"):
        Consumer.from_config({"group.idd": "x"})


def test_subscriptions_that_make_no_sense() -> None:
    consumer = Consumer()
    for topics, pattern, error in (
        ([], None, TypeError),
        (["a"], "a", TypeError),
        ("text", None, TypeError),
        ([""], None, ValueError),
        ([], "(", ValueError),
    ):
        with pytest.raises(error):
            consumer.subscribe(topics, pattern)
    consumer.assign([TopicPartition("a", 0)])
    with pytest.raises(IllegalState, match="assigned by hand"):
        consumer.subscribe(["a"])
    consumer.unsubscribe()
    consumer.subscribe(["a"])
    with pytest.raises(IllegalState, match="unsubscribe first"):
        consumer.assign([TopicPartition("a", 0)])


CALLS: list[Callable[[Consumer], Awaitable[object]]] = [
    lambda consumer: consumer.getone(),
    lambda consumer: consumer.getmany(),
    lambda consumer: consumer.getbatch(),
    lambda consumer: consumer.commit(),
    lambda consumer: consumer.committed(TopicPartition("t", 0)),
    lambda consumer: consumer.position(TopicPartition("t", 0)),
    lambda consumer: consumer.seek_to_end(),
    lambda consumer: consumer.end_offsets([TopicPartition("t", 0)]),
    lambda consumer: consumer.topics(),
]


async def test_a_consumer_that_is_closed_or_not_yet_open(bootstrap: str, topic: str) -> None:
    consumer = Consumer(topic, bootstrap_servers=bootstrap)
    for state in ("new", "closed"):
        for call in CALLS:
            with pytest.raises(ClientClosed):
                await call(consumer)
        for forbidden in (consumer.paused, consumer.metrics, consumer.group_metadata, consumer.__aiter__):
            with pytest.raises(ClientClosed):
                forbidden()
        if state == "new":
            await consumer.start()
            await consumer.stop()
    with pytest.raises(ClientClosed):
        await consumer.start()


async def test_closing_ends_a_call_that_waits(bootstrap: str, topic: str) -> None:
    consumer = Consumer(topic, bootstrap_servers=bootstrap)
    await consumer.start()
    waiting = asyncio.create_task(consumer.getone())
    await asyncio.sleep(0)
    await consumer.stop()
    with pytest.raises(ClientClosed):
        await waiting


async def test_nobody_there() -> None:
    consumer = Consumer("t", bootstrap_servers=f"127.0.0.1:{free_ports(1)}")
    with pytest.raises(NoBrokersAvailable):
        await consumer.start()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_topics_that_do_not_exist(bootstrap: str, confluent: Confluent, topic: str) -> None:
    options = {"allow_auto_create_topics": False, "default_api_timeout_ms": 500}
    with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
        async with open_consumer(bootstrap, "nowhere", **options):
            raise AssertionError
    with pytest.raises(InvalidTopicError):
        async with open_consumer(bootstrap, "no topic", **options):
            raise AssertionError
    confluent.produce(topic, numbers(0, 1))
    async with open_consumer(bootstrap, **options) as consumer:
        consumer.subscribe([topic, "nowhere"])
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            while True:
                await consumer.getmany(timeout_ms=1000)
        # Told once; the other topic can be read.
        consumer.subscribe([topic])
        assert values(await take_many(consumer, 0)) == []
        for wrong in (TopicPartition("nowhere", 0), TopicPartition(topic, 99)):
            with pytest.raises(UnknownTopicOrPartitionError):
                await consumer.end_offsets([wrong])


async def test_partitions_of_others(bootstrap: str, topic: str) -> None:
    async with open_consumer(bootstrap, topic, group_id=topic) as consumer:
        other = TopicPartition(topic, 7)
        for call in (consumer.pause, consumer.resume, consumer.highwater, consumer.lag):
            with pytest.raises(NotAssigned, match="partition=7"):
                call(other)
        with pytest.raises(NotAssigned):
            consumer.seek(other, 0)
        with pytest.raises(NotAssigned):
            await consumer.position(other)
        with pytest.raises(NotAssigned):
            await consumer.commit({other: 1})
        with pytest.raises(NotAssigned):
            await consumer.seek_to_beginning(other)


async def test_numbers_that_make_no_sense(bootstrap: str, topic: str) -> None:
    async with open_consumer(bootstrap, topic, group_id=topic) as consumer:
        tp = TopicPartition(topic, 0)
        await asyncio.wait_for(_assigned(consumer), 30)
        with pytest.raises(ValueError, match="-1"):
            consumer.seek(tp, -1)
        with pytest.raises(ValueError, match="-2"):
            await consumer.commit({tp: OffsetAndMetadata(-2)})
        with pytest.raises(ValueError, match="max_records"):
            await consumer.getmany(max_records=0)
        with pytest.raises(ValueError, match="-5"):
            await consumer.seek_to_time(-5)
        with pytest.raises(ValueError):
            await consumer.offsets_for_times({tp: -1})


async def _assigned(consumer: Consumer) -> None:
    while not consumer.assignment():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_commits_without_a_group(bootstrap: str, topic: str) -> None:
    async with open_consumer(bootstrap, topic) as consumer:
        tp = TopicPartition(topic, 0)
        for call in (consumer.commit(), consumer.committed(tp), consumer.seek_to_committed()):
            with pytest.raises(NoGroup):
                await call
        with pytest.raises(NoGroup):
            consumer.group_metadata()
    async with open_consumer(bootstrap, group_id=topic) as consumer:
        with pytest.raises(IllegalState, match="nothing is subscribed"):
            await consumer.commit()


async def test_one_call_at_a_time(bootstrap: str, confluent: Confluent, topic: str) -> None:
    async with open_consumer(bootstrap, topic) as consumer:
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0)
        for call in (consumer.getone(), consumer.getmany(timeout_ms=10), consumer.getbatch()):
            with pytest.raises(IllegalState, match="another call"):
                await call
        # Other calls are welcome, and the first one is not disturbed.
        assert await consumer.position(TopicPartition(topic, 0)) == 0
        await asyncio.to_thread(confluent.produce, topic, numbers(5, 6))
        assert int((await waiting).value) == 5


async def test_a_cancelled_call_loses_nothing(bootstrap: str, confluent: Confluent, topic: str) -> None:
    async with open_consumer(bootstrap, topic, fetch_max_wait_ms=50) as consumer:
        found: list[int] = []
        for start in range(0, 60, 10):
            # Nothing is there yet, so this call is cancelled for certain; of the next ones some are while records come.
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.getone(), 0.004)
            producing = asyncio.create_task(asyncio.to_thread(confluent.produce, topic, numbers(start, start + 10)))
            while len(found) < start + 10:
                with contextlib.suppress(TimeoutError):
                    found.append(int((await asyncio.wait_for(consumer.getone(), 0.004)).value))
            await producing
        assert found == [*range(60)]


def _even(data: bytes) -> int:
    number = int(data)
    if number % 2:
        raise LookupError(f"{number} is odd")
    return number


async def test_records_that_cannot_be_read(bootstrap: str, confluent: Confluent, topic: str) -> None:
    confluent.produce(topic, [Record(b"%d" % number) for number in (0, 2, 3, 4, 6, 8)])
    async with open_consumer(bootstrap, topic, value_deserializer=_even) as consumer:
        tp = TopicPartition(topic, 0)
        assert values(await take(consumer, 2)) == [0, 2]
        for read in (consumer.getone, consumer.getmany, consumer.getone):
            with pytest.raises(RecordNotReadable, match=r"offset 2 was refused.*3 is odd") as raised:
                await read()
            assert (raised.value.partition, raised.value.offset) == (tp, 2)
            assert SerializationFailed in type(raised.value).__mro__
            assert isinstance(raised.value.__cause__, LookupError)
            assert await consumer.position(tp) == 2
        consumer.seek(tp, 3)
        assert values(await take_many(consumer, 3)) == [4, 6, 8]
        # What comes before the bad one is handed out first.
        await consumer.seek_to_beginning()
        assert values((await consumer.getmany(timeout_ms=5000))[tp]) == [0, 2]
        with pytest.raises(RecordNotReadable):
            await consumer.getmany(timeout_ms=5000)
        # Columns are bytes, and have no such trouble.
        consumer.seek(tp, 0)
        batch = await consumer.getbatch(timeout_ms=5000)
        assert batch is not None and batch.values[2] == b"3"


async def test_topics_are_left_out_of_a_pattern_only_if_they_do_not_match(bootstrap: str, topics: Topics) -> None:
    topic = topics.make()
    async with open_consumer(bootstrap) as consumer:
        consumer.subscribe(pattern=".*")
        await asyncio.wait_for(_assigned(consumer), 30)
        assert topic in consumer.subscription()
        assert "__consumer_offsets" not in consumer.subscription()
