"""confluent-kafka (librdkafka): its calls block, so each client has a thread of its own for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.history import Seen
from tests.client.campaign.clients import ConsumerSettings, Kind, Place, ProducerSettings, Trouble, Watcher

T = TypeVar("T")

_STRATEGIES = {"sticky": "range", "cooperative": "cooperative-sticky"}
_CALL_SECONDS = 8.0
_POLL_SECONDS = 0.02
_COMMON: dict[str, Any] = {
    "log_level": 0,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
}


def _trouble(error: KafkaError) -> Trouble:
    kind = Kind.FATAL if error.fatal() else Kind.RETRY if error.retriable() else Kind.ABORT
    name = "OffsetOutOfRange" if error.code() == KafkaError._AUTO_OFFSET_RESET else error.name()
    return Trouble(kind, error.str(), name)


@contextmanager
def _troubles() -> Iterator[None]:
    try:
        yield
    except KafkaException as exception:
        raise _trouble(exception.args[0]) from exception
    except (BufferError, RuntimeError) as error:
        raise Trouble(Kind.ABORT, repr(error), type(error).__name__) from error


class _Threaded:
    """Has calls made one after the other by a thread."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)

    async def _call(self, work: Callable[[], T]) -> T:
        with _troubles():
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)


class _Producer(_Threaded):
    def __init__(self, settings: ProducerSettings) -> None:
        super().__init__()
        own: dict[str, Any] = {}
        if settings.transactional_id is not None:
            own = {
                "transactional.id": settings.transactional_id,
                "transaction.timeout.ms": settings.transaction_ms,
            }
        self._is_transactional = settings.transactional_id is not None
        self._producer = Producer(
            {
                "bootstrap.servers": settings.bootstrap,
                "client.id": settings.client_id,
                "enable.idempotence": True,
                "message.timeout.ms": settings.delivery_ms,
                "request.timeout.ms": settings.request_ms,
                "socket.timeout.ms": settings.request_ms,
                "linger.ms": settings.linger_ms,
                "batch.size": settings.batch_bytes,
                **own,
                **_COMMON,
            }
        )
        self._is_over = threading.Event()
        self._polling = threading.Thread(target=self._poll, daemon=True)

    def _poll(self) -> None:
        while not self._is_over.is_set():
            with suppress(KafkaException):
                self._producer.poll(_POLL_SECONDS)

    async def start(self) -> None:
        self._polling.start()
        if self._is_transactional:
            await self._call(lambda: self._producer.init_transactions(_CALL_SECONDS))

    async def stop(self) -> None:
        await self._call(lambda: self._producer.purge())
        await self._call(lambda: self._producer.flush(1))
        self._is_over.set()
        await asyncio.to_thread(self._polling.join)
        self._pool.shutdown(wait=False)

    async def send(self, place: Place, value: bytes) -> Awaitable[int]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()

        def finish(error: KafkaError | None, offset: int | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(-1 if offset is None else offset)
            else:
                future.set_exception(_trouble(error))

        def delivered(error: KafkaError | None, message: Message) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, error, message.offset())

        with _troubles():
            self._producer.produce(place.topic, value, partition=place.partition, on_delivery=delivered)
        return future

    async def flush(self) -> None:
        await self._call(self._flush)

    def _flush(self) -> None:
        while self._producer.flush(0.5) and not self._is_over.is_set():
            pass

    async def begin(self) -> None:
        await self._call(lambda: self._producer.begin_transaction())

    async def commit(self) -> None:
        await self._call(lambda: self._producer.commit_transaction(_CALL_SECONDS))

    async def abort(self) -> None:
        await self._call(lambda: self._producer.abort_transaction(_CALL_SECONDS))

    async def send_offsets(self, offsets: Mapping[Place, int], metadata: object) -> None:
        wanted = [TopicPartition(place.topic, place.partition, offset) for place, offset in offsets.items()]
        await self._call(lambda: self._send_offsets(wanted, metadata))

    def _send_offsets(self, wanted: list[TopicPartition], metadata: object) -> None:
        if isinstance(metadata, str):
            # Of a group without members: there is no other way to its metadata.
            consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": metadata, "log_level": 0})
            metadata = consumer.consumer_group_metadata()
            consumer.close()
        self._producer.send_offsets_to_transaction(wanted, metadata, _CALL_SECONDS)


class _Consumer(_Threaded):
    def __init__(self, settings: ConsumerSettings) -> None:
        super().__init__()
        self._batch: list[Seen] = []
        own = {} if settings.static_id is None else {"group.instance.id": settings.static_id}
        self._consumer = Consumer(
            {
                "bootstrap.servers": settings.bootstrap,
                "client.id": settings.client_id,
                # It cannot do without one.
                "group.id": settings.group or "without a group",
                "partition.assignment.strategy": _STRATEGIES.get(settings.strategy, settings.strategy),
                "auto.offset.reset": "error" if settings.reset == "none" else settings.reset,
                "isolation.level": settings.isolation,
                "session.timeout.ms": settings.session_ms,
                # A rebalance waits for members as long as this, where the other clients have an option of their own.
                "max.poll.interval.ms": settings.session_ms,
                "heartbeat.interval.ms": settings.heartbeat_ms,
                "socket.timeout.ms": settings.request_ms,
                "fetch.wait.max.ms": settings.fetch_wait_ms,
                "max.partition.fetch.bytes": max(settings.partition_bytes, 1000),
                "enable.auto.commit": False,
                "check.crcs": True,
                **own,
                **_COMMON,
            }
        )

    async def start(self) -> None:
        """It starts with the object."""

    async def stop(self) -> None:
        await self._call(self._consumer.close)
        self._pool.shutdown(wait=False)

    async def subscribe(self, topics: list[str], watcher: Watcher) -> None:
        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            watcher.assigned([Place(each.topic, each.partition) for each in partitions])

        def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
            places = [Place(each.topic, each.partition) for each in partitions]
            names = {str(place) for place in places}
            self._batch = [record for record in self._batch if record.partition not in names]
            watcher.revoked(places)

        await self._call(
            lambda: self._consumer.subscribe(topics, on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        )

    async def subscribe_pattern(self, pattern: str, watcher: Watcher) -> None:
        await self.subscribe([pattern], watcher)

    async def assign(self, places: list[Place]) -> None:
        partitions = [TopicPartition(place.topic, place.partition, 0) for place in places]
        await self._call(lambda: self._consumer.assign(partitions))

    async def poll(self, seconds: float, count: int) -> list[Seen]:
        return await self._call(lambda: self._poll(seconds, count))

    def _poll(self, seconds: float, count: int) -> list[Seen]:
        """One by one, so that a rebalance in between takes back what was revoked and nothing else."""
        self._batch = []
        while len(self._batch) < count and (message := self._consumer.poll(0 if self._batch else seconds)) is not None:
            if (error := message.error()) is not None:
                if self._batch:
                    break
                raise _trouble(error)
            value, offset = message.value(), message.offset()
            assert isinstance(value, bytes) and offset is not None
            self._batch.append(Seen(f"{message.topic()}-{message.partition()}", offset, int(value)))
        return self._batch

    async def commit(self, offsets: Mapping[Place, int] | None) -> None:
        answers = await self._call(lambda: self._commit(offsets))
        for answer in answers or []:
            if answer.error is not None:
                raise _trouble(answer.error)

    def _commit(self, offsets: Mapping[Place, int] | None) -> list[TopicPartition] | None:
        if offsets is None:
            return self._consumer.commit(asynchronous=False)
        wanted = [TopicPartition(place.topic, place.partition, offset) for place, offset in offsets.items()]
        return self._consumer.commit(offsets=wanted, asynchronous=False)

    async def rewind(self) -> None:
        await self._call(self._rewind)

    def _rewind(self) -> None:
        for partition in self._consumer.committed(self._consumer.assignment(), timeout=_CALL_SECONDS):
            partition.offset = max(partition.offset, 0)
            self._consumer.seek(partition)

    def metadata(self) -> object:
        with _troubles():
            return self._consumer.consumer_group_metadata()


def producer(settings: ProducerSettings) -> _Producer:
    return _Producer(settings)


def consumer(settings: ConsumerSettings) -> _Consumer:
    return _Consumer(settings)
