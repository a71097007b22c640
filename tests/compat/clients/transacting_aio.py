"""aiokafka's transactions. Its event loop runs while a call is under way, and rests in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import BrokerResponseError, KafkaError, ProducerFenced

from tests.compat.clients.aio import received
from tests.compat.clients.model import READ_S, Received, Refused
from tests.compat.clients.transacting import COMMITTED, TIMEOUT_MS, Abortable, Fatal, GroupReader, Place

PRODUCER_FENCED = 90
UNKNOWN_CODE = -1


class AiokafkaTransactor:
    """`AIOKafkaProducer` with a transactional_id."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._runner = asyncio.Runner()
        self._producer = self._runner.run(_make_producer(bootstrap, transactional_id, timeout_ms))
        self._run(self._producer.start())

    def _run(self, call: Any) -> Any:
        with self._verdicts():
            return self._runner.run(asyncio.wait_for(call, READ_S))

    @contextmanager
    def _verdicts(self) -> Iterator[None]:
        """By the state the client puts itself into."""
        try:
            yield
        except KafkaError as error:
            manager = self._producer._txn_manager
            is_abortable = manager.state.name == "ABORTABLE_ERROR"
            kind = Fatal if manager.is_fatal_error() else Abortable if is_abortable else Refused
            raise kind(_code(error), str(error)) from error

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, place: Place, values: Sequence[bytes]) -> list[int]:
        offsets: list[int] = self._run(self._send(place, values))
        return offsets

    async def _send(self, place: Place, values: Sequence[bytes]) -> list[int]:
        futures = [await self._producer.send(place.topic, value, partition=place.partition) for value in values]
        return [one.offset for one in await asyncio.gather(*futures)]

    def send_offsets(self, reader: GroupReader, offsets: Mapping[Place, int]) -> None:
        assert isinstance(reader, AiokafkaGroupReader)
        wanted = {TopicPartition(*place): offset for place, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(wanted, reader.group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        """As a process that ends: `stop` would wait for the end of the transaction."""
        self._runner.run(self._producer.client.close())
        self._producer._closed = True
        self._runner.close()


def _code(error: KafkaError) -> int:
    if isinstance(error, ProducerFenced):
        return PRODUCER_FENCED
    return int(error.errno) if isinstance(error, BrokerResponseError) else UNKNOWN_CODE


async def _make_producer(bootstrap: str, transactional_id: str, timeout_ms: int) -> Any:
    return AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )


class AiokafkaGroupReader:
    """`AIOKafkaConsumer` that has joined."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.group = group
        self._runner = asyncio.Runner()
        self._consumer = self._runner.run(_consumer(bootstrap, group, COMMITTED, topic))

    def read(self, count: int) -> list[Received]:
        found = self._runner.run(self._consumer.getmany(timeout_ms=int(READ_S * 1000), max_records=count))
        records = [received(record) for some in found.values() for record in some]
        assert records, "nothing to read"
        return records

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(TopicPartition(*place), offset)

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


async def _consumer(bootstrap: str, group: str | None, isolation: str, *topics: str) -> Any:
    consumer = AIOKafkaConsumer(
        *topics,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level=isolation,
    )
    await consumer.start()
    return consumer


class AiokafkaTransacting:
    """All of it."""

    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def transactor(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> AiokafkaTransactor:
        return AiokafkaTransactor(self._bootstrap, transactional_id, timeout_ms)

    def reader(self, group: str, topic: str) -> AiokafkaGroupReader:
        return AiokafkaGroupReader(self._bootstrap, group, topic)

    def end_offset(self, place: Place, isolation: str) -> int:
        return asyncio.run(self._end_offset(TopicPartition(*place), isolation))

    async def _end_offset(self, partition: Any, isolation: str) -> int:
        consumer = await _consumer(self._bootstrap, None, isolation)
        try:
            return int((await consumer.end_offsets([partition]))[partition])
        finally:
            await consumer.stop()

    def committed_offset(self, group: str, place: Place) -> int | None:
        return asyncio.run(self._committed_offset(group, TopicPartition(*place)))

    async def _committed_offset(self, group: str, partition: Any) -> int | None:
        consumer = await _consumer(self._bootstrap, group, COMMITTED)
        try:
            consumer.assign([partition])
            found = await consumer.committed(partition)
        finally:
            await consumer.stop()
        return None if found is None else int(found)
