"""Who leads a partition, and who stays in its ISR: pure rules, from a state to the next one.

A committed record is on every member of the ISR, so any of them can lead without a loss, and nobody else can. Where
several can, the first in the order of the assignment does. The last member of an ISR is never removed from it, dead or
alive: it alone is known to have everything.

With fewer members than `min.insync.replicas` nothing is committed, so whoever leaves such an ISR stays eligible: it has
all that is committed until the ISR is large enough again (KIP-966). A broker that registers again is not in the ISR any
more; it is eligible if it was stopped in good order, or acknowledges only what is on disk, and so has lost nothing.

Every decision of the controller raises the leader epoch, also if only the ISR shrinks: it so fences whatever a leader
had proposed before it knew. A function returns None where there is nothing to decide, or nothing that may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TypeAlias

from minikafka.broker.zookeeper.topic_nodes import NO_LEADER, Assignment, StateNode


class Standing(Enum):
    """What became of a replica since the state of its partition was decided."""

    AWAY = "away"
    """It is gone, or its log directory is. What it has is not known."""
    SAME = "same"
    """It is the broker for which the state was decided."""
    KEPT = "kept"
    """It has registered again, and lost nothing."""
    LOST = "lost"
    """It has registered again after a stop that was not clean: it may miss what was committed."""


Can: TypeAlias = Callable[[int], bool]
"""Whether a replica is alive, or may lead."""


def first_state(assignment: Assignment, is_online: Can, controller_epoch: int) -> StateNode | None:
    """The state of a new partition: all replicas that live are in sync, as there is nothing to have missed."""
    alive = tuple(filter(is_online, assignment.replicas))
    return StateNode(alive[0], 0, alive, controller_epoch) if alive else None


def repaired(
    assignment: Assignment,
    state: StateNode,
    standing: Callable[[int], Standing],
    controller_epoch: int,
    *,
    unclean: bool,
    min_isr: int,
) -> StateNode | None:
    """After brokers came or went: a leader that lives, and an ISR without those that are not who they were.

    Without a leader in sync one may be taken that is not, if losing records is preferred to not being available. It
    then is the whole ISR. `min_isr` is the `min.insync.replicas` of the topic.
    """
    # A broker that is not a replica any more does not count, however alive.
    isr = tuple(each for each in state.isr if each in assignment.replicas and standing(each) is Standing.SAME)
    leader = state.leader if state.leader in isr else _first(assignment.replicas, isr.__contains__)
    if leader is None:
        isr = _eligible(assignment, state, standing)
        leader = _first(assignment.replicas, isr.__contains__)
    if leader is not None:
        return _changed(state, leader, isr, controller_epoch, standing)
    heir = _last_leader(assignment, state, standing)
    if heir is None and unclean:
        heir = _first(assignment.replicas, lambda each: standing(each) is not Standing.AWAY)
    if heir is not None:
        may_lose = unclean or min(min_isr, len(assignment.replicas)) > 1
        return _recovering(state, heir, controller_epoch, may_lose=may_lose)
    expected = tuple(each for each in state.isr if standing(each) is not Standing.LOST)
    return _changed(state, NO_LEADER, expected or state.isr, controller_epoch)


def _eligible(assignment: Assignment, state: StateNode, standing: Callable[[int], Standing]) -> tuple[int, ...]:
    """The ISR when nobody of the last one goes on: those that have all that is committed.

    Members of it that came back and have lost nothing, or else one of the eligible leader replicas.
    """
    back = tuple(each for each in state.isr if each in assignment.replicas and standing(each) is Standing.KEPT)
    if back:
        return back
    whole = (Standing.SAME, Standing.KEPT)
    heir = _first(assignment.replicas, lambda each: each in state.elr and standing(each) in whole)
    return () if heir is None else (heir,)


def _last_leader(assignment: Assignment, state: StateNode, standing: Callable[[int], Standing]) -> int | None:
    """The leader if every replica that might have all that is committed came back from an unclean stop (KIP-966).

    Who led last is the best there is, or who is there. As long as one of them is away it may have everything, and is
    waited for.
    """
    members = [each for each in assignment.replicas if each in state.isr or each in state.elr]
    if not members or any(standing(each) is not Standing.LOST for each in members):
        return None
    last = state.last_leader if state.leader == NO_LEADER else state.leader
    is_there = last in assignment.replicas and standing(last) is not Standing.AWAY
    return last if is_there else members[0]


def _recovering(state: StateNode, leader: int, controller_epoch: int, *, may_lose: bool) -> StateNode:
    """A leader that may miss what was committed; `may_lose`: followers may truncate what was, up to its epoch."""
    new = again(state, leader, (leader,), controller_epoch)
    return new._replace(is_recovering=True, unclean_epoch=new.leader_epoch if may_lose else state.unclean_epoch)


def without_leaving(
    assignment: Assignment, state: StateNode, broker_id: int, may_lead: Can, controller_epoch: int
) -> StateNode | None:
    """When a broker is about to stop: another leader, and an ISR without it."""
    if state.leader == broker_id:
        heir = _first(assignment.replicas, lambda each: each in state.isr and may_lead(each))
        if heir is None:
            return None
        return _changed(state, heir, tuple(filter(may_lead, state.isr)), controller_epoch)
    if state.leader == NO_LEADER or len(state.isr) == 1:
        return None
    return _changed(state, state.leader, tuple(each for each in state.isr if each != broker_id), controller_epoch)


def preferred(assignment: Assignment, state: StateNode, may_lead: Can, controller_epoch: int) -> StateNode | None:
    """The first replica leads, if it is in sync."""
    first = assignment.target[0]
    if first not in state.isr or not may_lead(first):
        return None
    return _changed(state, first, state.isr, controller_epoch)


def moved(replicas: Sequence[int], state: StateNode, may_lead: Can, controller_epoch: int) -> StateNode | None:
    """When a partition has other replicas: a leader and an ISR of them, and in any case another epoch."""
    isr = tuple(each for each in state.isr if each in replicas)
    if not isr:
        return None
    leader: int | None = state.leader
    if leader not in isr:
        leader = _first(replicas, lambda each: each in isr and may_lead(each))
    return again(state, NO_LEADER if leader is None else leader, isr, controller_epoch)


def _changed(
    state: StateNode,
    leader: int,
    isr: tuple[int, ...],
    controller_epoch: int,
    standing: Callable[[int], Standing] = lambda _: Standing.SAME,
) -> StateNode | None:
    # A leader that was restarted needs another epoch: else what it writes now looks like what it has lost.
    is_same = all(standing(each) is Standing.SAME for each in isr)
    if (leader, isr) == (state.leader, state.isr) and is_same:
        return None
    return again(state, leader, isr, controller_epoch)


def again(state: StateNode, leader: int, isr: tuple[int, ...], controller_epoch: int) -> StateNode:
    """A state in another epoch."""
    return state._replace(
        leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr, controller_epoch=controller_epoch
    )


def _first(replicas: Iterable[int], holds: Can) -> int | None:
    return next(filter(holds, replicas), None)
