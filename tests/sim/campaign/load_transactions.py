"""Transactions over both partitions of x, which move the offset of a group and read what others have committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

from minikafka.client import Admin, Consumer, KafkaError, Producer, TopicPartition
from tests.chaos.coordinators.transactions import OFFSETS
from tests.chaos.history import Event, Seen
from tests.sim.campaign.load import PARTITIONS, QUICK, Load, T, X, seen_of

_TIMEOUT_MS = 4_000


class Transactions:
    """See the module's description."""

    def __init__(self, load: Load) -> None:
        self.events: list[Event] = []
        self._load = load
        self.names = ("txn-0", "txn-1") if load.plan.is_full else ("txn-0",)

    def start(self) -> None:
        load = self._load
        for name in self.names:
            load.begin(name, self._transact)
        if load.plan.is_full:
            committed = {"isolation_level": "read_committed"}
            load.begin("x-reader", lambda name, rng: load.read(name, rng, X, self.events, committed))
            load.begin("hijacker", self._hijack)

    async def _transact(self, name: str, rng: Random) -> None:
        load = self._load
        while load.is_storm:
            options = {**QUICK, "transactional_id": name, "transaction_timeout_ms": _TIMEOUT_MS}
            with suppress(KafkaError, TimeoutError):
                async with self._producer(rng, options) as producer, self._consumer(rng) as consumer:
                    position = await self.stable_offset(name, rng)
                    life = f"{name}/{load.loop.time():.6f}"
                    for index in PARTITIONS:
                        load.note(self.events, life, "ok", "assign", partition=f"{X}-{index}", offset=0)
                    while load.is_storm:
                        position = await self._one(name, life, rng, producer, consumer, position)
                        await load.rest(rng, 0.05, 0.3, 1.2)
            await asyncio.sleep(0.1)

    @asynccontextmanager
    async def _producer(self, rng: Random, options: dict[str, Any]) -> AsyncIterator[Producer]:
        producer = Producer(clock=self._load.clock, rng=rng, **options)
        try:
            await producer.start()
            yield producer
        finally:
            with suppress(KafkaError, TimeoutError):
                await producer.stop(flush=False)

    @asynccontextmanager
    async def _consumer(self, rng: Random) -> AsyncIterator[Consumer]:
        options = {**QUICK, "enable_auto_commit": False, "isolation_level": "read_committed"}
        async with Consumer(clock=self._load.clock, rng=rng, **options) as consumer:
            consumer.assign([TopicPartition(X, index) for index in PARTITIONS])
            for index in PARTITIONS:
                consumer.seek(TopicPartition(X, index), 0)
            yield consumer

    async def _one(
        self, name: str, life: str, rng: Random, producer: Producer, consumer: Consumer, position: int
    ) -> int:
        """One transaction; the position afterwards. Whatever else happens than a commit or an abort is raised."""
        load = self._load
        number, is_commit = next(load.values), rng.random() < 0.75
        writes = [(partition, next(load.values)) for partition in PARTITIONS for _ in range(rng.randint(1, 2))]
        written = (
            *(Seen(f"{X}-{partition}", -1, value) for partition, value in writes),
            Seen(_place(name), position, position + 1),
        )
        load.note(self.events, name, "invoke", "txn", value=number, records=written)
        is_end_sent = False
        try:
            await producer.begin_transaction()
            for partition, value in writes:
                await producer.send(X, b"%d" % value, partition=partition)
            if rng.random() < 0.5 and (seen := seen_of(await consumer.getmany(timeout_ms=20), f"{X}-")):
                load.note(self.events, life, "ok", "poll", value=number, records=seen)
            await producer.send_offsets_to_transaction({TopicPartition(T, 0): position + 1}, f"g-{name}")
            if rng.random() < 0.04:
                await asyncio.sleep(rng.uniform(0, 6))
            if not is_commit:
                await producer.abort_transaction()
            else:
                is_end_sent = True
                load.note(self.events, name, "invoke", "end", value=number)
                await producer.commit_transaction()
        except KafkaError:
            load.counts["unknown"] += 1
            load.note(self.events, name, "info" if is_end_sent else "fail", "txn", value=number)
            raise
        load.counts["committed" if is_commit else "aborted"] += 1
        load.note(self.events, name, "ok" if is_commit else "fail", "txn", value=number)
        return position + 1 if is_commit else position

    async def _hijack(self, name: str, rng: Random) -> None:
        """Now and then somebody else begins with a transactional id that is in use: its transaction is aborted."""
        load = self._load
        while load.is_storm:
            await load.rest(rng, 2.0, 5.0)
            options = {**QUICK, "transactional_id": rng.choice(self.names), "transaction_timeout_ms": _TIMEOUT_MS}
            with suppress(KafkaError, TimeoutError):
                async with self._producer(rng, options):
                    load.counts["hijacked"] += 1

    async def stable_offset(self, name: str, rng: Random) -> int:
        place, partition, load = _place(name), TopicPartition(T, 0), self._load
        load.note(self.events, name, "invoke", "offset", partition=place)
        async with Admin(clock=load.clock, rng=rng, **QUICK) as admin:
            offsets = await admin.list_consumer_group_offsets(f"g-{name}", partitions=[partition], require_stable=True)
        offset = offsets[partition].offset if partition in offsets else 0
        load.note(self.events, name, "ok", "offset", partition=place, offset=offset)
        return offset


def _place(name: str) -> str:
    return f"{OFFSETS}g-{name}/{T}-0"
