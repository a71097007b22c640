"""A member of a group, as a state machine. It knows no socket and no clock; `member` does what a state asks for.

    OUT       no member, and no wish to be one
    JOINING   on the way into the next generation: gives up what it has to, sends JoinGroup, waits for the others
    SYNCING   in a new generation, waiting for the leader's assignment
    STABLE    has its assignment, sends heartbeats
    EXPIRED   left the group since the program took too long; joins again when the program comes back
    FAILED    cannot be a member; the program is told why

What the coordinator knows a member by are its id and generation. Every transition says what is left of the two: after
some the coordinator does not know them any more, and all partitions are lost without being given up. Who leaves by
itself has given them up.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

NO_GENERATION: Final = -1
NO_MEMBER_ID: Final = ""


class State(Enum):
    """Where a member is."""

    OUT = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()
    EXPIRED = auto()
    FAILED = auto()


class Event(Enum):
    """What happens to it."""

    SUBSCRIBED = auto()
    """The program has subscribed, or to something else than before."""
    UNSUBSCRIBED = auto()
    JOINED = auto()
    """JoinGroup was answered with a generation."""
    SYNCED = auto()
    """The assignment is here and has been taken over."""
    REBALANCE = auto()
    """The coordinator, or something this member has seen, calls for another generation."""
    ILLEGAL_GENERATION = auto()
    """The group went on without this member."""
    UNKNOWN_MEMBER = auto()
    """The coordinator does not know it."""
    POLL_EXPIRED = auto()
    """The program has not come back for more for too long."""
    POLLED = auto()
    FATAL = auto()


class Keeps(Enum):
    """What is left of a member's identity."""

    ALL = auto()
    MEMBER_ID = auto()
    NOTHING = auto()


class Transition(NamedTuple):
    """Where an event leads."""

    state: State
    keeps: Keeps = Keeps.ALL
    loses: bool = False
    """Whether the partitions of the generation are lost, if there was one."""


def _stay(state: State) -> Transition:
    return Transition(state)


_REJOIN: Final = Transition(State.JOINING)
_LATE: Final = Transition(State.JOINING, Keeps.MEMBER_ID, loses=True)
_UNKNOWN: Final = Transition(State.JOINING, Keeps.NOTHING, loses=True)
_LEAVE: Final = Transition(State.OUT, Keeps.NOTHING)
_EXPIRE: Final = Transition(State.EXPIRED, Keeps.NOTHING, loses=True)
_FAIL: Final = Transition(State.FAILED, Keeps.NOTHING, loses=True)

TRANSITIONS: Final[dict[State, dict[Event, Transition]]] = {
    State.OUT: {
        **{event: _stay(State.OUT) for event in Event},
        Event.SUBSCRIBED: _REJOIN,
        Event.FATAL: _FAIL,
    },
    State.JOINING: {
        **{event: _stay(State.JOINING) for event in Event},
        Event.UNSUBSCRIBED: _LEAVE,
        Event.JOINED: Transition(State.SYNCING),
        Event.ILLEGAL_GENERATION: _LATE,
        Event.UNKNOWN_MEMBER: _UNKNOWN,
        Event.POLL_EXPIRED: _EXPIRE,
        Event.FATAL: _FAIL,
    },
    State.SYNCING: {
        **{event: _stay(State.SYNCING) for event in Event},
        # The generation has begun without the new subscription: on to the next.
        Event.SUBSCRIBED: _REJOIN,
        Event.UNSUBSCRIBED: _LEAVE,
        Event.SYNCED: Transition(State.STABLE),
        Event.REBALANCE: _REJOIN,
        Event.ILLEGAL_GENERATION: _LATE,
        Event.UNKNOWN_MEMBER: _UNKNOWN,
        Event.POLL_EXPIRED: _EXPIRE,
        Event.FATAL: _FAIL,
    },
    State.STABLE: {
        **{event: _stay(State.STABLE) for event in Event},
        Event.SUBSCRIBED: _REJOIN,
        Event.UNSUBSCRIBED: _LEAVE,
        Event.REBALANCE: _REJOIN,
        Event.ILLEGAL_GENERATION: _LATE,
        Event.UNKNOWN_MEMBER: _UNKNOWN,
        Event.POLL_EXPIRED: _EXPIRE,
        Event.FATAL: _FAIL,
    },
    State.EXPIRED: {
        **{event: _stay(State.EXPIRED) for event in Event},
        Event.UNSUBSCRIBED: _LEAVE,
        Event.POLLED: _REJOIN,
        Event.FATAL: _FAIL,
    },
    State.FAILED: {event: _stay(State.FAILED) for event in Event},
}


class Membership:
    """The state, and by what the coordinator knows the member."""

    def __init__(self) -> None:
        self.state = State.OUT
        self.member_id = NO_MEMBER_ID
        self.generation_id = NO_GENERATION
        self.last_member_id = NO_MEMBER_ID
        self.last_generation_id = NO_GENERATION
        """The generation it was in last, also after it has lost its place there."""
        self.has_lost = False
        """Whether partitions of an earlier generation may belong to others by now; until `take_lost` is asked."""

    @property
    def is_known(self) -> bool:
        """Whether the coordinator has this member in a generation."""
        return self.generation_id != NO_GENERATION

    def on(self, event: Event) -> State:
        """Let something happen; returns the new state."""
        transition = TRANSITIONS[self.state][event]
        self.state = transition.state
        self.has_lost = (self.has_lost or (transition.loses and self.is_known)) and self.state is not State.OUT
        if transition.keeps is not Keeps.ALL:
            self.generation_id = NO_GENERATION
        if transition.keeps is Keeps.NOTHING:
            self.member_id = NO_MEMBER_ID
        return self.state

    def name(self, member_id: str) -> None:
        """The coordinator has given this member an id, to join with."""
        if self.state is State.JOINING:
            self.member_id = member_id

    def joined(self, generation_id: int, member_id: str) -> State:
        if self.state is State.JOINING:
            self.member_id, self.generation_id = member_id, generation_id
            self.last_member_id, self.last_generation_id = member_id, generation_id
        return self.on(Event.JOINED)

    def take_lost(self) -> bool:
        lost, self.has_lost = self.has_lost, False
        return lost
