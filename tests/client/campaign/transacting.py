"""Transactions over several partitions and a group's offsets, some aborted, behind requests that arrive late.

Judged by what readers of committed records are given: an aborted record, one before its transaction could be
committed, half of a transaction, a committed one that is not there, an offset that does not follow its records.
"""

from __future__ import annotations

import asyncio
from random import Random

from tests.chaos.coordinators import transactions
from tests.chaos.coordinators.transactions import OFFSETS
from tests.chaos.history import Kind as Outcome
from tests.chaos.history import Seen
from tests.client.campaign import faults, oracle
from tests.client.campaign.clients import Kind, Place, ProducerSettings, ProducerUnderTest, Trouble
from tests.client.campaign.play import Play

PARTITIONS = 3
TRANSACTORS = 2
CALL_SECONDS = 20.0
_TRIES = 8
_HUNG_SECONDS = 60.0


class Transactor:
    """One transactional id, through all its producers."""

    def __init__(self, play: Play, index: int, places: list[Place], settings: ProducerSettings) -> None:
        self._play, self._places = play, places
        self._rng = play.rng(f"transactor {index}")
        self._name = f"t{index}"
        self.transactional_id = play.name(self._name)
        self._settings = settings._replace(transactional_id=self.transactional_id)
        self._group = play.name(f"group-{index}")
        self._offset_place = f"{OFFSETS}{self._group}/{places[0]}"
        self._offset = 0
        self._is_offset_known = True
        self._first, self._step = index, TRANSACTORS
        self._count = 0

    async def run(self) -> None:
        producer: ProducerUnderTest | None = None
        while not self._play.is_over:
            if producer is None:
                producer = await self._start()
            elif not await self._transact(producer):
                await self._close(producer)
                producer = None
        if producer is not None:
            await self._close(producer)

    async def _start(self) -> ProducerUnderTest | None:
        producer = self._play.client.producer(self._settings)
        try:
            async with self._play.limit(CALL_SECONDS, "starting a transactional producer"):
                await producer.start()
        except Trouble:
            await self._close(producer)
            await asyncio.sleep(0.05)
            return None
        if not self._is_offset_known:
            self._offset = await self.find_offset()
            self._is_offset_known = True
        self._play.counts["restarts"] += 1
        return producer

    async def find_offset(self) -> int:
        """What is committed, when no transaction is open any more."""
        history = self._play.history
        history.write(self._name, "invoke", "offset", partition=self._offset_place)
        offset = await oracle.committed(self._play.cluster.direct, self._group, self._places[0])
        history.write(self._name, "ok", "offset", partition=self._offset_place, offset=offset)
        return offset

    async def _close(self, producer: ProducerUnderTest) -> None:
        async with self._play.limit(CALL_SECONDS, "closing a producer"):
            try:
                await producer.stop()
            except Trouble:
                self._play.counts["errors"] += 1

    async def _transact(self, producer: ProducerUnderTest) -> bool:
        """False if the producer is of no more use."""
        self._count += 1
        number = self._first + self._step * self._count
        records = self._plan(number)
        move = records[-1] if records[-1].partition == self._offset_place else None
        history = self._play.history
        history.write(self._name, "invoke", "txn", value=number, records=tuple(records))
        outcome: Outcome = "info"
        is_usable = False
        try:
            async with self._play.limit(CALL_SECONDS, f"transaction {number}"):
                outcome, is_usable = await self._do(producer, number, records, move)
        finally:
            history.write(self._name, outcome, "txn", value=number)
        if outcome == "ok" and move is not None:
            self._offset = move.value
        self._is_offset_known = self._is_offset_known and outcome != "info"
        self._play.counts[{"ok": "committed", "fail": "aborted", "info": "unknown"}[outcome]] += 1
        return is_usable

    def _plan(self, number: int) -> list[Seen]:
        rng = self._rng
        records: list[Seen] = []
        for place in rng.sample(self._places, rng.randint(2, PARTITIONS)):
            for _ in range(rng.randint(1, 3)):
                records.append(Seen(str(place), -1, number * 100 + len(records)))
        if rng.random() < 0.5:
            records.append(Seen(self._offset_place, self._offset, self._offset + rng.randint(1, 5)))
        return records

    async def _do(
        self, producer: ProducerUnderTest, number: int, records: list[Seen], move: Seen | None
    ) -> tuple[Outcome, bool]:
        try:
            await self._write(producer, records, move)
            if self._rng.random() >= 0.2:
                self._play.history.write(self._name, "invoke", "end", value=number)
                await _again(producer.commit)
                return "ok", True
        except Trouble as trouble:
            self._play.counts["errors"] += 1
            if trouble.kind is Kind.FATAL:
                return "info", False
        try:
            await _again(producer.abort)
        except Trouble:
            return "info", False
        return "fail", True

    async def _write(self, producer: ProducerUnderTest, records: list[Seen], move: Seen | None) -> None:
        await producer.begin()
        places = {str(place): place for place in self._places}
        for partition, _, value in records:
            if partition in places:
                outcome = await producer.send(places[partition], b"%d" % value)
                # The program waits for nothing but the end of the transaction.
                asyncio.ensure_future(outcome).add_done_callback(lambda task: task.cancelled() or task.exception())
        if move is not None:
            await producer.send_offsets({self._places[0]: move.value}, self._group)
        await asyncio.sleep(self._rng.choice([0, 0, 0.02, 0.2]))


async def _again(call: object) -> None:
    """As often as the error says that trying again can help."""
    assert callable(call)
    for number in range(_TRIES):
        try:
            await call()
            return
        except Trouble as trouble:
            if trouble.kind is not Kind.RETRY or number == _TRIES - 1:
                raise


def settings_of(play: Play, rng: Random) -> ProducerSettings:
    return play.producer_settings("producer")._replace(
        delivery_ms=rng.choice([600, 600, 1_500, 5_000]),
        request_ms=rng.choice([500, 1_000, 3_000]),
        batch_bytes=rng.choice([200, 16_384]),
        transaction_ms=15_000,
    )


class Transacting:
    """One seed."""

    def __init__(self, play: Play) -> None:
        self._play = play

    async def run(self) -> None:
        play, rng = self._play, self._play.rng("settings")
        places = await play.create("topic", PARTITIONS)
        produce, others = (faults.PRODUCE,), faults.TRANSACTIONS
        rules = faults.late(rng, produce, faults.LONG if rng.random() < 0.7 else faults.SHORT, [0.02, 0.05, 0.1])
        rules += faults.late(rng, others, faults.SHORT, [0, 0.02, 0.05])
        rules += faults.broken_connections(rng, (*produce, *others))
        settings = settings_of(play, rng)
        transactors = [Transactor(play, index, places, settings) for index in range(TRANSACTORS)]
        follower = oracle.Follower(play.cluster.direct, play.history, places)
        follower.start()
        try:
            async with play.disturbed(rules):
                moving = [play.move_leaders(places, [0.5, 1, 2])] if rng.random() < 0.6 else []
                await asyncio.gather(*(transactor.run() for transactor in transactors), *moving)
            await oracle.end_transactions(play.cluster.direct, [one.transactional_id for one in transactors])
            for transactor in transactors:
                await transactor.find_offset()
            await oracle.read_everything(play.cluster.direct, play.history, places, isolation="read_committed")
        finally:
            await follower.stop()
        verdict = transactions.check(play.history.events, transactions.Bounds(_HUNG_SECONDS))
        play.acked = verdict.committed
        play.read = sum(len(event.records) for event in play.history.events if event.f == "poll")
        play.blame(verdict.anomalies)
