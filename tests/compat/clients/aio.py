"""aiokafka. Its event loop runs while a call is under way, and rests in between."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError

from tests.compat.clients.model import (
    PRODUCING,
    READ_S,
    READING,
    REPLICATION_FACTOR,
    Client,
    Delivered,
    Described,
    Producing,
    Reading,
    Received,
    Record,
    Refused,
)

APPEND_TIME = 1


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except BrokerResponseError as error:
        raise Refused(error.errno, str(error)) from error


class Aiokafka(Client):
    """`AIOKafkaProducer` and `AIOKafkaConsumer`."""

    name = "aiokafka"
    sets_timestamps = True
    tells_deliveries = True

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self, topic: str, records: Sequence[Record], partition: int | None = 0, how: Producing = PRODUCING
    ) -> list[Delivered]:
        with refusals():
            return asyncio.run(self._produce(topic, records, partition, how))

    async def _produce(
        self, topic: str, records: Sequence[Record], partition: int | None, how: Producing
    ) -> list[Delivered]:
        async with AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks=how.acks if how.acks == "all" else int(how.acks),
            compression_type=None if how.codec == "none" else how.codec,
            enable_idempotence=how.is_idempotent,
            max_request_size=how.request_bytes_max,
            linger_ms=20,
        ) as producer:
            futures = [
                await producer.send(
                    topic,
                    record.value,
                    record.key,
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=list(record.headers),
                )
                for record in records
            ]
            told = await asyncio.wait_for(asyncio.gather(*futures), READ_S)
        # With acks=0 there is no answer, and nothing to tell.
        return [Delivered(one.partition, one.offset, one.timestamp) for one in told if one is not None]

    def read(self, topic: str, count: int, how: Reading = READING) -> Generator[Received, None, None]:
        with asyncio.Runner() as runner:
            consumer = runner.run(self._start(topic, how))
            try:
                for _ in range(count):
                    with refusals():
                        record = runner.run(asyncio.wait_for(consumer.getone(), READ_S))
                    yield received(record)
            finally:
                runner.run(consumer.stop())

    async def _start(self, topic: str, how: Reading) -> Any:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=None,
            auto_offset_reset="none",
            fetch_max_wait_ms=how.wait_ms,
            fetch_min_bytes=how.bytes_min,
            **({"isolation_level": how.isolation} if how.isolation else {}),
        )
        await consumer.start()
        assigned = [TopicPartition(topic, partition) for partition in how.partitions]
        consumer.assign(assigned)
        for partition in assigned:
            consumer.seek(partition, how.offset)
        return consumer

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        return asyncio.run(self._offset_at(TopicPartition(topic, 0), timestamp_ms))

    async def _offset_at(self, partition: Any, timestamp_ms: int) -> int | None:
        async with AIOKafkaConsumer(bootstrap_servers=self._bootstrap, group_id=None) as consumer:
            found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
        return None if found is None else found.offset


def received(record: Any) -> Received:
    return Received(
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type == APPEND_TIME,
        record.key,
        record.value,
        tuple(record.headers),
    )


class AiokafkaAdmin:
    """`AIOKafkaAdminClient`."""

    def __init__(self, bootstrap: str) -> None:
        self._runner = asyncio.Runner()
        self.client = self.run(self._start(bootstrap))

    async def _start(self, bootstrap: str) -> Any:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await client.start()
        return client

    def run(self, call: Any) -> Any:
        with refusals():
            return self._runner.run(asyncio.wait_for(call, READ_S))

    def close(self) -> None:
        self.run(self.client.close())
        self._runner.close()

    def create_topic(
        self,
        topic: str,
        partitions: int | Mapping[int, list[int]] = 1,
        configs: Mapping[str, str] = {},
        is_trial: bool = False,
    ) -> None:
        if isinstance(partitions, int):
            new = NewTopic(topic, partitions, REPLICATION_FACTOR, topic_configs=dict(configs))
        else:
            new = NewTopic(topic, -1, -1, replica_assignments=dict(partitions), topic_configs=dict(configs))
        answer = self.run(self.client.create_topics([new], validate_only=is_trial))
        ((_, code, text),) = answer.topic_errors
        check(code, text)

    def delete_topic(self, topic: str) -> None:
        ((_, code),) = self.run(self.client.delete_topics([topic])).topic_error_codes
        check(code)

    def leaders(self, topic: str) -> dict[int, int]:
        (found,) = self.run(self.client.describe_topics([topic]))
        check(found["error_code"])
        return {partition["partition"]: partition["leader"] for partition in found["partitions"]}

    def add_partitions(self, topic: str, total: int) -> None:
        self.run(self.client.create_partitions({topic: NewPartitions(total)}))

    def topic_configs(self, topic: str) -> dict[str, str]:
        (answer,) = self.run(self.client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        ((code, text, _, _, entries),) = answer.resources
        check(code, text)
        return {entry[0]: entry[1] for entry in entries}

    def set_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))
        (answer,) = self.run(self.client.alter_configs([resource]))
        ((code, text, _, _),) = answer.resources
        check(code, text)

    def delete_records(self, topic: str, before: int) -> int:
        partition = TopicPartition(topic, 0)
        low_watermark: int = self.run(self.client.delete_records({partition: RecordsToDelete(before)}))[partition]
        return low_watermark

    def describe_cluster(self) -> Described:
        found = self.run(self.client.describe_cluster())
        return Described(found["cluster_id"], found["controller_id"], {node["node_id"] for node in found["brokers"]})


def check(code: int, text: str | None = None) -> None:
    if code:
        raise Refused(code, text or "")
