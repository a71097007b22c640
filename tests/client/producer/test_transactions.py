"""Transactions: all or nothing, also with a group's offsets; who is fenced, and what can be gone on with."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition

from minikafka.client.cluster import Cluster
from minikafka.client.errors import IllegalState, ProducerFailed, RequestTimeout, TransactionFailed
from minikafka.client.producer import Producer
from minikafka.client.producer.transactions import Transactions
from minikafka.client.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import IllegalGenerationError, MessageTooLargeError, UnknownMemberIdError
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.model import READ_S, Reading
from tests.compat.clients.topics import Topics


@pytest.fixture
def transactional_id() -> str:
    return f"id {uuid.uuid4().hex[:8]}"


def committed(confluent: Confluent, topic: str, count: int, partition: int = 0) -> list[bytes | None]:
    """What a reader of committed records sees first, which is librdkafka's default."""
    return [found.value for found in confluent.read(topic, count, Reading(partitions=[partition]))]


async def test_a_commit_shows_everything_and_an_abort_nothing(
    bootstrap: str, topics: Topics, confluent: Confluent, transactional_id: str
) -> None:
    topic = topics.make(2)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
        async with producer.transaction():
            await producer.send(topic, b"1", partition=0)
            await producer.send(topic, b"2", partition=1)
        await producer.begin_transaction()
        lost = await producer.send(topic, b"3", partition=0)
        await lost
        unsent = await producer.send(topic, b"4", partition=0)
        await producer.abort_transaction()
        with pytest.raises(TransactionFailed):
            await unsent
        async with producer.transaction():
            await (await producer.send_batch(topic, [b"5", b"6"], partition=0))
    assert await asyncio.to_thread(committed, confluent, topic, 3) == [b"1", b"5", b"6"]
    assert await asyncio.to_thread(committed, confluent, topic, 1, 1) == [b"2"]


async def test_a_block_that_raises_is_aborted(
    bootstrap: str, topic: str, confluent: Confluent, transactional_id: str
) -> None:
    async with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"1")
                raise ZeroDivisionError
        async with producer.transaction():
            await producer.send(topic, b"2")
    assert await asyncio.to_thread(committed, confluent, topic, 1) == [b"2"]


async def test_calls_that_do_not_fit(bootstrap: str, topic: str, transactional_id: str) -> None:
    async with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
        for call in (
            producer.send(topic, b"1"),
            producer.send_batch(topic, [b"1"]),
            producer.commit_transaction(),
            producer.abort_transaction(),
            producer.send_offsets_to_transaction({}, "group"),
        ):
            with pytest.raises(IllegalState):
                await call
        await producer.begin_transaction()
        with pytest.raises(IllegalState, match="a transaction is open"):
            await producer.begin_transaction()
        await producer.commit_transaction()
    async with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(IllegalState, match="transactional_id"):
            await producer.begin_transaction()


async def test_the_next_producer_of_an_id_fences_the_one_before(
    bootstrap: str, topic: str, confluent: Confluent, transactional_id: str
) -> None:
    async with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as old:
        await old.begin_transaction()
        await old.send_and_wait(topic, b"old")
        async with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as new:
            async with new.transaction():
                await new.send(topic, b"new")
            with pytest.raises(ProducerFailed):
                await old.commit_transaction()
            for call in (old.send(topic, b"late"), old.begin_transaction(), old.abort_transaction()):
                with pytest.raises(ProducerFailed):
                    await call
    assert await asyncio.to_thread(committed, confluent, topic, 1) == [b"new"]


async def test_a_record_that_is_refused_fails_the_transaction_and_not_the_producer(
    bootstrap: str, topics: Topics, confluent: Confluent, transactional_id: str
) -> None:
    topic = topics.make(configs={"max.message.bytes": "1000"})
    options = {"transactional_id": transactional_id, "compression_type": "none"}
    async with Producer(bootstrap_servers=bootstrap, **options) as producer:  # type: ignore[arg-type]
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"1")
        with pytest.raises(MessageTooLargeError):
            await producer.send_and_wait(topic, b"x" * 2_000)
        with pytest.raises(TransactionFailed):
            await producer.send(topic, b"2")
        with pytest.raises(TransactionFailed):
            await producer.commit_transaction()
        await producer.abort_transaction()
        for number in (b"3", b"4"):
            async with producer.transaction():
                await producer.send_and_wait(topic, number)
    assert await asyncio.to_thread(committed, confluent, topic, 2) == [b"3", b"4"]


def committed_offset(confluent: Confluent, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": confluent._bootstrap, "group.id": group})
    try:
        return consumer.committed([ConfluentPartition(topic, 0)], timeout=READ_S)[0].offset
    finally:
        consumer.close()


async def test_offsets_are_part_of_it(bootstrap: str, topic: str, confluent: Confluent, transactional_id: str) -> None:
    group, place = f"group of {topic}", TopicPartition(topic, 0)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
        async with producer.transaction():
            await producer.send(topic, b"1")
            await producer.send_offsets_to_transaction({place: 7}, group)
        assert await asyncio.to_thread(committed_offset, confluent, group, topic) == 7
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({place: OffsetAndMetadata(9, "note")}, ConsumerGroupMetadata(group))
        await producer.abort_transaction()
        assert await asyncio.to_thread(committed_offset, confluent, group, topic) == 7


async def test_a_member_that_the_group_has_lost_cannot_commit(
    bootstrap: str, topic: str, transactional_id: str
) -> None:
    zombie = ConsumerGroupMetadata(f"group of {topic}", 5, "somebody")
    async with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
        await producer.begin_transaction()
        with pytest.raises((IllegalGenerationError, UnknownMemberIdError)):
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, zombie)
        with pytest.raises(TransactionFailed):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(topic, b"1")


@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_coordinator_that_may_not_have_heard_of_a_partition(
    bootstrap: str,
    topic: str,
    confluent: Confluent,
    transactional_id: str,
    monkeypatch: pytest.MonkeyPatch,
    is_heard: bool,
) -> None:
    # With version 2 nobody asks.
    monkeypatch.setattr(Cluster, "transaction_version", 0)
    ask = Transactions._ask_to_add

    async def lose_the_answer(self: Transactions, places: list[TopicPartition]) -> None:
        self._may_be_known = True
        if is_heard:
            await ask(self, places)
        raise RequestTimeout("the answer was lost")

    options = {"transactional_id": transactional_id, "max_block_ms": 1_000}
    async with Producer(bootstrap_servers=bootstrap, **options) as producer:  # type: ignore[arg-type]
        async with producer.transaction():
            await producer.send(topic, b"1")
        with monkeypatch.context() as patch:
            patch.setattr(Transactions, "_ask_to_add", lose_the_answer)
            await producer.begin_transaction()
            await producer.send(topic, b"2")
            with pytest.raises(TransactionFailed, match="the answer was lost"):
                await producer.commit_transaction()
            await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(topic, b"3")
    assert await asyncio.to_thread(committed, confluent, topic, 2) == [b"1", b"3"]


async def test_closing_with_a_transaction_open_does_not_stop_its_readers(
    bootstrap: str, topic: str, confluent: Confluent, transactional_id: str
) -> None:
    options = {"transactional_id": transactional_id, "transaction_timeout_ms": 600_000}
    async with Producer(bootstrap_servers=bootstrap, **options) as producer:  # type: ignore[arg-type]
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"open")
    async with Producer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"plain")
    assert await asyncio.to_thread(committed, confluent, topic, 1) == [b"plain"]


async def test_producer_goes_over_to_version_2_between_transactions(
    bootstrap: str,
    topic: str,
    confluent: Confluent,
    transactional_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From then on each transaction has an epoch of its own, also the first one, and nothing is added beforehand."""

    async def add(*_: object) -> None:
        raise AssertionError("with version 2 nobody adds partitions")

    monkeypatch.setattr(Cluster, "transaction_version", 0)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
        epochs = []

        async def run(value: bytes) -> None:
            await producer.begin_transaction()
            await (await producer.send(topic, value))
            assert producer.identity is not None
            epochs.append(producer.identity.epoch)

        await run(b"1")
        # What holds when a transaction begins, holds for all of it.
        monkeypatch.setattr(Cluster, "transaction_version", 2)
        await producer.commit_transaction()
        monkeypatch.setattr(Transactions, "_ask_to_add", add)
        await run(b"2")
        await producer.commit_transaction()
        await run(b"3")
        await producer.abort_transaction()
        await run(b"4")
        await producer.commit_transaction()
        assert epochs == [0, 1, 2, 3]
    assert committed(confluent, topic, 3) == [b"1", b"2", b"4"]
