"""What is done to groups: members are killed or stopped for too long, and so are their coordinators."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import NamedTuple

from tests.chaos.cluster import HEAL_SECONDS, SESSION_SECONDS, Broker, Cluster
from tests.chaos.coordinators import member
from tests.chaos.coordinators.gate import Order
from tests.chaos.coordinators.member import STEPS, Member
from tests.chaos.coordinators.members import RealMembers
from tests.chaos.coordinators.wire import GROUP, Place, Wire, insist
from tests.chaos.history import Recorder
from tests.chaos.waiting import pause, wait_until

PAST_SESSION_SECONDS = SESSION_SECONDS * 1.5
_HOLD_SECONDS = 60.0
_FIND_SECONDS = 60.0


class Stage(NamedTuple):
    """Where faults happen."""

    cluster: Cluster
    recorder: Recorder
    rng: random.Random
    members: list[Member]
    places: list[Place]
    real: RealMembers
    wire: Wire

    def tell(self, what: str) -> None:
        self.recorder.write("nemesis", "info", "fault", note=what)

    @property
    def static_members(self) -> list[Member]:
        return [each for each in self.members if each.is_static]

    def coordinator(self, group: str) -> Broker:
        return self.cluster.broker(insist(lambda: self.wire.coordinator(GROUP, group), _FIND_SECONDS)[0])

    def wait_until_whole(self) -> None:
        """Until all is as ZooKeeper says it should be, and every member commits, to every place of its group."""
        self.cluster.wait_until_whole(self.places[0].topic)
        since = time.monotonic()
        groups = {each.group for each in self.members}

        def is_well() -> bool:
            is_everybody = all(max(each.committed_at.values(), default=0.0) > since for each in self.members)
            return is_everybody and all(
                any(each.committed_at.get(place, 0.0) > since for each in self.members if each.group == group)
                for group in groups
                for place in self.places
            )

        wait_until(is_well, HEAL_SECONDS, "every member commits, and to every place")
        self.real.wait_until_owned(HEAL_SECONDS)


Fault = Callable[[Stage], None]


def hold(one: Member, step: str) -> None:
    """Before a step. Only one that has ended is sure to join."""
    if step in ("join", "sync", "ask"):
        one.gate.hold("heartbeat", _HOLD_SECONDS)
        one.gate.move(Order(die_after_seconds=0.0), step, _HOLD_SECONDS)
    else:
        one.gate.hold(step, _HOLD_SECONDS)


def _restart(stage: Stage, broker: Broker, epoch: int) -> None:
    pause(stage.rng.choice([0.1, stage.rng.uniform(0.1, SESSION_SECONDS), PAST_SESSION_SECONDS]))
    broker.start()
    stage.cluster.wait_until_back(broker.id, epoch)


def kill_coordinator(step: str) -> Fault:
    """While a member is stopped before a step."""

    def fault(stage: Stage) -> None:
        one = stage.rng.choice(stage.members)
        hold(one, step)
        broker = stage.coordinator(one.group)
        stage.tell(f"kill -9 broker {broker.id}, coordinator of {one.group}, before {one.name} takes '{step}'")
        epoch = stage.cluster.epoch(broker.id)
        broker.kill()
        one.gate.let_go()
        _restart(stage, broker, epoch)
        stage.wait_until_whole()

    return fault


def kill_member(step: str) -> Fault:
    """Before a step; it is back at once, or when its session is over."""

    def fault(stage: Stage) -> None:
        one = stage.rng.choice(stage.members)
        hold(one, step)
        seconds = stage.rng.choice([0.0, stage.rng.uniform(0, 2 * member.SESSION_SECONDS)])
        stage.tell(f"{one.name} of {one.group} ends before '{step}', for {seconds:.1f} s")
        one.gate.let_go(Order(die_after_seconds=seconds))
        stage.wait_until_whole()

    return fault


def kill_both(step: str) -> Fault:
    def fault(stage: Stage) -> None:
        one = stage.rng.choice(stage.members)
        hold(one, step)
        broker = stage.coordinator(one.group)
        stage.tell(f"{one.name} ends before '{step}', and so does broker {broker.id}, its coordinator")
        epoch = stage.cluster.epoch(broker.id)
        one.gate.let_go(Order(die_after_seconds=stage.rng.uniform(0, 2 * member.SESSION_SECONDS)))
        broker.kill()
        _restart(stage, broker, epoch)
        stage.wait_until_whole()

    return fault


def stop_member(stage: Stage) -> None:
    """Until others have what it had; then it commits as if nothing had been."""
    one = stage.rng.choice(stage.members)
    one.gate.hold("commit", _HOLD_SECONDS)
    stage.tell(f"{one.name} of {one.group} stands still")
    generation = one.generation
    others = [each for each in stage.members if each.group == one.group and each is not one]
    try:
        wait_until(
            lambda: all(each.generation > generation for each in others), HEAL_SECONDS, "others have what one had"
        )
    finally:
        one.gate.let_go()
    stage.wait_until_whole()


def restart_static(stage: Stage) -> None:
    """A static member that is back before its session is over disturbs nobody."""
    one = stage.rng.choice(stage.static_members)
    one.gate.hold("heartbeat", _HOLD_SECONDS)
    stage.tell(f"{one.name} of {one.group}, a static member, is restarted")
    others = [each for each in stage.static_members if each is not one]
    generations = [each.generation for each in others]
    one.gate.move(Order(die_after_seconds=0.5), "commit", _HOLD_SECONDS)
    one.gate.let_go()
    stage.wait_until_whole()
    if [each.generation for each in others] != generations:
        stage.recorder.write("nemesis", "info", "rebalanced", note=f"{one.group}, when {one.name} was restarted")


def stop_coordinator(stage: Stage) -> None:
    """Until its session with ZooKeeper is over, and it is none any more."""
    group = stage.rng.choice([*{each.group: None for each in stage.members}, stage.real.group])
    broker = stage.coordinator(group)
    stage.tell(f"SIGSTOP broker {broker.id}, coordinator of {group}")
    epoch = stage.cluster.epoch(broker.id)
    broker.signal(signal.SIGSTOP)
    try:
        stage.cluster.wait_until_gone(broker.id)
        pause(stage.rng.uniform(0, SESSION_SECONDS))
    finally:
        broker.signal(signal.SIGCONT)
    stage.cluster.wait_until_back(broker.id, epoch)
    stage.wait_until_whole()


def kill_real_member(stage: Stage) -> None:
    stage.tell("kill -9 a client")
    stage.real.kill_one(stage.rng)
    stage.real.wait_until_owned(HEAL_SECONDS)


def stop_real_member(stage: Stage) -> None:
    """Until the others have what it had."""
    stage.tell("SIGSTOP a client")
    stage.real.stop_one(stage.rng)
    stage.wait_until_whole()


def kill_real_coordinator(stage: Stage) -> None:
    broker = stage.coordinator(stage.real.group)
    stage.tell(f"kill -9 broker {broker.id}, coordinator of {stage.real.group}")
    epoch = stage.cluster.epoch(broker.id)
    broker.kill()
    _restart(stage, broker, epoch)
    stage.wait_until_whole()


def all_faults(rng: random.Random) -> Iterator[Fault]:
    faults = [
        *(make(step) for make in (kill_coordinator, kill_member, kill_both) for step in STEPS),
        *([stop_member, restart_static, stop_coordinator] * 2),
        *([kill_real_member, stop_real_member, kill_real_coordinator] * 2),
    ]
    rng.shuffle(faults)
    return cycle(faults)


def short_faults() -> list[Fault]:
    """One of each kind."""
    return [
        restart_static,
        kill_member("sync"),
        kill_coordinator("commit"),
        stop_member,
        kill_real_member,
        kill_both("join"),
    ]
