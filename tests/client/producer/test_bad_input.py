"""What a caller can get wrong: one clear error each, nothing lost, nothing left behind."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from minikafka.client import (
    ClientClosed,
    ConfigError,
    NoBrokersAvailable,
    Producer,
    RecordTooLarge,
    SerializationFailed,
    WrongListener,
)
from minikafka.protocol.errors import InvalidTopicError, MessageTooLargeError, UnknownTopicOrPartitionError
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.topics import Topics
from tests.compat.running import free_ports


async def test_nobody_is_there() -> None:
    producer = Producer(bootstrap_servers=f"127.0.0.1:{free_ports(1)}")
    with pytest.raises(NoBrokersAvailable, match="Connection refused"):
        await producer.start()
    assert len(asyncio.all_tasks()) == 1
    await producer.stop()


async def test_another_kind_of_listener(bootstrap: str) -> None:
    with pytest.raises(WrongListener):
        async with Producer(bootstrap_servers=bootstrap, security_protocol="SSL"):
            pass


@pytest.mark.parametrize("options", [{"linger": 5}, {"acks": 2}, {"acks": True}, {"bootstrap_servers": ""}])
def test_options(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Producer(**options)


async def test_a_topic_that_does_not_exist(bootstrap: str) -> None:
    options = {"allow_auto_create_topics": False, "max_block_ms": 300}
    async with Producer(bootstrap_servers=bootstrap, **options) as producer:  # type: ignore[arg-type]
        start = time.monotonic()
        with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
            await producer.send("no-such-topic", b"x")
        assert time.monotonic() - start < 5
        with pytest.raises(InvalidTopicError, match="no name!"):
            await producer.send("no name!", b"x")


async def test_a_partition_that_does_not_exist(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for partition in (-1, 1):
            with pytest.raises(UnknownTopicOrPartitionError, match=f"has partitions 0 to 0, not {partition}"):
                await producer.send(topic, b"x", partition=partition)


async def test_records_that_are_too_large(bootstrap: str, topics: Topics, confluent: Confluent) -> None:
    topic = topics.make(configs={"max.message.bytes": "1000"})
    async with Producer(bootstrap_servers=bootstrap, max_request_size=5_000, compression_type=None) as producer:
        with pytest.raises(RecordTooLarge, match="larger than max_request_size, which is 5000"):
            await producer.send(topic, b"x" * 6_000)
        with pytest.raises(MessageTooLargeError):
            await producer.send_batch(topic, [b"good", b"x" * 6_000])
        with pytest.raises(MessageTooLargeError):
            await producer.send_and_wait(topic, b"x" * 2_000)
        # Together they are too large for the topic, one by one they are not.
        values = [b"%d" % number + b"y" * 300 for number in range(9)]
        sent = await (await producer.send_batch(topic, values))
        assert sum(each.records for each in sent) == 9
        assert producer.metrics().buffered_bytes == 0
    assert [found.value for found in confluent.read(topic, 9)] == values


async def test_values_that_are_no_bytes(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap_servers=bootstrap, value_serializer="json") as producer:
        with pytest.raises(SerializationFailed):
            await producer.send(topic, object())
        with pytest.raises(SerializationFailed):
            await producer.send(topic, 1, key=2)
        with pytest.raises(ValueError, match="2 keys for 1 values"):
            await producer.send_batch(topic, [1], [b"a", b"b"])
        assert (await producer.send_and_wait(topic, 1)).offset == 0


async def test_before_the_start_and_after_the_end(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap)

    async def refuse_all(text: str) -> None:
        for call in (
            producer.send(topic, b"x"),
            producer.send_batch(topic, [b"x"]),
            producer.flush(),
            producer.partitions_for(topic),
            producer.begin_transaction(),
        ):
            with pytest.raises(ClientClosed, match=text):
                await call

    await refuse_all("not started")
    await producer.start()
    await producer.start()
    await producer.send_and_wait(topic, b"x")
    await producer.stop()
    await refuse_all("closed")
    with pytest.raises(ClientClosed):
        await producer.start()


async def test_leaving_by_an_error_flushes_and_by_a_cancellation_does_not_wait(bootstrap: str, topic: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with Producer(bootstrap_servers=bootstrap, linger_ms=10_000) as producer:
            flushed = await producer.send(topic, b"x")
            raise ZeroDivisionError
    assert flushed.result().offset == 0
    with pytest.raises(asyncio.CancelledError):
        async with Producer(bootstrap_servers=bootstrap, linger_ms=10_000) as producer:
            dropped = await producer.send(topic, b"x")
            raise asyncio.CancelledError
    assert isinstance(dropped.exception(), ClientClosed)
