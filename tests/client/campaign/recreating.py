"""Topics that are deleted and created again while they are read: assigned, subscribed, by pattern, in a group.

Judged by the records of the last topic of the name: all of them are read, from the first on, each once and in order;
and a topic beside it is read on all the time.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from tests.chaos import checker
from tests.chaos.history import Seen
from tests.client.campaign import faults, oracle
from tests.client.campaign.clients import ConsumerUnderTest, Place, Trouble, Watcher
from tests.client.campaign.play import Play

READ_SECONDS = 20.0
BESIDE_SECONDS = 6.0
"""How long the topic beside it may be without a record, of which there is one every moment."""
CALL_SECONDS = 10.0
_PACE_SECONDS = 0.05
_INCARNATION = 1_000_000
"""Values begin with the number of the topic's life."""
_BESIDE = 0

WAYS = ("assign", "group", "group pattern", "subscribe", "pattern")
WAYS_OF = {"confluent": WAYS[:3]}
"""librdkafka subscribes within groups only."""


class Name(NamedTuple):
    """A partition of one life of a topic, as it is called in the history."""

    place: Place
    incarnation: int

    def __str__(self) -> str:
        return f"{self.place.topic}#{self.incarnation}-{self.place.partition}"


class Recreating:
    """One seed."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._rng = play.rng("settings")
        ways = WAYS_OF.get(play.client_name, WAYS)
        self._way = ways[play.seed % len(ways)]
        self._incarnation = 1
        self._value = 0
        self._last_written: set[int] = set()
        self._given: set[int] = set()
        self._beside = 0.0
        self._longest_beside = 0.0
        self._is_done = False
        self._stint = 0
        """How often partitions were assigned. Nothing is committed, so a group begins again each time."""

    async def run(self) -> None:
        play, rng = self._play, self._rng
        apis = (*faults.READING, faults.METADATA, *faults.GROUP)
        rules = faults.late(rng, apis, faults.SHORT, [0, 0.02, 0.1])
        (place,), (beside,) = await play.create("topic", 1), await play.create("topic-beside", 1)
        settings = play.consumer_settings("reader")._replace(
            group=play.name("group") if self._way.startswith("group") else None,
            strategy=rng.choice(["range", "cooperative"]),
        )
        consumer = play.client.consumer(settings)
        play.counts[self._way] += 1
        async with play.disturbed(rules):
            async with play.limit(CALL_SECONDS, "starting"):
                await consumer.start()
                await self._choose(consumer, place, beside)
            reading = asyncio.create_task(self._read(consumer))
            writing = asyncio.create_task(self._write_beside(beside))
            await self._write(place, rng.randint(1, 60))
            for _ in range(rng.choice([1, 2])):
                await asyncio.sleep(rng.choice([0.2, 1.0]))
                await self._recreate(place, rng.choice([0, 0.3, 1.2]))
                await self._write(place, rng.choice([1, 30, 100]))
            await play.wait_until_over()
        await play.wait_for(
            lambda: self._last_written <= self._given, READ_SECONDS, f"reading the new topic ({self._way})"
        )
        self._is_done = True
        await writing
        async with play.limit(CALL_SECONDS, "reading"):
            await reading
        async with play.limit(CALL_SECONDS, "closing"):
            await consumer.stop()
        self._judge()

    def _judge(self) -> None:
        play = self._play
        if self._longest_beside > BESIDE_SECONDS:
            play.violations.append(f"stall: the topic beside it was not read for {self._longest_beside:.1f} s")
        verdict = checker.check(play.history.events)
        play.acked, play.read = verdict.acked, verdict.read
        # What was not read of a topic by the time it was deleted will not be.
        gone = ("lost", "unseen")
        last = f"#{self._incarnation}-"
        play.blame(anomaly for anomaly in verdict.anomalies if anomaly.kind not in gone or last in anomaly.partition)

    async def _choose(self, consumer: ConsumerUnderTest, place: Place, beside: Place) -> None:
        watcher = Watcher(self._assigned, lambda _: None)
        if self._way == "assign":
            await consumer.assign([place, beside])
        elif "pattern" in self._way:
            await consumer.subscribe_pattern(f"^{place.topic}.*", watcher)
        else:
            await consumer.subscribe([place.topic, beside.topic], watcher)

    def _assigned(self, places: list[Place]) -> None:
        self._play.counts["rebalances"] += 1
        self._stint += 1

    async def _recreate(self, place: Place, gap: float) -> None:
        play = self._play
        async with play.limit(CALL_SECONDS, "deleting and creating a topic"):
            await play.admin.delete_topics([place.topic])
            await asyncio.sleep(gap)
            self._incarnation += 1
            await play.create_topic(place.topic, 1)
        play.counts["topics recreated"] += 1

    async def _write(self, place: Place, count: int) -> None:
        # A writer of its own for each life of the topic, which knows no other.
        writer = oracle.Writer(self._play.cluster.direct, self._play.history, f"writer {self._incarnation}")
        values = []
        for _ in range(count):
            self._value += 1
            values.append(self._incarnation * _INCARNATION + self._value)
            writer.send(place, values[-1], str(Name(place, self._incarnation)))
        await writer.flush()
        self._last_written = {*values}

    async def _write_beside(self, beside: Place) -> None:
        writer = oracle.Writer(self._play.cluster.direct, self._play.history, "writer beside")
        number = 0
        while not self._is_done:
            number += 1
            writer.send(beside, number, str(Name(beside, _BESIDE)))
            await asyncio.sleep(_PACE_SECONDS)
        await writer.flush()

    async def _read(self, consumer: ConsumerUnderTest) -> None:
        history, known = self._play.history, set[Name]()
        self._beside = time.monotonic()
        while not self._is_done:
            try:
                records = await consumer.poll(0.1, 500)
            except Trouble:
                self._play.counts["errors"] += 1
                await asyncio.sleep(0.05)
                records = []
            for partition, offset, value in records:
                topic, _, number = partition.rpartition("-")
                name = Name(Place(topic, int(number)), value // _INCARNATION)
                if name not in known:
                    known.add(name)
                    history.write(f"reader {self._stint}", "ok", "assign", partition=str(name), offset=0)
                history.write(f"reader {self._stint}", "ok", "poll", records=(Seen(str(name), offset, value),))
                self._given.add(value)
            if any(value < _INCARNATION for _, _, value in records):
                self._beside = time.monotonic()
            self._longest_beside = max(self._longest_beside, time.monotonic() - self._beside)
