"""Groups whose members come and go while leaders move: eager and cooperative, dynamic and static members.

Judged by the offsets that were handed out: a gap or a repetition within a stint, a stint that begins below what was
committed or at an offset that nobody committed, a record that no member was given, an error that claims truncation.
"""

from __future__ import annotations

import asyncio
import time

from minikafka.client import TopicPartition
from tests.chaos import checker
from tests.chaos.coordinators import groups
from tests.client.campaign import faults, oracle
from tests.client.campaign.clients import ConsumerSettings, Place, Trouble
from tests.client.campaign.members import Member
from tests.client.campaign.play import FAULT_SECONDS, Play

PARTITIONS = 4
DRAIN_SECONDS = 30.0
STOP_SECONDS = 10.0


class Grouping:
    """One seed."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._group = play.name("group")
        self._sent = 0
        self._given: list[list[int]] = []
        self._is_done = False
        self._names_offsets = play.rng("commits").random() < 0.3

    async def run(self) -> None:
        play, rng = self._play, self._play.rng("settings")
        places = await play.create("topic", PARTITIONS)
        apis = (*faults.READING, *faults.GROUP)
        rules = faults.late(rng, apis, faults.SHORT, [0, 0.02, 0.1]) + faults.broken_connections(rng, apis)
        settings = play.consumer_settings("member")._replace(
            group=self._group,
            strategy=rng.choice(["range", "roundrobin", "sticky", "cooperative", "cooperative"]),
            reset=rng.choice(["earliest", "none"]),
            session_ms=rng.choice([1_500, 3_000]),
            fetch_wait_ms=rng.choice([10, 100]),
            partition_bytes=rng.choice([500, 1 << 20]),
            request_ms=1_500,
        )
        if settings.reset == "none":
            beginnings = {TopicPartition(*place): 0 for place in places}
            # Its coordinator may hear of the new topic later than whoever created it.
            await play.insist(lambda: play.admin.alter_consumer_group_offsets(self._group, beginnings))
        has_static_members = rng.random() < 0.3
        slots = [f"m{index}" for index in range(rng.choice([2, 3]))]
        async with play.disturbed(rules):
            members = [asyncio.create_task(self._slot(slot, settings, is_static=has_static_members)) for slot in slots]
            moving = [play.move_leaders(places, [0.1, 0.3])] if rng.random() < 0.8 else []
            # With few records, the first batch of a leader epoch is often the last one that is read and committed.
            await asyncio.gather(self._write(places, rng.choice([0.02, 0.1, 0.3])), *moving)
        sent = {*range(1, self._sent + 1)}
        await play.wait_for(
            lambda: sent <= {value for given in self._given for value in given}, DRAIN_SECONDS, "reading everything"
        )
        self._is_done = True
        _, hanging = await asyncio.wait(members, timeout=STOP_SECONDS)
        if hanging:
            play.violations.append(f"hang: {len(hanging)} members do not stop within {STOP_SECONDS:g} s")
        for member in members:
            member.cancel()
        for outcome in await asyncio.gather(*members, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome
        self._judge()

    def _judge(self) -> None:
        play = self._play
        single = [event for event in play.history.events if event.f in ("send", "poll", "assign")]
        verdict = checker.check(single)
        play.acked, play.read = verdict.acked, verdict.read
        play.blame(verdict.anomalies)
        play.blame(groups.check(play.history.events).anomalies)

    async def _write(self, places: list[Place], pace: float) -> None:
        play, rng = self._play, self._play.rng("writing")
        writer = oracle.Writer(play.cluster.direct, play.history)
        while not play.is_over:
            for place in places:
                for _ in range(rng.randint(0, 6)):
                    self._sent += 1
                    writer.send(place, self._sent)
            await asyncio.sleep(pace)
        await writer.flush()

    async def _slot(self, slot: str, settings: ConsumerSettings, *, is_static: bool) -> None:
        """Lives of consumers one after the other. The last one stays until everything is read."""
        play, rng = self._play, self._play.rng(slot)
        await asyncio.sleep(rng.uniform(0, 1))
        life = 0
        while not self._is_done:
            life += 1
            member = Member(play, f"{slot}.{life}", self._group)
            self._given.append(member.values)
            static_id = f"{self._group}-{slot}" if is_static else None
            until = time.monotonic() + rng.uniform(0.8, FAULT_SECONDS)
            await self._live(member, settings._replace(static_id=static_id), until, rng.random() < 0.6)

    async def _live(self, member: Member, settings: ConsumerSettings, until: float, commits_last: bool) -> None:
        play, rng = self._play, self._play.rng(member.name)
        consumer = play.client.consumer(settings)
        try:
            await consumer.start()
            await consumer.subscribe([self._play.name("topic")], member.watcher)
            while not self._is_done and (play.is_over or time.monotonic() < until):
                await member.poll(consumer, 0.1, rng.choice([1, 7, 50, 500]))
                if rng.random() < 0.02 and not play.is_over:
                    # Work that takes longer than a heartbeat.
                    await asyncio.sleep(rng.choice([0.4, 1.2]))
                if rng.random() < 0.2 and member.positions:
                    await member.commit(consumer, by_name=self._names_offsets)
            if commits_last and member.positions:
                await member.commit(consumer, by_name=self._names_offsets)
        except Trouble:
            play.counts["errors"] += 1
            await asyncio.sleep(0.2)
        finally:
            try:
                async with play.limit(STOP_SECONDS, "stopping a consumer"):
                    await consumer.stop()
            except Trouble:
                play.counts["errors"] += 1
        play.counts["restarts"] += 1
