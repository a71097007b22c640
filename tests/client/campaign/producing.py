"""Idempotent producers with five requests in flight, whose requests are held for longer than a delivery may take.

Judged record by record against what is there in the end: acknowledged and lost, written twice (acknowledged or not:
the program has sent it once), in another order than sent, or a delivery that never ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from tests.chaos import checker
from tests.client.campaign import faults, oracle
from tests.client.campaign.clients import Kind, Place, ProducerUnderTest, Trouble
from tests.client.campaign.play import Play

PARTITIONS = 3
FLUSH_SECONDS = 15.0


class Producing:
    """One seed."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._value = 0
        self._outcomes: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        play, rng = self._play, self._play.rng("settings")
        places = await play.create("topic", PARTITIONS)
        apis = (faults.PRODUCE, faults.INIT_PRODUCER_ID)
        seconds = faults.LONG if rng.random() < 0.7 else faults.SHORT
        rules = faults.late(rng, (faults.PRODUCE,), seconds, [0.01, 0.03, 0.1])
        # While a producer waits for its new epoch, what it has sent before comes late.
        rules += faults.late(rng, (faults.INIT_PRODUCER_ID,), seconds, [0, 0.5])
        rules += faults.broken_connections(rng, apis)
        settings = play.producer_settings("producer")._replace(
            delivery_ms=rng.choice([700, 1_500, 5_000]),
            request_ms=rng.choice([400, 1_000, 3_000]),
            batch_bytes=rng.choice([200, 400, 2_000]),
            linger_ms=rng.choice([0, 5]),
        )
        producer = play.client.producer(settings)
        async with play.limit(FLUSH_SECONDS, "starting"):
            await producer.start()
        async with play.disturbed(rules):
            sending = [self._send_to(producer, place) for place in places]
            moving = [play.move_leaders(places, [0.5, 1, 2])] if rng.random() < 0.6 else []
            await asyncio.gather(*sending, *moving)
        async with play.limit(FLUSH_SECONDS, "flushing"):
            await producer.flush()
        if self._outcomes:
            _, hanging = await asyncio.wait(self._outcomes, timeout=5)
            if hanging:
                play.violations.append(f"hang: {len(hanging)} deliveries never end")
        async with play.limit(FLUSH_SECONDS, "closing"):
            await producer.stop()
        await oracle.read_everything(play.cluster.direct, play.history, places)
        verdict = checker.check(play.history.events)
        play.acked, play.read = verdict.acked, verdict.read
        play.counts["failed"] = verdict.unknown
        play.blame(verdict.anomalies)

    async def _send_to(self, producer: ProducerUnderTest, place: Place) -> None:
        rng = self._play.rng(f"sending to {place.partition}")
        while not self._play.is_over:
            for _ in range(rng.randint(1, 8)):
                await self._send(producer, place, rng.randint(0, 40))
            await asyncio.sleep(rng.choice([0.001, 0.01, 0.05]))

    async def _send(self, producer: ProducerUnderTest, place: Place, padding: int) -> None:
        self._value += 1
        value, history = self._value, self._play.history
        history.write("producer", "invoke", "send", partition=str(place), value=value)
        try:
            outcome = await producer.send(place, b"%d" % value + b" " * padding)
        except Trouble as trouble:
            # It was not buffered, so it cannot be written.
            history.write("producer", "fail", "send", partition=str(place), value=value, note=str(trouble))
            if trouble.kind is Kind.FATAL:
                self._play.counts["fatal"] += 1
                await asyncio.sleep(0.1)
            return
        task = asyncio.ensure_future(self._await(outcome, place, value))
        self._outcomes.add(task)

    async def _await(self, outcome: Awaitable[int], place: Place, value: int) -> None:
        history = self._play.history
        try:
            offset = await outcome
        except Trouble as trouble:
            history.write("producer", "info", "send", partition=str(place), value=value, note=str(trouble))
        else:
            history.write("producer", "ok", "send", partition=str(place), value=value, offset=offset)
