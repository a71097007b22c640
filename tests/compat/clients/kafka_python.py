"""kafka-python 3."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import BrokerResponseError

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

APPEND_TIME = 1


@contextmanager
def refusals() -> Iterator[None]:
    """Errors of the broker become `Refused`; what the client finds wrong by itself stays its own."""
    try:
        yield
    except BrokerResponseError as error:
        raise Refused(error.errno, str(error)) from error


class KafkaPython(Client):
    """`KafkaProducer` and `KafkaConsumer`."""

    name = "kafka-python"
    sets_timestamps = True
    tells_deliveries = True

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap.split(",")

    def produce(
        self, topic: str, records: Sequence[Record], partition: int | None = 0, how: Producing = PRODUCING
    ) -> list[Delivered]:
        with KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks=how.acks if how.acks == "all" else int(how.acks),
            compression_type=None if how.codec == "none" else how.codec,
            enable_idempotence=how.is_idempotent,
            max_request_size=how.request_bytes_max,
            linger_ms=20,
        ) as producer:
            futures = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            with refusals():
                told = [future.get(READ_S) for future in futures]
        return [Delivered(one.partition, one.offset, one.timestamp) for one in told]

    def read(self, topic: str, count: int, how: Reading = READING) -> Generator[Received, None, None]:
        consumer = self.consumer(how)
        try:
            assigned = [TopicPartition(topic, partition) for partition in how.partitions]
            consumer.assign(assigned)
            for partition in assigned:
                consumer.seek(partition, how.offset)
            for _ in range(count):
                with refusals():
                    record = next(consumer, None)
                if record is None:
                    raise TimeoutError(f"nothing from {topic}")
                yield received(record)
        finally:
            consumer.close()

    def consumer(self, how: Reading = READING) -> Any:
        return KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=None,
            auto_offset_reset="none",
            consumer_timeout_ms=READ_S * 1000,
            fetch_max_wait_ms=how.wait_ms,
            fetch_min_bytes=how.bytes_min,
            allow_auto_create_topics=how.may_create_topics,
            **({"isolation_level": how.isolation} if how.isolation else {}),
        )

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        partition = TopicPartition(topic, 0)
        consumer = self.consumer()
        try:
            found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
        finally:
            consumer.close()
        return None if found is None else found.offset


def received(record: Any) -> Received:
    return Received(
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type == APPEND_TIME,
        record.key,
        record.value,
        headers_of(record),
    )


def headers_of(record: Any) -> Headers:
    return tuple((name, value) for name, value in record.headers)


class KafkaPythonAdmin:
    """`KafkaAdminClient`."""

    def __init__(self, bootstrap: str) -> None:
        self.client = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))

    def close(self) -> None:
        self.client.close()

    def create_topic(
        self,
        topic: str,
        partitions: int | Mapping[int, list[int]] = 1,
        configs: Mapping[str, str] = {},
        is_trial: bool = False,
    ) -> None:
        wanted: dict[str, Any] = {"configs": dict(configs)}
        if isinstance(partitions, int):
            wanted |= {"num_partitions": partitions, "replication_factor": REPLICATION_FACTOR}
        else:
            wanted["assignments"] = dict(partitions)
        with refusals():
            self.client.create_topics({topic: wanted}, validate_only=is_trial)

    def delete_topic(self, topic: str) -> None:
        with refusals():
            self.client.delete_topics([topic])

    def leaders(self, topic: str) -> dict[int, int]:
        (found,) = self.client.describe_topics([topic])
        if found["error_code"]:
            raise Refused(found["error_code"])
        return {partition["partition_index"]: partition["leader_id"] for partition in found["partitions"]}

    def add_partitions(self, topic: str, total: int) -> None:
        with refusals():
            self.client.create_partitions({topic: total})

    def topic_configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self.client.describe_configs([resource], config_filter="all")["topic"][topic]
        return {name: entry["value"] for name, entry in found.items()}

    def set_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))
        answer = self.client.alter_configs([resource], raise_on_unknown=False)["topic"][topic]
        if answer != "OK":
            # The client hands out the error as text, "[Error 40] InvalidConfigurationError: ...".
            raise Refused(int(answer.split("]")[0].removeprefix("[Error ")), answer)

    def delete_records(self, topic: str, before: int) -> int:
        partition = TopicPartition(topic, 0)
        with refusals():
            answer = self.client.delete_records({partition: before})[partition]
        low_watermark: int = answer["low_watermark"]
        return low_watermark

    def describe_cluster(self) -> Described:
        found = self.client.describe_cluster()
        brokers = {broker["broker_id"] for broker in found["brokers"]}
        return Described(found["cluster_id"], found["controller_id"], brokers)
