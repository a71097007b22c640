"""An independent reader and writer: confluent-kafka, past the proxy, in threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.chaos.history import UNKNOWN_OFFSET, Kind, Seen
from tests.client.campaign.clients import Place
from tests.client.campaign.events import History

READ_SECONDS = 10.0
_POLL_SECONDS = 0.1
_POLL_RECORDS = 500
_COMMON = {
    "log_level": 0,
    "topic.metadata.refresh.interval.ms": 200,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 50,
}


def _reader(direct: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": direct,
            "group.id": "oracle",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "fetch.error.backoff.ms": 20,
            **_COMMON,
        }
    )


def _seen(message: Message) -> Seen:
    value, offset = message.value(), message.offset()
    assert isinstance(value, bytes) and offset is not None
    return Seen(f"{message.topic()}-{message.partition()}", offset, int(value))


def _read_everything(direct: str, places: list[Place], isolation: str) -> list[Seen]:
    consumer = _reader(direct, isolation)
    open_places = set(places)
    records = []
    until = time.monotonic() + READ_SECONDS
    try:
        consumer.assign([TopicPartition(place.topic, place.partition, 0) for place in places])
        while open_places and time.monotonic() < until:
            for message in consumer.consume(_POLL_RECORDS, _POLL_SECONDS):
                error, topic, partition = message.error(), message.topic(), message.partition()
                assert topic is not None and partition is not None
                if error is None:
                    records.append(_seen(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_places.discard(Place(topic, partition))
    finally:
        consumer.close()
    assert not open_places, f"the oracle does not come to the end of {sorted(open_places)}"
    return records


async def read_everything(
    direct: str, history: History, places: Iterable[Place], *, isolation: str = "read_uncommitted"
) -> list[Seen]:
    """What is there now, written down as that of the last reader."""
    records = await asyncio.to_thread(_read_everything, direct, [*places], isolation)
    if records:
        history.write("the oracle", "ok", "poll", records=tuple(records))
    history.write("the oracle", "info", "final")
    return records


class Follower(threading.Thread):
    """A reader of what is committed, beside the workload."""

    def __init__(self, direct: str, history: History, places: list[Place], name: str = "the follower") -> None:
        super().__init__(name=name, daemon=True)
        self._history = history
        self._consumer = _reader(direct, "read_committed")
        self._consumer.assign([TopicPartition(place.topic, place.partition, 0) for place in places])
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.is_set():
            messages = self._consumer.consume(_POLL_RECORDS, _POLL_SECONDS)
            records = tuple(_seen(message) for message in messages if message.error() is None)
            if records:
                self._history.write(self.name, "ok", "poll", records=records)
        self._consumer.close()

    async def stop(self) -> None:
        self._is_over.set()
        await asyncio.to_thread(self.join)


class Writer:
    """An idempotent producer whose sends are events of the history."""

    def __init__(self, direct: str, history: History, name: str = "the writer") -> None:
        self._history, self._name = history, name
        self._producer = Producer(
            {"bootstrap.servers": direct, "enable.idempotence": True, "acks": "all", "linger.ms": 2, **_COMMON}
        )

    def send(self, place: Place, value: int, partition: str = "") -> None:
        """`partition` is its name in the history, if it is another."""
        name = partition or str(place)

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            known = UNKNOWN_OFFSET if offset is None else offset
            kind: Kind = "ok" if error is None else "info"
            self._history.write(self._name, kind, "send", partition=name, value=value, offset=known)

        self._history.write(self._name, "invoke", "send", partition=name, value=value)
        self._producer.produce(place.topic, str(value).encode(), partition=place.partition, on_delivery=delivered)
        self._producer.poll(0)

    async def flush(self) -> None:
        remaining = await asyncio.to_thread(self._producer.flush, READ_SECONDS)
        assert remaining == 0, f"{remaining} records of the oracle are not written"


def _committed(direct: str, group: str, place: Place) -> int:
    # With this isolation level the coordinator does not answer while a transaction may still move the offset.
    settings = {"bootstrap.servers": direct, "group.id": group, "isolation.level": "read_committed", **_COMMON}
    consumer = Consumer(settings)
    try:
        (found,) = consumer.committed([TopicPartition(place.topic, place.partition)], timeout=READ_SECONDS)
        return max(found.offset, 0)
    finally:
        consumer.close()


async def committed(direct: str, group: str, place: Place) -> int:
    """What a group has committed for certain; 0 if nothing."""
    return await asyncio.to_thread(_committed, direct, group, place)


def _end_transactions(direct: str, transactional_ids: list[str]) -> None:
    for transactional_id in transactional_ids:
        Producer({"bootstrap.servers": direct, "transactional.id": transactional_id, **_COMMON}).init_transactions(
            READ_SECONDS
        )


async def end_transactions(direct: str, transactional_ids: Iterable[str]) -> None:
    """As the next producer of each id would, when it starts."""
    await asyncio.to_thread(_end_transactions, direct, [*transactional_ids])
