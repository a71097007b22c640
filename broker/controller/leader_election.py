"""Who leads a partition, and who stays in its ISR: pure rules, from a state to the next one.

A committed record is on every member of the ISR, so any of them can lead without a loss, and nobody else can. Where
several can, the first in the order of the assignment does. The last member of an ISR is never removed from it, dead or
alive: it alone is known to have everything.

Every decision of the controller raises the leader epoch, also if only the ISR shrinks: it so fences whatever a leader
had proposed before it knew. A function returns None where there is nothing to decide, or nothing that may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from minikafka.broker.zookeeper.topic_nodes import NO_LEADER, Assignment, StateNode

Can: TypeAlias = Callable[[int], bool]
"""Whether a replica is alive, or may lead."""


def first_state(assignment: Assignment, is_online: Can, controller_epoch: int) -> StateNode | None:
    """The state of a new partition: all replicas that live are in sync, as there is nothing to have missed."""
    alive = tuple(filter(is_online, assignment.replicas))
    return StateNode(alive[0], 0, alive, controller_epoch) if alive else None


def repaired(
    assignment: Assignment, state: StateNode, is_online: Can, controller_epoch: int, *, unclean: bool
) -> StateNode | None:
    """After brokers came or went: a leader that lives, and an ISR without the dead.

    Without a leader in sync one may be taken that is not, if losing records is preferred to not being available. It
    then is the whole ISR.
    """
    # Whoever is not a replica any more does not count, however alive.
    alive = tuple(each for each in state.isr if each in assignment.replicas and is_online(each))
    leader = state.leader if state.leader in alive else _first(assignment.replicas, lambda each: each in alive)
    if leader is not None:
        return _changed(state, leader, alive, controller_epoch)
    heir = _first(assignment.replicas, is_online) if unclean else None
    if heir is not None:
        epoch = state.leader_epoch + 1
        return StateNode(heir, epoch, (heir,), controller_epoch, is_recovering=True, unclean_epoch=epoch)
    return _changed(state, NO_LEADER, state.isr, controller_epoch)


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
    return _next(state, NO_LEADER if leader is None else leader, isr, controller_epoch)


def _changed(state: StateNode, leader: int, isr: tuple[int, ...], controller_epoch: int) -> StateNode | None:
    if (leader, isr) == (state.leader, state.isr):
        return None
    return _next(state, leader, isr, controller_epoch)


def _next(state: StateNode, leader: int, isr: tuple[int, ...], controller_epoch: int) -> StateNode:
    return state._replace(
        leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr, controller_epoch=controller_epoch
    )


def _first(replicas: Iterable[int], holds: Can) -> int | None:
    return next(filter(holds, replicas), None)
