"""What is done to transactions: somebody is stopped before a step, and then a process is killed, or a name is taken."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import NamedTuple

from tests.chaos.cluster import HEAL_SECONDS, SESSION_SECONDS, Broker, Cluster
from tests.chaos.coordinators.copying import Copying
from tests.chaos.coordinators.gate import Order
from tests.chaos.coordinators.transactor import INSIST_SECONDS, STEPS, TIMEOUT_SECONDS, Transactor, hijack, is_refused
from tests.chaos.coordinators.wire import GROUP, TRANSACTION, Address, Place, Wire, insist
from tests.chaos.history import Recorder
from tests.chaos.links import HOST
from tests.chaos.waiting import pause, wait_until

PAST_SESSION_SECONDS = SESSION_SECONDS * 1.5
_HOLD_SECONDS = 60.0
_LATE = ("late sender", "late receiver")


class Stage(NamedTuple):
    """Where faults happen."""

    cluster: Cluster
    topic: str
    recorder: Recorder
    rng: random.Random
    transactors: list[Transactor]
    copying: Copying
    wire: Wire

    def tell(self, what: str) -> None:
        self.recorder.write("nemesis", "info", "fault", note=what)

    def wait_until_whole(self) -> None:
        """Until all is as it should be by what ZooKeeper knows, and everybody commits."""
        self.cluster.wait_until_whole(self.topic)
        since = time.monotonic()

        def is_well() -> bool:
            return all(each.committed_at > since for each in self.transactors)

        wait_until(is_well, HEAL_SECONDS, "everybody commits")


Fault = Callable[[Stage], None]


def hold(transactor: Transactor, step: str) -> None:
    """Before a step. Only one that has ended begins anew."""
    if step == STEPS[0]:
        transactor.gate.hold(STEPS[1], _HOLD_SECONDS)
        transactor.gate.move(Order(die_after_seconds=0.0), step, _HOLD_SECONDS)
    else:
        transactor.gate.hold(step, _HOLD_SECONDS)


def kill_broker(stage: Stage, broker: Broker, transactor: Transactor) -> None:
    """Kill it while somebody is stopped, who goes on before or after others have noticed."""
    epoch = stage.cluster.epoch(broker.id)
    broker.kill()
    pause(stage.rng.choice([0.0, 0.0, stage.rng.uniform(0, SESSION_SECONDS)]))
    transactor.gate.let_go()
    pause(stage.rng.choice([0.1, stage.rng.uniform(0.1, SESSION_SECONDS), PAST_SESSION_SECONDS]))
    broker.start()
    stage.cluster.wait_until_back(broker.id, epoch)
    stage.wait_until_whole()


def _transaction_coordinator(stage: Stage, transactor: Transactor) -> Broker:
    return _broker(stage, lambda: stage.wire.coordinator(TRANSACTION, transactor.name))


def _group_coordinator(stage: Stage, transactor: Transactor) -> Broker:
    return _broker(stage, lambda: stage.wire.coordinator(GROUP, transactor.name))


def _data_leader(stage: Stage, transactor: Transactor) -> Broker:
    """Of the partition that the transaction writes to last."""
    plan = transactor.plan
    place = list(plan.writes)[-1] if plan is not None else Place(stage.topic, 0)
    return _broker(stage, lambda: stage.wire.leader(place))


def _broker(stage: Stage, find: Callable[[], tuple[int, Address]]) -> Broker:
    return stage.cluster.broker(insist(find, INSIST_SECONDS)[0])


BROKERS = {
    "transaction coordinator": _transaction_coordinator,
    "group coordinator": _group_coordinator,
    "data leader": _data_leader,
}


def hold_abort(transactor: Transactor) -> None:
    """Before the end of a transaction that is aborted on purpose."""
    while True:
        hold(transactor, STEPS[-1])
        if transactor.plan is not None and not transactor.plan.is_commit:
            return
        transactor.gate.let_go()


def kill_before_abort(stage: Stage) -> None:
    """A marker that is lost then shows: what comes next is committed, and what was aborted with it."""
    transactor = stage.rng.choice(stage.transactors)
    hold_abort(transactor)
    broker = _data_leader(stage, transactor)
    stage.tell(f"kill -9 broker {broker.id}, data leader of {transactor.name}, before it aborts")
    kill_broker(stage, broker, transactor)


def kill_between(step: str, victim: str) -> Fault:
    """A broker, before somebody takes a step."""

    def fault(stage: Stage) -> None:
        transactor = stage.rng.choice(stage.transactors)
        hold(transactor, step)
        broker = BROKERS[victim](stage, transactor)
        stage.tell(f"kill -9 broker {broker.id}, {victim} of {transactor.name}, before '{step}'")
        kill_broker(stage, broker, transactor)

    return fault


def kill_producer(step: str) -> Fault:
    """Before a step. The next one of its name comes at once, or when the transaction has timed out, or in between."""

    def fault(stage: Stage) -> None:
        transactor = stage.rng.choice(stage.transactors)
        hold(transactor, step)
        seconds = stage.rng.choice([0.0, stage.rng.uniform(0, TIMEOUT_SECONDS), 1.5 * TIMEOUT_SECONDS])
        stage.tell(f"{transactor.name} ends before '{step}', for {seconds:.1f} s")
        transactor.gate.let_go(Order(die_after_seconds=seconds))
        stage.wait_until_whole()

    return fault


def take_name(step: str) -> Fault:
    """Somebody takes the transactional id while another is in a transaction with it, and that one goes on."""

    def fault(stage: Stage) -> None:
        transactor = stage.rng.choice(stage.transactors)
        hold(transactor, step)
        stage.tell(f"the name of {transactor.name} is taken before '{step}'")
        try:
            hijack(stage.cluster.bootstrap, transactor)
        finally:
            transactor.gate.let_go()
        stage.wait_until_whole()

    return fault


def send_end_late(stage: Stage) -> None:
    """The end of a transaction is held back until the next one of that name has written something."""
    transactor = stage.rng.choice(stage.transactors)
    transactor.gate.hold("end", _HOLD_SECONDS)
    coordinator = _transaction_coordinator(stage, transactor)
    port = stage.cluster.links.open(coordinator.port, _LATE[1], _LATE[0])
    stage.cluster.links.cut([_LATE[0]], [_LATE[1]], "silent")
    stage.tell(f"the end of a transaction of {transactor.name} comes late")
    transactor.late_address = lambda: Address(HOST, port)
    try:
        transactor.gate.move(Order(send_late=True), "add offsets", _HOLD_SECONDS)
    finally:
        stage.cluster.links.heal()
    if not is_refused(transactor.late.pop()):
        stage.recorder.write(transactor.name, "info", "unfenced", note="the end of a transaction that came too late")
    transactor.gate.let_go()
    stage.wait_until_whole()


def kill_copier(stage: Stage) -> None:
    stage.tell("kill -9 copier")
    stage.copying.kill()
    pause(stage.rng.uniform(0.5, 2.0))


def freeze_copier(stage: Stage) -> None:
    """Until another one has taken its place, and then it goes on."""
    stage.tell("SIGSTOP copier, and another one takes its place")
    stage.copying.freeze()
    pause(stage.rng.choice([1.0, 1.5 * TIMEOUT_SECONDS]))
    stage.copying.wake()
    pause(1.0)


def all_faults(rng: random.Random) -> Iterator[Fault]:
    """Every pair of a step and a victim once, by chance, and then again."""
    faults = [
        *(kill_between(step, victim) for step in STEPS for victim in BROKERS),
        *(kill_producer(step) for step in STEPS),
        *(take_name(step) for step in STEPS[1:]),
        *([kill_before_abort] * 3),
        *([send_end_late] * 3),
        *([kill_copier] * 3),
        *([freeze_copier] * 3),
    ]
    rng.shuffle(faults)
    return cycle(faults)


def short_faults() -> list[Fault]:
    """One of each kind."""
    return [
        # The one before has ended just now, and its markers are on their way.
        kill_between("begin", "transaction coordinator"),
        kill_producer("produce again"),
        take_name("commit offsets"),
        send_end_late,
        kill_copier,
        kill_before_abort,
    ]
