"""kafka-python's transactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import BrokerResponseError, KafkaError
from kafka.structs import OffsetAndMetadata

from tests.compat.clients.kafka_python import received
from tests.compat.clients.model import READ_S, Received, Refused
from tests.compat.clients.transacting import COMMITTED, TIMEOUT_MS, Abortable, Fatal, GroupReader, Place

UNKNOWN_CODE = -1


class KafkaPythonTransactor:
    """`KafkaProducer` with a transactional_id."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=int(READ_S * 1000),
        )
        with self._verdicts():
            self._producer.init_transactions()

    @contextmanager
    def _verdicts(self) -> Iterator[None]:
        """By the state the client puts itself into."""
        try:
            yield
        except KafkaError as error:
            manager = self._producer._transaction_manager
            kind = Fatal if manager.has_fatal_error() else Abortable if manager.has_abortable_error() else Refused
            raise kind(_code(error), str(error)) from error

    def begin(self) -> None:
        with self._verdicts():
            self._producer.begin_transaction()

    def send(self, place: Place, values: Sequence[bytes]) -> list[int]:
        with self._verdicts():
            futures = [self._producer.send(place.topic, value, partition=place.partition) for value in values]
            return [int(future.get(READ_S).offset) for future in futures]

    def send_offsets(self, reader: GroupReader, offsets: Mapping[Place, int]) -> None:
        assert isinstance(reader, KafkaPythonGroupReader)
        wanted = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        with self._verdicts():
            self._producer.send_offsets_to_transaction(wanted, reader.metadata)

    def commit(self) -> None:
        with self._verdicts():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with self._verdicts():
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)


def _code(error: BaseException | None) -> int:
    """Of an error, or of the one that it tells of."""
    while error is not None:
        if isinstance(error, BrokerResponseError):
            return int(error.errno)
        inner = next((arg for arg in error.args if isinstance(arg, BaseException)), None)
        error = inner or error.__cause__
    return UNKNOWN_CODE


class KafkaPythonGroupReader:
    """`KafkaConsumer` that has joined."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level=COMMITTED,
        )

    @property
    def metadata(self) -> Any:
        return self._consumer.group_metadata()

    def read(self, count: int) -> list[Received]:
        found = self._consumer.poll(READ_S * 1000, max_records=count)
        records = [received(record) for some in found.values() for record in some]
        assert records, "nothing to read"
        return records

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(TopicPartition(*place), offset)

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonTransacting:
    """All of it."""

    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def transactor(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> KafkaPythonTransactor:
        return KafkaPythonTransactor(self._bootstrap, transactional_id, timeout_ms)

    def reader(self, group: str, topic: str) -> KafkaPythonGroupReader:
        return KafkaPythonGroupReader(self._bootstrap, group, topic)

    def end_offset(self, place: Place, isolation: str) -> int:
        partition = TopicPartition(*place)
        with self._consumer(None, isolation) as consumer:
            return int(consumer.end_offsets([partition])[partition])

    def committed_offset(self, group: str, place: Place) -> int | None:
        with self._consumer(group, COMMITTED) as consumer:
            found = consumer.committed(TopicPartition(*place))
        return None if found is None else int(found)

    @contextmanager
    def _consumer(self, group: str | None, isolation: str) -> Iterator[Any]:
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap.split(","), group_id=group, isolation_level=isolation
        )
        try:
            yield consumer
        finally:
            consumer.close()
