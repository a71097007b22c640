"""confluent-kafka's transactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.compat.clients.confluent import delivered, received
from tests.compat.clients.model import READ_S, Received, Refused
from tests.compat.clients.transacting import COMMITTED, TIMEOUT_MS, Abortable, Fatal, GroupReader, Place


@contextmanager
def verdicts() -> Iterator[None]:
    """By what librdkafka says of an error."""
    try:
        yield
    except KafkaException as exception:
        error = exception.args[0]
        kind = Fatal if error.fatal() else Abortable if error.txn_requires_abort() else Refused
        raise kind(error.code(), error.str()) from exception


class ConfluentTransactor:
    """`Producer` with a transactional.id."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                # Its default is longer than a transaction may take that is to time out.
                "message.timeout.ms": timeout_ms,
                "linger.ms": 0,
            }
        )
        with verdicts():
            self._producer.init_transactions(READ_S)

    def begin(self) -> None:
        with verdicts():
            self._producer.begin_transaction()

    def send(self, place: Place, values: Sequence[bytes]) -> list[int]:
        reports: list[tuple[KafkaError | None, Message]] = []
        with verdicts():
            for value in values:
                self._producer.produce(
                    place.topic,
                    value,
                    partition=place.partition,
                    on_delivery=lambda error, message: reports.append((error, message)),
                )
            assert self._producer.flush(READ_S) == 0
        return [delivered(error, message).offset for error, message in reports]

    def send_offsets(self, reader: GroupReader, offsets: Mapping[Place, int]) -> None:
        assert isinstance(reader, ConfluentGroupReader)
        self.send_offsets_of(reader.metadata, offsets)

    def send_offsets_of(self, metadata: object, offsets: Mapping[Place, int]) -> None:
        wanted = [TopicPartition(place.topic, place.partition, offset) for place, offset in offsets.items()]
        with verdicts():
            self._producer.send_offsets_to_transaction(wanted, metadata, READ_S)

    def commit(self) -> None:
        with verdicts():
            self._producer.commit_transaction(READ_S)

    def abort(self) -> None:
        with verdicts():
            self._producer.abort_transaction(READ_S)

    def close(self) -> None:
        """librdkafka ends with the object, and does not end the transaction."""
        self._producer.purge()


class ConfluentGroupReader:
    """`Consumer` that has joined."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": COMMITTED,
            }
        )
        self._consumer.subscribe([topic])

    @property
    def metadata(self) -> object:
        return self._consumer.consumer_group_metadata()

    def read(self, count: int) -> list[Received]:
        first = self._consumer.poll(READ_S)
        assert first is not None, "nothing to read"
        return [received(first), *map(received, self._consumer.consume(count - 1, 0.2))]

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(TopicPartition(place.topic, place.partition, offset))

    def close(self) -> None:
        self._consumer.close()


class ConfluentTransacting:
    """All of it."""

    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def transactor(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> ConfluentTransactor:
        return ConfluentTransactor(self._bootstrap, transactional_id, timeout_ms)

    def reader(self, group: str, topic: str) -> ConfluentGroupReader:
        return ConfluentGroupReader(self._bootstrap, group, topic)

    def end_offset(self, place: Place, isolation: str) -> int:
        consumer = self._consumer("nobody joins it", isolation)
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(*place), timeout=READ_S)[1])
        finally:
            consumer.close()

    def committed_offset(self, group: str, place: Place) -> int | None:
        consumer = self._consumer(group, COMMITTED)
        try:
            (found,) = consumer.committed([TopicPartition(*place)], timeout=READ_S)
        finally:
            consumer.close()
        return None if found.offset < 0 else found.offset

    def _consumer(self, group: str, isolation: str) -> Consumer:
        return Consumer({"bootstrap.servers": self._bootstrap, "group.id": group, "isolation.level": isolation})
