"""Threads that do one transaction after the other, step by step, and write down what they attempt and what they know.

Each has a transactional id and a group of its own, whose offset on an input that is never read it moves with every
transaction: whoever begins anew asks for the offset and goes on from there. Some transactions are aborted on purpose.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from itertools import count

from minikafka.protocol.errors import InvalidProducerEpochError, KafkaError, ProducerFencedError
from tests.chaos.coordinators.gate import Die, Gate, SendLate
from tests.chaos.coordinators.transaction import Transaction, stable_offset
from tests.chaos.coordinators.transactions import OFFSETS
from tests.chaos.coordinators.wire import Address, Connection, Place, Unanswered, Wire, insist
from tests.chaos.history import Kind, Recorder, Seen
from tests.chaos.waiting import pause

STEPS = ("init", "begin", "add partitions", "produce", "produce again", "add offsets", "commit offsets", "end")
"""In this order; a fault comes before one of them."""

INPUT = Place("input", 0)
TIMEOUT_SECONDS = 5.0
INSIST_SECONDS = 60.0
VALUE_BYTES = 100
_WRITES = (2, 3)
_OFFSETS = (1, 5)
_ABORTED_PART = 0.3
_AGAIN_SECONDS = 0.2

Fenced = (InvalidProducerEpochError, ProducerFencedError)

numbers = count(1)
"""Of transactions, for everybody; each may write ten values."""


class Plan:
    """What one transaction is to do."""

    def __init__(self, rng: random.Random, topic: str, partitions: int, group: str, offset: int) -> None:
        self.number = next(numbers)
        places = rng.sample(range(partitions), rng.randint(*_WRITES))
        self.writes = {Place(topic, partition): self.number * 10 + index for index, partition in enumerate(places)}
        self.group = group
        self.offset_before = offset
        self.offset = offset + rng.randint(*_OFFSETS)
        self.is_commit = rng.random() >= _ABORTED_PART

    @property
    def records(self) -> list[Seen]:
        move = Seen(offset_name(self.group), self.offset_before, self.offset)
        return [*(Seen(str(place), -1, value) for place, value in self.writes.items()), move]

    def payload(self, place: Place) -> bytes:
        return str(self.writes[place]).encode().ljust(VALUE_BYTES)


def offset_name(group: str) -> str:
    return f"{OFFSETS}{group}/{INPUT}"


class Transactor(threading.Thread):
    """See the module's description."""

    def __init__(
        self, recorder: Recorder, bootstrap: str, topic: str, partitions: int, name: str, rng: random.Random
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.gate = Gate()
        self.late_address: Callable[[], Address] | None = None
        """Where a request is sent to that is to come late."""
        self.late: list[Connection] = []
        """Those that are under way."""
        self.is_hijacked = threading.Event()
        self.plan: Plan | None = None
        self.committed_at = 0.0
        """When it has committed something for the last time."""
        self._recorder = recorder
        self._servers = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._rng = rng
        self._told = threading.Event()
        self._end_is_sent = False
        self.failure: BaseException | None = None

    def stop(self) -> None:
        self._told.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        try:
            while not self._told.is_set():
                self._live()
        except BaseException as failure:
            self.failure = failure

    def _live(self) -> None:
        """As long as one producer can go on."""
        with Wire(self._servers, self.name) as wire:
            try:
                self._work(wire)
            except Die as order:
                pause(order.seconds)
            except SendLate:
                self._send_late()
            except (KafkaError, Unanswered) as error:
                self._recorder.write(self.name, "info", "trouble", note=str(error))
                pause(_AGAIN_SECONDS)

    def _work(self, wire: Wire) -> None:
        self.gate.come("init")
        # Whoever begins anew is not the one that was hijacked.
        self.is_hijacked.clear()
        self._transaction = Transaction(wire, self.name, int(TIMEOUT_SECONDS * 1000))
        insist(self._transaction.init, INSIST_SECONDS)
        offset = insist(lambda: stable_offset(wire, self.name, INPUT), INSIST_SECONDS)
        while not self._told.is_set():
            self.plan = Plan(self._rng, self._topic, self._partitions, self.name, offset)
            if self._transact(self._transaction, self.plan):
                offset = self.plan.offset

    def _transact(self, transaction: Transaction, plan: Plan) -> bool:
        """Whether it was committed; whatever else happens than that and an abort ends this producer."""
        self.gate.come("begin")
        self._end_is_sent = False
        self._write("invoke", plan, records=plan.records)
        try:
            self._take_steps(transaction, plan)
        except SendLate:
            self._recorder.write(self.name, "invoke", "end", value=plan.number)
            self._write("info", plan, note="its end comes late")
            raise
        except (Die, KafkaError, Unanswered) as error:
            # What was never asked to be committed never is.
            self._write("info" if self._end_is_sent else "fail", plan, note=f"{type(error).__name__}: {error}")
            raise
        if self.is_hijacked.is_set() and plan.is_commit:
            self._recorder.write(self.name, "info", "unfenced", note=f"transaction {plan.number} of one who is fenced")
        self._write("ok" if plan.is_commit else "fail", plan)
        if plan.is_commit:
            self.committed_at = time.monotonic()
        return plan.is_commit

    def _take_steps(self, transaction: Transaction, plan: Plan) -> None:
        self.gate.come("add partitions")
        places = list(plan.writes)
        insist(lambda: transaction.add_partitions(places), INSIST_SECONDS)
        self.gate.come("produce")
        self._produce(transaction, plan, places[0])
        self.gate.come("produce again")
        for place in places[1:]:
            self._produce(transaction, plan, place)
        self.gate.come("add offsets")
        insist(lambda: transaction.add_offsets(plan.group), INSIST_SECONDS)
        self.gate.come("commit offsets")
        insist(lambda: transaction.commit_offsets(plan.group, {INPUT: plan.offset}), INSIST_SECONDS)
        self.gate.come("end")
        if plan.is_commit:
            self._end_is_sent = True
            self._recorder.write(self.name, "invoke", "end", value=plan.number)
        insist(lambda: transaction.end(commit=plan.is_commit), INSIST_SECONDS)

    def _produce(self, transaction: Transaction, plan: Plan, place: Place) -> None:
        insist(lambda: transaction.produce(place, [plan.payload(place)]), INSIST_SECONDS)

    def _send_late(self) -> None:
        """Send the end of a transaction to where it is held back, and begin anew at once."""
        assert self.late_address is not None
        self.late.append(self._transaction.send_end(self.late_address(), commit=True))

    def _write(self, kind: Kind, plan: Plan, *, records: list[Seen] | None = None, note: str = "") -> None:
        self._recorder.write(self.name, kind, "txn", value=plan.number, records=tuple(records or ()), note=note)


def hijack(bootstrap: str, victim: Transactor) -> None:
    """Take the name of somebody who is in a transaction, and leave."""
    with Wire(bootstrap, f"hijacker of {victim.name}") as wire:
        transaction = Transaction(wire, victim.name, int(TIMEOUT_SECONDS * 1000))
        insist(transaction.init, INSIST_SECONDS)
        victim.is_hijacked.set()


def is_refused(connection: Connection) -> bool:
    """Whether the end of a transaction that came too late was refused; also if nobody was there any more to do it."""
    try:
        answer = connection.receive()
    except Unanswered:
        return True
    finally:
        connection.close()
    return bool(answer.error_code)
