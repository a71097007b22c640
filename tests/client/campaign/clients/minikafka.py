"""Our client."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from minikafka.client import (
    Consumer,
    ConsumerGroupMetadata,
    ConsumerRebalanceListener,
    Delivery,
    KafkaError,
    Producer,
    ProducerFailed,
    TopicPartition,
)
from tests.chaos.history import Seen
from tests.client.campaign.clients import ConsumerSettings, Kind, Place, ProducerSettings, Trouble, Watcher

_STRATEGIES = {"cooperative": "cooperative-sticky"}
_PAUSES: dict[str, Any] = {
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 200,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 100,
    "allow_auto_create_topics": False,
}


@contextmanager
def _troubles() -> Iterator[None]:
    try:
        yield
    except ProducerFailed as error:
        raise Trouble(Kind.FATAL, repr(error), type(error).__name__) from error
    except KafkaError as error:
        kind = Kind.RETRY if getattr(error, "retriable", False) else Kind.ABORT
        raise Trouble(kind, repr(error), type(error).__name__) from error


class _Producer:
    def __init__(self, settings: ProducerSettings) -> None:
        self._producer = Producer(
            bootstrap_servers=settings.bootstrap,
            client_id=settings.client_id,
            delivery_timeout_ms=settings.delivery_ms,
            request_timeout_ms=settings.request_ms,
            linger_ms=settings.linger_ms,
            max_batch_size=settings.batch_bytes,
            max_block_ms=8_000,
            transactional_id=settings.transactional_id,
            transaction_timeout_ms=settings.transaction_ms,
            **_PAUSES,
        )

    async def start(self) -> None:
        with _troubles():
            await self._producer.start()

    async def stop(self) -> None:
        with _troubles():
            await self._producer.stop(flush=False)

    async def send(self, place: Place, value: bytes) -> Awaitable[int]:
        with _troubles():
            return self._outcome(await self._producer.send(place.topic, value, partition=place.partition))

    async def _outcome(self, delivery: Delivery) -> int:
        with _troubles():
            return (await delivery).offset

    async def flush(self) -> None:
        with _troubles():
            await self._producer.flush()

    async def begin(self) -> None:
        with _troubles():
            await self._producer.begin_transaction()

    async def commit(self) -> None:
        with _troubles():
            await self._producer.commit_transaction()

    async def abort(self) -> None:
        with _troubles():
            await self._producer.abort_transaction()

    async def send_offsets(self, offsets: Mapping[Place, int], metadata: object) -> None:
        assert isinstance(metadata, (str, ConsumerGroupMetadata))
        wanted = {TopicPartition(*place): offset for place, offset in offsets.items()}
        with _troubles():
            await self._producer.send_offsets_to_transaction(wanted, metadata)


class _Listener(ConsumerRebalanceListener):
    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._watcher.assigned([Place(*tp) for tp in assigned])

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._watcher.revoked([Place(*tp) for tp in revoked])


class _Consumer:
    def __init__(self, settings: ConsumerSettings) -> None:
        self._group = settings.group
        self._consumer = Consumer(
            bootstrap_servers=settings.bootstrap,
            client_id=settings.client_id,
            group_id=settings.group,
            group_instance_id=settings.static_id,
            partition_assignment_strategy=_STRATEGIES.get(settings.strategy, settings.strategy),
            auto_offset_reset=settings.reset,
            isolation_level=settings.isolation,
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=settings.heartbeat_ms,
            request_timeout_ms=settings.request_ms,
            fetch_max_wait_ms=settings.fetch_wait_ms,
            max_partition_fetch_bytes=settings.partition_bytes,
            enable_auto_commit=False,
            **_PAUSES,
        )

    async def start(self) -> None:
        with _troubles():
            await self._consumer.start()

    async def stop(self) -> None:
        with _troubles():
            await self._consumer.stop()

    async def subscribe(self, topics: list[str], watcher: Watcher) -> None:
        self._consumer.subscribe(topics, listener=_Listener(watcher))

    async def subscribe_pattern(self, pattern: str, watcher: Watcher) -> None:
        self._consumer.subscribe(pattern=pattern, listener=_Listener(watcher))

    async def assign(self, places: list[Place]) -> None:
        self._consumer.assign([TopicPartition(*place) for place in places])

    async def poll(self, seconds: float, count: int) -> list[Seen]:
        with _troubles():
            batches = await self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=count)
        return [
            Seen(str(Place(*tp)), record.offset, int(record.value))
            for tp, records in batches.items()
            for record in records
        ]

    async def commit(self, offsets: Mapping[Place, int] | None) -> None:
        wanted = None if offsets is None else {TopicPartition(*place): offset for place, offset in offsets.items()}
        with _troubles():
            await self._consumer.commit(wanted)

    async def rewind(self) -> None:
        with _troubles():
            assigned = self._consumer.assignment()
            committed = await self._consumer.committed_offsets(assigned) if assigned else {}
            for tp in assigned:
                # What was taken away meanwhile cannot be sought in, and need not be.
                with suppress(KafkaError):
                    self._consumer.seek(tp, committed[tp].offset if tp in committed else 0)

    def metadata(self) -> object:
        with _troubles():
            return self._consumer.group_metadata()


def producer(settings: ProducerSettings) -> _Producer:
    return _Producer(settings)


def consumer(settings: ConsumerSettings) -> _Consumer:
    return _Consumer(settings)
