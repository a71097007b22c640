"""The states of a group, as tables: what leads from one to another, and what is answered in which.

    Empty --> PreparingRebalance --> CompletingRebalance --> Stable
      ^          |       ^                   |                 |
      +----------+       +-------------------+-----------------+          any --> Dead

Whatever is not in the table of transitions cannot happen: it would be a fault of ours.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from minikafka.protocol.errors import ErrorCode


class State(Enum):
    """Kafka's names, which clients get to see."""

    EMPTY = "Empty"
    """No members; there may be offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are to join; who has waits for the others."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have joined; the leader is to say who gets what."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Removed, or coordinated by another broker by now."""


class Event(Enum):
    """What changes the state of a group."""

    REBALANCE = "members have to join anew"
    JOINED = "all members have joined, or are out of time"
    EMPTIED = "nobody has joined"
    ASSIGNED = "the leader's assignment is stored"
    ENDED = "the group is deleted, expired or unloaded"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = State

TRANSITIONS: Final = {
    (_EMPTY, Event.REBALANCE): _PREPARING,
    (_STABLE, Event.REBALANCE): _PREPARING,
    (_COMPLETING, Event.REBALANCE): _PREPARING,
    (_PREPARING, Event.JOINED): _COMPLETING,
    (_PREPARING, Event.EMPTIED): _EMPTY,
    (_COMPLETING, Event.ASSIGNED): _STABLE,
    (_EMPTY, Event.ENDED): _DEAD,
    (_PREPARING, Event.ENDED): _DEAD,
    (_COMPLETING, Event.ENDED): _DEAD,
    (_STABLE, Event.ENDED): _DEAD,
}


class Wish(Enum):
    """What a member of the right generation may want."""

    HEARTBEAT = "heartbeat"
    SYNC = "sync"
    COMMIT = "commit"


_OK: Final = ErrorCode.NONE
_REBALANCING: Final = ErrorCode.REBALANCE_IN_PROGRESS
_NOT_HERE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
_NOBODY: Final = ErrorCode.UNKNOWN_MEMBER_ID

ANSWERS: Final = {
    (_EMPTY, Wish.HEARTBEAT): _NOBODY,
    (_PREPARING, Wish.HEARTBEAT): _REBALANCING,
    (_COMPLETING, Wish.HEARTBEAT): _OK,
    (_STABLE, Wish.HEARTBEAT): _OK,
    (_DEAD, Wish.HEARTBEAT): _NOT_HERE,
    (_EMPTY, Wish.SYNC): _NOBODY,
    (_PREPARING, Wish.SYNC): _REBALANCING,
    (_COMPLETING, Wish.SYNC): _OK,
    (_STABLE, Wish.SYNC): _OK,
    (_DEAD, Wish.SYNC): _NOT_HERE,
    # Without members anybody may commit. While a rebalance is prepared members may still save what they have done;
    # once it has a new generation, what they did is not known to belong to it.
    (_EMPTY, Wish.COMMIT): _OK,
    (_PREPARING, Wish.COMMIT): _OK,
    (_COMPLETING, Wish.COMMIT): _REBALANCING,
    (_STABLE, Wish.COMMIT): _OK,
    (_DEAD, Wish.COMMIT): _NOT_HERE,
}


def can_rebalance(state: State) -> bool:
    return (state, Event.REBALANCE) in TRANSITIONS


def next_state(state: State, event: Event) -> State:
    """The state that an event leads to."""
    assert (state, event) in TRANSITIONS, f"{event} in state {state}"
    return TRANSITIONS[state, event]
