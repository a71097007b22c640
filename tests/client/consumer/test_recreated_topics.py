"""Topics that are deleted, and created again under the same name, on real brokers; nothing creates them by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client.admin import Admin, NewTopic
from minikafka.client.consumer import Consumer
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import UnknownTopicOrPartitionError
from tests.broker.eventually import eventually
from tests.client.consumer.reading import READ_S, numbers, open_consumer, take, values
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.topics import Topics

HOWS = ["topics", "pattern", "partitions"]
OPTIONS: dict[str, Any] = {"allow_auto_create_topics": False, "retry_backoff_ms": 20}


def choose(consumer: Consumer, topic: str, how: str) -> None:
    if how == "topics":
        consumer.subscribe([topic])
    elif how == "pattern":
        consumer.subscribe(pattern=topic)
    else:
        consumer.assign([TopicPartition(topic, 0)])


async def wait_deleted(admin: Admin, topic: str) -> None:
    await admin.delete_topics([topic])
    async with asyncio.timeout(READ_S):
        while topic in await admin.list_topics():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("is_noticed", [True, False], ids=["noticed", "at-once"])
@pytest.mark.parametrize("has_group", [True, False], ids=["group", "alone"])
@pytest.mark.parametrize("how", HOWS)
async def test_recreated_topic_is_read_from_its_beginning(
    bootstrap: str, confluent: Confluent, topics: Topics, how: str, has_group: bool, is_noticed: bool
) -> None:
    topic = topics.make()
    confluent.produce(topic, numbers(0, 5))
    options = {**OPTIONS, **({"group_id": topic, "auto_commit_interval_ms": 50} if has_group else {})}
    async with Admin(bootstrap_servers=bootstrap) as admin, open_consumer(bootstrap, **options) as consumer:
        choose(consumer, topic, how)
        assert values(await take(consumer, 5)) == [*range(5)]
        await wait_deleted(admin, topic)
        if is_noticed:
            cluster = consumer._require_core().cluster
            await eventually(lambda: not cluster.partitions(topic), READ_S)
        await admin.create_topics([NewTopic(topic, 1, 1)])
        await asyncio.to_thread(confluent.produce, topic, numbers(100, 120))
        async with asyncio.timeout(READ_S):
            seen: list[int] = []
            while len(seen) < 20:
                try:
                    seen += [int((await consumer.getone()).value)]
                except UnknownTopicOrPartitionError:
                    # On a machine that takes its time the topic is away for long.
                    continue
        assert [number for number in seen if number >= 100] == [*range(100, 120)]


async def test_deleted_topic_keeps_no_other_from_being_committed(
    bootstrap: str, confluent: Confluent, topics: Topics
) -> None:
    doomed, other = topics.make(), topics.make()
    confluent.produce(doomed, numbers(0, 3))
    confluent.produce(other, numbers(0, 3))
    places = [TopicPartition(doomed, 0), TopicPartition(other, 0)]
    options = {**OPTIONS, "group_id": doomed, "enable_auto_commit": False}
    async with Admin(bootstrap_servers=bootstrap) as admin, open_consumer(bootstrap, **options) as consumer:
        consumer.assign(places)
        await take(consumer, 6)
        await wait_deleted(admin, doomed)
        # Long before the end of the time that a commit has otherwise.
        async with asyncio.timeout(READ_S):
            await consumer.commit()
            assert await consumer.committed(places[1]) == 3
            with pytest.raises(UnknownTopicOrPartitionError):
                await consumer.commit({places[0]: 2, places[1]: 2})
            assert await consumer.committed(places[1]) == 2


async def test_deleted_topic_keeps_group_from_nothing(bootstrap: str, confluent: Confluent, topics: Topics) -> None:
    """Before a member joins again it commits, automatically, what it has finished."""
    doomed, other = topics.make(), topics.make()
    confluent.produce(doomed, numbers(0, 3))
    options = {**OPTIONS, "group_id": doomed}
    async with Admin(bootstrap_servers=bootstrap) as admin, open_consumer(bootstrap, **options) as consumer:
        consumer.subscribe([doomed, other])
        await take(consumer, 3)
        reading = asyncio.create_task(take(consumer, 3))
        await wait_deleted(admin, doomed)
        await eventually(lambda: consumer.assignment() == {TopicPartition(other, 0)}, READ_S / 2)
        await asyncio.to_thread(confluent.produce, other, numbers(0, 3))
        assert values(await reading) == [0, 1, 2]
