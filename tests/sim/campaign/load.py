"""The clients of a campaign: the bundled producer, consumer and admin, each in a process of its own.

t   idempotent producers with five requests in flight and batches of several records; readers, one of them in a rack
x   transactions over both partitions, with offsets of a group; a reader of what is committed
w   acks 0 and 1, small segments and retention: nothing is promised here but that clients and brokers go on

What they did goes into two histories, one for the judge of records and one for the judge of transactions. A reader of t
or x whose position is not in the log any more, and a producer of t whose records are refused, are in the history of
records: nothing is deleted there. Producers of transactions are fenced when their transactions time out, so their
errors are no anomalies; those of w are not recorded, since nothing is promised there.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

from minikafka.client import Admin, Consumer, KafkaError, Producer, TopicPartition
from minikafka.client.consumer.errors import LogTruncated, OffsetOutOfRange
from minikafka.client.errors import DeliveryTimeout, ProducerFailed
from tests.chaos.coordinators.transactions import OFFSETS
from tests.chaos.history import Event, Kind, Seen
from tests.sim.clock import SimClock
from tests.sim.loop import Process

SERVERS = "broker-1:9092,broker-2:9092,broker-3:9092"
T, X, W = "t", "x", "w"
PARTITIONS = (0, 1)
_QUICK: dict[str, Any] = {
    "bootstrap_servers": SERVERS,
    "request_timeout_ms": 2_000,
    "retry_backoff_ms": 50,
    "retry_backoff_max_ms": 400,
    "reconnect_backoff_max_ms": 400,
}
_TIMEOUT_MS = 4_000


class Load:
    """See the module's description."""

    def __init__(self, seed: int, *, is_full: bool) -> None:
        self.records: list[Event] = []
        self.transactions: list[Event] = []
        self.is_storm = True
        self.counts = {"acked": 0, "committed": 0, "aborted": 0, "unknown": 0, "group_commits": 0}
        self.group_offsets: dict[TopicPartition, list[tuple[float, float, int]]] = {}
        """For each partition when a commit of the group began and was acknowledged, and its offset."""
        self.stale: list[str] = []
        self.workers: list[asyncio.Task[None]] = []
        self._seed = seed
        self._is_full = is_full
        self._values = itertools.count()
        self._clock = SimClock()
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        for number in range(2):
            self._begin(f"producer-{number}", lambda name, rng: self._produce(name, rng))
        self._begin("reader", lambda name, rng: self._read(name, rng, T, self.records, {}))
        if self._is_full:
            self._begin("rack-reader", lambda name, rng: self._read(name, rng, T, self.records, {"client_rack": "r2"}))
            committed = {"isolation_level": "read_committed"}
            self._begin("x-reader", lambda name, rng: self._read(name, rng, X, self.transactions, committed))
            self._begin("weak", lambda name, rng: self._produce_weakly(rng))
            self._begin("member-0", lambda name, rng: self._consume_in_group(rng))
            self._begin("member-1", lambda name, rng: self._consume_in_group(rng))
        for number in range(2 if self._is_full else 1):
            self._begin(f"txn-{number}", lambda name, rng: self._transact(name, rng))

    def _begin(self, name: str, work: Callable[[str, Random], Coroutine[Any, Any, None]]) -> None:
        self.workers.append(Process(name).spawn(work(name, Random(f"{self._seed}/{name}")), "work"))

    def _note(self, events: list[Event], process: str, kind: Kind, f: str, **fields: Any) -> None:
        events.append(Event(self._loop.time(), process, kind, f, **fields))

    # ---------------------------------------------------------------------------------------------- producers

    async def _produce(self, name: str, rng: Random) -> None:
        for life in itertools.count():
            if not self.is_storm:
                return
            options = {**_QUICK, "delivery_timeout_ms": 120_000, "linger_ms": rng.choice((0, 0, 5))}
            try:
                async with Producer(clock=self._clock, rng=rng, acks="all", **options) as producer:
                    await self._send_bursts(f"{name}/{life}", rng, producer)
            except ProducerFailed as error:
                self.note_refusal(f"{name}/{life}", "", error)
            except KafkaError:
                pass  # it was not started in time
            await asyncio.sleep(0.1)

    async def _send_bursts(self, name: str, rng: Random, producer: Producer) -> None:
        waiting: list[asyncio.Task[None]] = []
        while self.is_storm:
            partition = rng.choice(PARTITIONS)
            for _ in range(rng.randint(1, 5)):
                value = next(self._values)
                self._note(self.records, name, "invoke", "send", partition=str(partition), value=value)
                delivery = await producer.send(T, b"%d" % value, partition=partition)
                waiting.append(self._loop.create_task(self._await(name, partition, value, delivery)))
            waiting = [each for each in waiting if not each.done()]
            if len(waiting) > 60:
                await asyncio.wait(waiting)
            await asyncio.sleep(rng.choice((0.02, 0.1, 0.2)))
        if waiting:
            await asyncio.wait(waiting)

    async def _await(self, name: str, partition: int, value: int, delivery: Awaitable[Any]) -> None:
        try:
            offset = (await delivery).offset
        except KafkaError as error:
            self._note(self.records, name, "info", "send", partition=str(partition), value=value)
            self.note_refusal(name, str(partition), error)
            return
        self.counts["acked"] += 1
        self._note(self.records, name, "ok", "send", partition=str(partition), value=value, offset=offset)

    def note_refusal(self, name: str, partition: str, error: KafkaError) -> None:
        """An idempotent producer retries until its records are acknowledged or late; no other error may reach it."""
        if not isinstance(error, DeliveryTimeout):
            self._note(self.records, name, "info", "fatal", partition=partition, note=repr(error))

    async def _produce_weakly(self, rng: Random) -> None:
        while self.is_storm:
            options = {**_QUICK, "delivery_timeout_ms": 5_000, "enable_idempotence": False}
            with suppress(KafkaError):
                async with Producer(clock=self._clock, rng=rng, acks=rng.choice((0, 1)), **options) as producer:
                    for _ in range(20):
                        await producer.send(W, bytes(rng.randint(1, 400)))
                        await asyncio.sleep(rng.choice((0.02, 0.1)))
            await asyncio.sleep(0.1)

    # ------------------------------------------------------------------------------------------- transactions

    async def _transact(self, name: str, rng: Random) -> None:
        while self.is_storm:
            options = {**_QUICK, "transactional_id": name, "transaction_timeout_ms": _TIMEOUT_MS}
            with suppress(KafkaError, TimeoutError):
                async with self._producer(rng, options) as producer:
                    position = await self._stable_offset(name, rng)
                    while self.is_storm:
                        position = await self._one(name, rng, producer, position)
                        await asyncio.sleep(rng.choice((0.02, 0.1, 0.3)))
            await asyncio.sleep(0.1)

    @asynccontextmanager
    async def _producer(self, rng: Random, options: dict[str, Any]) -> AsyncIterator[Producer]:
        producer = Producer(clock=self._clock, rng=rng, **options)
        try:
            await producer.start()
            yield producer
        finally:
            with suppress(KafkaError, TimeoutError):
                await producer.stop(flush=False)

    async def _one(self, name: str, rng: Random, producer: Producer, position: int) -> int:
        """One transaction; the position afterwards. Whatever else happens than a commit or an abort is raised."""
        number, is_commit = next(self._values), rng.random() < 0.75
        writes = [(partition, next(self._values)) for partition in PARTITIONS for _ in range(rng.randint(1, 2))]
        place = _place(name)
        written = (
            *(Seen(f"{X}-{partition}", -1, value) for partition, value in writes),
            Seen(place, position, position + 1),
        )
        self._note(self.transactions, name, "invoke", "txn", value=number, records=written)
        is_end_sent = False
        try:
            await producer.begin_transaction()
            for partition, value in writes:
                await producer.send(X, b"%d" % value, partition=partition)
            await producer.send_offsets_to_transaction({TopicPartition(T, 0): position + 1}, f"g-{name}")
            if rng.random() < 0.04:
                await asyncio.sleep(rng.uniform(0, 6))
            if not is_commit:
                await producer.abort_transaction()
            else:
                is_end_sent = True
                self._note(self.transactions, name, "invoke", "end", value=number)
                await producer.commit_transaction()
        except KafkaError:
            self.counts["unknown"] += 1
            self._note(self.transactions, name, "info" if is_end_sent else "fail", "txn", value=number)
            raise
        self.counts["committed" if is_commit else "aborted"] += 1
        self._note(self.transactions, name, "ok" if is_commit else "fail", "txn", value=number)
        return position + 1 if is_commit else position

    async def _stable_offset(self, name: str, rng: Random) -> int:
        place, partition = _place(name), TopicPartition(T, 0)
        self._note(self.transactions, name, "invoke", "offset", partition=place)
        async with Admin(clock=self._clock, rng=rng, **_QUICK) as admin:
            found = await admin.list_consumer_group_offsets(f"g-{name}", partitions=[partition], require_stable=True)
        offset = found[partition].offset if partition in found else 0
        self._note(self.transactions, name, "ok", "offset", partition=place, offset=offset)
        return offset

    # ------------------------------------------------------------------------------------------------ readers

    async def _read(self, name: str, rng: Random, topic: str, events: list[Event], more: dict[str, Any]) -> None:
        prefix = f"{X}-" if topic == X else ""
        for life in itertools.count():
            if not self.is_storm:
                return
            options = {**_QUICK, "auto_offset_reset": "none", "enable_auto_commit": False, **more}
            try:
                async with Consumer(clock=self._clock, rng=rng, **options) as consumer:
                    consumer.assign([TopicPartition(topic, each) for each in PARTITIONS])
                    for each in PARTITIONS:
                        consumer.seek(TopicPartition(topic, each), 0)
                        self._note(events, f"{name}/{life}", "ok", "assign", partition=f"{prefix}{each}", offset=0)
                    while self.is_storm:
                        found = await consumer.getmany(timeout_ms=300)
                        seen = tuple(
                            Seen(f"{prefix}{where.partition}", record.offset, int(record.value or b"-1"))
                            for where, records in found.items()
                            for record in records
                        )
                        if seen:
                            self._note(events, f"{name}/{life}", "ok", "poll", records=seen)
            except KafkaError as error:
                self.note_position(f"{name}/{life}", error)
            await asyncio.sleep(0.1)

    def note_position(self, name: str, error: KafkaError) -> None:
        """Nothing is deleted from t and x: a position that was reached stays valid."""
        if isinstance(error, OffsetOutOfRange | LogTruncated):
            partition = f"{error.partition.topic}-{error.partition.partition}"
            self._note(self.records, name, "fail", "poll", partition=partition, note=repr(error))

    async def _consume_in_group(self, rng: Random) -> None:
        while self.is_storm:
            options = {
                **_QUICK,
                "group_id": "group",
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "session_timeout_ms": 6_000,
                "heartbeat_interval_ms": 500,
                "max_poll_records": 20,
            }
            with suppress(KafkaError):
                async with Consumer(T, clock=self._clock, rng=rng, **options) as consumer:
                    while self.is_storm:
                        if await consumer.getmany(timeout_ms=300):
                            await self._commit(consumer)
            await asyncio.sleep(0.1)

    async def _commit(self, consumer: Consumer) -> None:
        offsets = {each: await consumer.position(each) for each in sorted(consumer.assignment())}
        began = self._loop.time()
        await consumer.commit(offsets)
        self.counts["group_commits"] += 1
        for partition, offset in offsets.items():
            self.group_offsets.setdefault(partition, []).append((began, self._loop.time(), offset))
        began = self._loop.time()
        for partition, found in (await consumer.committed_offsets(offsets)).items():
            before = max((each[2] for each in self.group_offsets.get(partition, ()) if each[1] < began), default=0)
            if found.offset < before:
                self.stale.append(f"{partition} at {began:.3f}: {found.offset} after {before} was acknowledged")

    # ---------------------------------------------------------------------------------------------- the end

    async def read_all(self, transactional_names: tuple[str, ...]) -> None:
        """Read everything that is there in the end, with new clients."""
        rng = Random(self._seed)
        self.is_storm = False
        for topic, events, level in (
            (T, self.records, "read_uncommitted"),
            (X, self.transactions, "read_committed"),
        ):
            options = {**_QUICK, "auto_offset_reset": "earliest", "enable_auto_commit": False, "isolation_level": level}
            places = [TopicPartition(topic, each) for each in PARTITIONS]
            async with Consumer(clock=self._clock, rng=rng, **options) as consumer:
                consumer.assign(places)
                ends = await consumer.end_offsets(places)
                found: list[Seen] = []
                while any([await consumer.position(each) < ends[each] for each in places]):
                    for where, records in (await consumer.getmany(timeout_ms=300)).items():
                        prefix = f"{X}-" if topic == X else ""
                        found += [
                            Seen(f"{prefix}{where.partition}", each.offset, int(each.value or b"-1"))
                            for each in records
                        ]
            self._note(events, f"final {topic}", "ok", "poll", records=tuple(found))
            self._note(events, f"final {topic}", "info", "final")
        for name in transactional_names:
            await self._stable_offset(name, rng)


def _place(name: str) -> str:
    return f"{OFFSETS}g-{name}/{T}-0"
