"""confluent-kafka, that is librdkafka in its newest version."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.compat.clients.model import (
    PRODUCING,
    READ_S,
    READING,
    REPLICATION_FACTOR,
    Client,
    Delivered,
    Described,
    Headers,
    Producing,
    Reading,
    Received,
    Record,
    Refused,
)

T = TypeVar("T")

# librdkafka's word for "set by the broker".
APPEND_TIME = 2


def result(future: Future[T]) -> T:
    """Wait for an answer; an error of the broker is `Refused`."""
    try:
        return future.result(READ_S)
    except KafkaException as error:
        raise refused(error.args[0]) from error


def refused(error: KafkaError) -> Refused:
    # Told to treat an offset without a record as an error, librdkafka names the setting and not the broker's answer.
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        return Refused(KafkaError.OFFSET_OUT_OF_RANGE, error.str())
    return Refused(error.code(), error.str())


class Confluent(Client):
    """`Producer` and `Consumer`."""

    name = "confluent-kafka"
    sets_timestamps = True
    tells_deliveries = True

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self, topic: str, records: Sequence[Record], partition: int | None = 0, how: Producing = PRODUCING
    ) -> list[Delivered]:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": how.acks,
                "compression.type": how.codec,
                "enable.idempotence": how.is_idempotent,
                "message.max.bytes": how.request_bytes_max,
                "linger.ms": 20,
            }
        )
        reports: list[tuple[KafkaError | None, Message]] = []
        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=-1 if partition is None else partition,
                headers=list(record.headers),
                timestamp=record.timestamp_ms or 0,
                on_delivery=lambda error, message: reports.append((error, message)),
            )
        assert producer.flush(READ_S) == 0
        return [delivered(error, message) for error, message in reports]

    def read(self, topic: str, count: int, how: Reading = READING) -> Generator[Received, None, None]:
        consumer = self.consumer(how)
        try:
            consumer.assign([TopicPartition(topic, partition, how.offset) for partition in how.partitions])
            for _ in range(count):
                message = consumer.poll(READ_S)
                if message is None:
                    raise TimeoutError(f"nothing from {topic}")
                yield received(message)
        finally:
            consumer.close()

    def consumer(self, how: Reading = READING) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "nobody joins it",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": how.wait_ms,
                "fetch.min.bytes": how.bytes_min,
                "allow.auto.create.topics": how.may_create_topics,
                **({"isolation.level": how.isolation} if how.isolation else {}),
            }
        )

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        consumer = self.consumer()
        try:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], timeout=READ_S)
        finally:
            consumer.close()
        return None if found.offset < 0 else found.offset


def delivered(error: KafkaError | None, message: Message) -> Delivered:
    if error is not None:
        raise refused(error)
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    # With acks=0 nobody knows.
    return Delivered(partition, -1 if offset is None else offset, message.timestamp()[1])


def received(message: Message) -> Received:
    error = message.error()
    if error is not None:
        raise refused(error)
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    kind, timestamp_ms = message.timestamp()
    return Received(
        partition,
        offset,
        timestamp_ms,
        kind == APPEND_TIME,
        as_bytes(message.key()),
        as_bytes(message.value()),
        headers_of(message),
    )


def headers_of(message: Message) -> Headers:
    pairs: Any = message.headers() or []
    return tuple((name, as_bytes(value)) for name, value in pairs)


def as_bytes(value: str | bytes | None) -> bytes | None:
    assert not isinstance(value, str)
    return value


class ConfluentAdmin:
    """`AdminClient`."""

    def __init__(self, bootstrap: str) -> None:
        self.client = AdminClient({"bootstrap.servers": bootstrap})

    def close(self) -> None:
        """Nothing to close: librdkafka ends with the object."""

    def create_topic(
        self,
        topic: str,
        partitions: int | Mapping[int, list[int]] = 1,
        configs: Mapping[str, str] = {},
        is_trial: bool = False,
    ) -> None:
        if isinstance(partitions, int):
            new = NewTopic(topic, partitions, REPLICATION_FACTOR, config=dict(configs))
        else:
            replicas = [partitions[index] for index in range(len(partitions))]
            new = NewTopic(topic, len(partitions), replica_assignment=replicas, config=dict(configs))
        result(self.client.create_topics([new], validate_only=is_trial)[topic])

    def delete_topic(self, topic: str) -> None:
        result(self.client.delete_topics([topic])[topic])

    def leaders(self, topic: str) -> dict[int, int]:
        found = self.client.list_topics(topic, timeout=READ_S).topics[topic]
        if found.error is not None:
            raise refused(found.error)
        return {index: partition.leader for index, partition in found.partitions.items()}

    def add_partitions(self, topic: str, total: int) -> None:
        result(self.client.create_partitions([NewPartitions(topic, total)])[topic])

    def topic_configs(self, topic: str) -> dict[str, str]:
        entries = self.describe_configs(ConfigResource(ResourceType.TOPIC, topic))
        return {name: entry.value or "" for name, entry in entries.items()}

    def describe_configs(self, resource: ConfigResource) -> dict[str, ConfigEntry]:
        return result(self.client.describe_configs([resource])[resource])

    def set_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        operation = AlterConfigOpType.SET
        entries = [ConfigEntry(name, value, incremental_operation=operation) for name, value in configs.items()]
        self.alter_configs(ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries))

    def alter_configs(self, resource: ConfigResource) -> None:
        result(self.client.incremental_alter_configs([resource])[resource])

    def delete_records(self, topic: str, before: int) -> int:
        partition = TopicPartition(topic, 0, before)
        low_watermark: int = result(self.client.delete_records([partition])[partition]).low_watermark
        return low_watermark

    def describe_cluster(self) -> Described:
        found = result(self.client.describe_cluster())
        return Described(found.cluster_id, found.controller.id, {node.id for node in found.nodes})
