"""aiokafka. It has no cooperative rebalances and no delivery timeout beside that of a request, and takes a group id
without generation for the offsets of a transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError, OutOfOrderSequenceNumber, ProducerFenced

from tests.chaos.history import Seen
from tests.client.campaign.clients import ConsumerSettings, Kind, Place, ProducerSettings, Trouble, Watcher

_STRATEGIES = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
_BACKOFF_MS = 20


@contextmanager
def _troubles() -> Iterator[None]:
    try:
        yield
    except (ProducerFenced, OutOfOrderSequenceNumber) as error:
        raise Trouble(Kind.FATAL, repr(error), type(error).__name__) from error
    except AssertionError as error:
        # How it says that a transactional call does not fit its state.
        raise Trouble(Kind.FATAL, repr(error), type(error).__name__) from error
    except KafkaError as error:
        kind = Kind.RETRY if getattr(error, "retriable", False) else Kind.ABORT
        raise Trouble(kind, repr(error), type(error).__name__) from error


class _Producer:
    def __init__(self, settings: ProducerSettings) -> None:
        idempotence = {"enable_idempotence": True} if settings.transactional_id is None else {}
        self._producer = AIOKafkaProducer(
            bootstrap_servers=settings.bootstrap,
            client_id=settings.client_id,
            # Batches are given up after this time, too.
            request_timeout_ms=settings.delivery_ms,
            linger_ms=settings.linger_ms,
            max_batch_size=settings.batch_bytes,
            retry_backoff_ms=_BACKOFF_MS,
            transactional_id=settings.transactional_id,
            transaction_timeout_ms=settings.transaction_ms,
            **idempotence,
        )

    async def start(self) -> None:
        with _troubles():
            await self._producer.start()

    async def stop(self) -> None:
        with _troubles():
            await self._producer.stop()

    async def send(self, place: Place, value: bytes) -> Awaitable[int]:
        with _troubles():
            return self._outcome(await self._producer.send(place.topic, value, partition=place.partition))

    async def _outcome(self, delivery: Any) -> int:
        with _troubles():
            return int((await delivery).offset)

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
        wanted = {TopicPartition(*place): offset for place, offset in offsets.items()}
        with _troubles():
            await self._producer.send_offsets_to_transaction(wanted, metadata)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._watcher.assigned([Place(*tp) for tp in assigned])

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._watcher.revoked([Place(*tp) for tp in revoked])


class _Consumer:
    def __init__(self, settings: ConsumerSettings) -> None:
        self._group = settings.group
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            client_id=settings.client_id,
            group_id=settings.group,
            group_instance_id=settings.static_id,
            partition_assignment_strategy=(_STRATEGIES.get(settings.strategy, StickyPartitionAssignor),),
            auto_offset_reset=settings.reset,
            isolation_level=settings.isolation,
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=settings.heartbeat_ms,
            request_timeout_ms=settings.request_ms,
            fetch_max_wait_ms=settings.fetch_wait_ms,
            max_partition_fetch_bytes=settings.partition_bytes,
            retry_backoff_ms=_BACKOFF_MS,
            enable_auto_commit=False,
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
            for tp in self._consumer.assignment():
                offset = await self._consumer.committed(tp)
                # What was taken away meanwhile cannot be sought in, and need not be.
                with suppress(KafkaError):
                    self._consumer.seek(tp, offset or 0)

    def metadata(self) -> object:
        return self._group


def producer(settings: ProducerSettings) -> _Producer:
    return _Producer(settings)


def consumer(settings: ConsumerSettings) -> _Consumer:
    return _Consumer(settings)
