"""The clients of a campaign: the bundled producer, consumer and admin, each in a process of its own.

t   idempotent producers with five requests in flight and batches of several records; a loose writer with acks=1, which
    sends each record once to a broker that takes itself for the leader, rightly or not; readers, one of them in a rack
x   transactions over both partitions, with offsets of a group (`load_transactions`)
w   acks 0 and 1, small segments and retention: nothing is promised here but that clients and brokers go on
    and a group that reads t (`load_groups`)

What they did goes into a history for each judge. A reader of t or x whose position is not in the log any more, and a
producer of t whose records are refused, are in the history of records: nothing is deleted there. Producers of
transactions are fenced when their transactions time out, so their errors are no anomalies; those of w are not
recorded, since nothing is promised there.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from minikafka.broker.network.peer import PeerGone
from minikafka.client import Consumer, KafkaError, Producer, TopicPartition
from minikafka.client.consumer.errors import LogTruncated, OffsetOutOfRange
from minikafka.client.errors import DeliveryTimeout, ProducerFailed
from tests.chaos.history import Event, Kind, Seen
from tests.sim.campaign.plan import BROKERS, Plan
from tests.sim.client import SimClient
from tests.sim.clock import SimClock
from tests.sim.cluster import SimCluster
from tests.sim.loop import Process

SERVERS = "broker-1:9092,broker-2:9092,broker-3:9092"
T, X, W = "t", "x", "w"
PARTITIONS = (0, 1)
QUICK: dict[str, Any] = {
    "bootstrap_servers": SERVERS,
    "request_timeout_ms": 2_000,
    "retry_backoff_ms": 50,
    "retry_backoff_max_ms": 400,
    "reconnect_backoff_max_ms": 400,
}
_DELIVERY_MS = 30_000
"""After a permitted loss a producer goes on sending what may have been written until then, and only then goes on."""


class Load:
    """What all clients have in common, and those of single records."""

    def __init__(self, plan: Plan, cluster: SimCluster) -> None:
        self.records: list[Event] = []
        self.is_storm = True
        self.counts: Counter[str] = Counter()
        self.workers: list[asyncio.Task[None]] = []
        self.processes: list[Process] = []
        self.plan = plan
        self.cluster = cluster
        self.values = itertools.count()
        self.clock = SimClock()
        self.loop = asyncio.get_running_loop()

    def start(self) -> None:
        for number in range(2):
            self.begin(f"producer-{number}", self._produce)
        self.begin("loose", self._write_loosely)
        self.begin("reader", lambda name, rng: self.read(name, rng, T, self.records, {}))
        if self.plan.is_full:
            self.begin("rack-reader", lambda name, rng: self.read(name, rng, T, self.records, {"client_rack": "r2"}))
            self.begin("weak", lambda name, rng: self._produce_weakly(rng))

    def begin(self, name: str, work: Callable[[str, Random], Coroutine[Any, Any, None]]) -> None:
        process = Process(name)
        self.processes.append(process)
        self.workers.append(process.spawn(work(name, Random(f"{self.plan.seed}/{name}")), "work"))

    def note(self, events: list[Event], process: str, kind: Kind, f: str, **fields: Any) -> None:
        events.append(Event(self.loop.time(), process, kind, f, **fields))

    async def rest(self, rng: Random, *seconds: float) -> None:
        await asyncio.sleep(self.plan.pace * rng.choice(seconds))

    # ---------------------------------------------------------------------------------------------- producers

    async def _produce(self, name: str, rng: Random) -> None:
        for life in itertools.count():
            if not self.is_storm:
                return
            options = {**QUICK, "delivery_timeout_ms": _DELIVERY_MS, "linger_ms": rng.choice((0, 0, 5))}
            try:
                async with Producer(clock=self.clock, rng=rng, acks="all", **options) as producer:
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
            for _ in range(rng.choice((1, 1, 3, 8))):
                value = next(self.values)
                self.note(self.records, name, "invoke", "send", partition=str(partition), value=value)
                delivery = await producer.send(T, b"%d" % value, partition=partition)
                waiting.append(self.loop.create_task(self._await(name, partition, value, delivery)))
                if rng.random() < 0.2:
                    # The next one goes into another batch, while this one is in flight.
                    await asyncio.sleep(self.plan.latency_seconds)
            waiting = [task for task in waiting if not task.done()]
            if len(waiting) > 60:
                await asyncio.wait(waiting)
            await self.rest(rng, 0.02, 0.2, 0.6)
        if waiting:
            await asyncio.wait(waiting)

    async def _await(self, name: str, partition: int, value: int, delivery: Awaitable[Any]) -> None:
        try:
            offset = (await delivery).offset
        except KafkaError as error:
            self.note(self.records, name, "info", "send", partition=str(partition), value=value)
            self.note_refusal(name, str(partition), error)
            return
        self.counts["acked"] += 1
        self.note(self.records, name, "ok", "send", partition=str(partition), value=value, offset=offset)

    def note_refusal(self, name: str, partition: str, error: KafkaError) -> None:
        """An idempotent producer retries until its records are acknowledged or late; no other error may reach it."""
        if not isinstance(error, DeliveryTimeout):
            self.note(self.records, name, "info", "fatal", partition=partition, note=repr(error))

    async def _write_loosely(self, name: str, rng: Random) -> None:
        """Nothing is promised of these records, except what holds of all that anybody has read."""
        clients = {broker_id: SimClient(self.cluster.network, name, 1.0) for broker_id in BROKERS}
        while self.is_storm:
            partition = rng.choice(PARTITIONS)
            leaders = [broker_id for broker_id in BROKERS if self.cluster.leads(broker_id, partition)]
            for broker_id in leaders:
                await self._write_once(clients[broker_id], broker_id, partition)
            await self.rest(rng, 0.03, 0.1, 0.3)

    async def _write_once(self, client: SimClient, broker_id: int, partition: int) -> None:
        value = next(self.values)
        # One of its own each, since what is sent to several brokers has no order.
        name = f"loose/{value}"
        self.note(self.records, name, "invoke", "send", partition=str(partition), value=value)
        with suppress(KafkaError, PeerGone, TimeoutError, OSError):
            async with asyncio.timeout(0.3):
                await client.produce(broker_id, b"%d" % value, acks=1, timeout_ms=1_000, partition=partition)
                self.counts["loose"] += 1
        self.note(self.records, name, "info", "send", partition=str(partition), value=value)

    async def _produce_weakly(self, rng: Random) -> None:
        while self.is_storm:
            options = {**QUICK, "delivery_timeout_ms": 5_000, "enable_idempotence": False}
            with suppress(KafkaError):
                async with Producer(clock=self.clock, rng=rng, acks=rng.choice((0, 1)), **options) as producer:
                    for _ in range(20):
                        await producer.send(W, bytes(rng.randint(1, 800)))
                        await self.rest(rng, 0.1, 0.4)
            await asyncio.sleep(0.1)

    # ------------------------------------------------------------------------------------------------ readers

    async def read(self, name: str, rng: Random, topic: str, events: list[Event], more: dict[str, Any]) -> None:
        prefix = f"{X}-" if topic == X else ""
        for life in itertools.count():
            if not self.is_storm:
                return
            options = {**QUICK, "auto_offset_reset": "none", "enable_auto_commit": False, **more}
            if rng.random() < 0.3:
                options["max_partition_fetch_bytes"] = 100
            try:
                async with Consumer(clock=self.clock, rng=rng, **options) as consumer:
                    consumer.assign([TopicPartition(topic, index) for index in PARTITIONS])
                    for index in PARTITIONS:
                        consumer.seek(TopicPartition(topic, index), 0)
                        self.note(events, f"{name}/{life}", "ok", "assign", partition=f"{prefix}{index}", offset=0)
                    while self.is_storm:
                        seen = seen_of(await consumer.getmany(timeout_ms=300), prefix)
                        if seen:
                            self.note(events, f"{name}/{life}", "ok", "poll", records=seen)
            except KafkaError as error:
                self.note_position(f"{name}/{life}", error)
            await asyncio.sleep(0.1)

    def note_position(self, name: str, error: KafkaError) -> None:
        """Nothing is deleted from t and x: a position that was reached stays valid."""
        if isinstance(error, OffsetOutOfRange | LogTruncated):
            partition = f"{error.partition.topic}-{error.partition.partition}"
            self.note(self.records, name, "fail", "poll", partition=partition, note=repr(error))

    async def read_to_end(self, topic: str, events: list[Event], level: str) -> None:
        """Read everything that is there in the end, with a new client."""
        options = {**QUICK, "auto_offset_reset": "earliest", "enable_auto_commit": False, "isolation_level": level}
        places = [TopicPartition(topic, index) for index in PARTITIONS]
        records: list[Seen] = []
        async with Consumer(clock=self.clock, rng=Random(self.plan.seed), **options) as consumer:
            consumer.assign(places)
            ends = await consumer.end_offsets(places)
            while any([await consumer.position(place) < ends[place] for place in places]):
                records += seen_of(await consumer.getmany(timeout_ms=300), f"{X}-" if topic == X else "")
        self.note(events, f"final {topic}", "ok", "poll", records=tuple(records))
        self.note(events, f"final {topic}", "info", "final")


def seen_of(polled: Any, prefix: str) -> tuple[Seen, ...]:
    return tuple(
        Seen(f"{prefix}{place.partition}", record.offset, int(record.value or b"-1"))
        for place, records in polled.items()
        for record in records
    )
