"""Read, process, write: exactly once, while processing is slower than heartbeats and members come and go.

Judged record by record: each input has one output among the committed ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from tests.chaos.coordinators import transactions
from tests.client.campaign import faults, oracle
from tests.client.campaign.clients import ConsumerUnderTest, Kind, Place, ProducerUnderTest, Trouble, parse_place
from tests.client.campaign.members import Member
from tests.client.campaign.play import FAULT_SECONDS, Play

PARTITIONS = 4
WORKERS = 3
DRAIN_SECONDS = 30.0
CALL_SECONDS = 20.0
_HUNG_SECONDS = 60.0


class Copying:
    """One seed."""

    def __init__(self, play: Play) -> None:
        self._play = play
        rng = play.rng("settings")
        self._is_cooperative = rng.random() < 0.5
        self._slow = rng.choice([0.1, 0.3])
        self._rules_rng = rng
        self._group = play.name("group")
        self._sent = 0
        self._targets: list[Place] = []
        self._is_done = False

    async def run(self) -> None:
        play, rng = self._play, self._rules_rng
        sources = await play.create("source", PARTITIONS)
        self._targets = await play.create("target", PARTITIONS)
        apis = (faults.PRODUCE, faults.FETCH, *faults.GROUP, *faults.TRANSACTIONS)
        rules = faults.late(rng, apis, faults.SHORT, [0, 0.01, 0.03])
        rules += faults.broken_connections(rng, apis) if rng.random() < 0.5 else []
        follower = oracle.Follower(play.cluster.direct, play.history, self._targets)
        follower.start()
        workers: list[asyncio.Task[None]] = []
        try:
            async with play.disturbed(rules):
                workers = [asyncio.create_task(self._slot(f"w{index}")) for index in range(WORKERS)]
                moving = [play.move_leaders([*sources, *self._targets], [0.3, 0.6])] if rng.random() < 0.8 else []
                await asyncio.gather(self._write(sources), *moving)
            await play.wait_for(lambda: self._copied >= self._sent, DRAIN_SECONDS, "copying everything")
            self._is_done = True
            _, hanging = await asyncio.wait(workers, timeout=CALL_SECONDS)
            if hanging:
                play.violations.append(f"hang: {len(hanging)} workers do not stop within {CALL_SECONDS:g} s")
        finally:
            for worker in workers:
                worker.cancel()
            outcomes = await asyncio.gather(*workers, return_exceptions=True)
            await follower.stop()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        await self._judge(sources)

    @property
    def _copied(self) -> int:
        events = self._play.history.events
        return len({seen.value for event in events if event.process == "the follower" for seen in event.records})

    async def _judge(self, sources: list[Place]) -> None:
        play, direct = self._play, self._play.cluster.direct
        await oracle.end_transactions(direct, [play.name(f"w{index}") for index in range(WORKERS)])
        await oracle.read_everything(direct, play.history, sources)
        await oracle.read_everything(direct, play.history, self._targets, isolation="read_committed")
        bounds = transactions.Bounds(_HUNG_SECONDS, play.name("source"), play.name("target"))
        # What members were given is judged by what became of it.
        onlookers = [event for event in play.history.events if not event.process.startswith("w")]
        onlookers = [event for event in onlookers if event.f != "send"]
        play.acked, play.read = self._copied, self._sent
        play.blame(transactions.check(onlookers, bounds).anomalies)

    async def _write(self, sources: list[Place]) -> None:
        play, rng = self._play, self._play.rng("writing")
        writer = oracle.Writer(play.cluster.direct, play.history)
        while not play.is_over:
            for place in sources:
                for _ in range(rng.randint(0, 3)):
                    self._sent += 1
                    writer.send(place, self._sent)
            await asyncio.sleep(rng.choice([0.1, 0.2]))
        await writer.flush()

    async def _slot(self, slot: str) -> None:
        """Lives of a worker one after the other. The last one stays until everything is copied."""
        play, rng = self._play, self._play.rng(slot)
        await asyncio.sleep(rng.uniform(0, 1.5))
        life = 0
        while not self._is_done:
            life += 1
            until = time.monotonic() + rng.uniform(1, FAULT_SECONDS)
            worker = Worker(play, slot, life, self._group, self._targets, self._slow)
            await worker.live(partial(self._goes_on, until), is_cooperative=self._is_cooperative)
            play.counts["restarts"] += 1

    def _goes_on(self, until: float) -> bool:
        return not self._is_done and (self._play.is_over or time.monotonic() < until)


class Worker:
    """One life of a consumer and a transactional producer."""

    def __init__(self, play: Play, slot: str, life: int, group: str, targets: list[Place], slow: float) -> None:
        self._play, self._slot = play, slot
        self._member = Member(play, f"{slot}.{life}", group)
        self._rng = play.rng(f"{slot}.{life}")
        self._targets, self._slow = targets, slow
        self._producer: ProducerUnderTest | None = None

    async def live(self, goes_on: Callable[[], bool], *, is_cooperative: bool) -> None:
        play = self._play
        settings = play.consumer_settings("consumer")._replace(
            group=self._member.group,
            strategy="cooperative" if is_cooperative else "range",
            isolation="read_committed",
            session_ms=3_000,
            heartbeat_ms=200,
            request_ms=1_500,
        )
        consumer = play.client.consumer(settings)
        try:
            await consumer.start()
            await consumer.subscribe([play.name("source")], self._member.watcher)
            while goes_on():
                records = await self._member.poll(consumer, 0.1, self._rng.choice([1, 3, 10]))
                if records and not await self._copy(
                    consumer, [(parse_place(r.partition), r.offset, r.value) for r in records]
                ):
                    # Half of the programs go on from what is committed, the others begin again.
                    if self._rng.random() < 0.5:
                        break
                    self._note("rewinds")
                    await consumer.rewind()
                    self._note("has rewound")
        except Trouble as trouble:
            self._note(f"ends by trouble: {trouble}")
            play.counts["errors"] += 1
            await asyncio.sleep(0.1)
        finally:
            self._note("closes")
            await self._close(consumer)
            await self._close(self._producer)
            self._note("is closed")

    async def _close(self, client: ConsumerUnderTest | ProducerUnderTest | None) -> None:
        try:
            async with self._play.limit(CALL_SECONDS, "closing a client"):
                if client is not None:
                    await client.stop()
        except Trouble:
            self._play.counts["errors"] += 1

    async def _copy(self, consumer: ConsumerUnderTest, records: list[tuple[Place, int, int]]) -> bool:
        """Whether they are copied; if not, or if nobody knows, they have to be read again."""
        if self._rng.random() < self._slow and not self._play.is_over:
            # The last is longer than a rebalance waits for anybody.
            await asyncio.sleep(self._rng.choice([0.3, 0.3, 0.8, 0.8, 1.5, 4.0]))
        try:
            producer = self._producer or await self._start()
            await producer.begin()
            self._note(f"sends {[(str(place), offset) for place, offset, _ in records]}")
            for place, _, value in records:
                outcome = await producer.send(self._targets[place.partition], b"%d" % value)
                asyncio.ensure_future(outcome).add_done_callback(lambda task: task.cancelled() or task.exception())
            offsets = {place: offset + 1 for place, offset, _ in records}
            self._note("sends offsets")
            await producer.send_offsets(offsets, consumer.metadata())
            self._note("commits")
            await producer.commit()
            self._note("has committed")
            return True
        except Trouble as trouble:
            self._note(f"has trouble: {trouble}")
            self._play.counts["refused"] += 1
            await self._abort(trouble)
            return False

    def _note(self, step: str) -> None:
        """For whoever traces a violation."""
        self._play.history.write(self._member.name, "info", "step", note=step)

    async def _start(self) -> ProducerUnderTest:
        self._note("starts a producer")
        settings = self._play.producer_settings("producer")._replace(transactional_id=self._play.name(self._slot))
        self._producer = self._play.client.producer(settings)
        await self._producer.start()
        return self._producer

    async def _abort(self, trouble: Trouble) -> None:
        """If it cannot be aborted, the next producer of the same id ends the transaction before anything is read."""
        producer = self._producer
        if producer is None:
            return
        try:
            if trouble.kind is not Kind.FATAL:
                await producer.abort()
                return
        except Trouble:
            self._play.counts["errors"] += 1
        await self._close(producer)
        self._producer = None
        await self._start()
