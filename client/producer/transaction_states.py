"""The life of transactions, as a table. Pure; who acts on it is in `transactions`.

- What is not in the table is a mistake of the caller's, and an IllegalState.
- FAILED comes with any error that keeps the transaction from being committed; from then on it can only be aborted.
- FATAL comes when another producer has taken the transactional id, and ends everything.
- FLUSHING comes before COMMITTING: the coordinator has not been asked for anything, so an abort is still possible.
- A commit or abort whose answer did not come is asked for again by the same call; nothing else is possible then, as
  nobody knows whether it was done.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from minikafka.client.errors import IllegalState
from minikafka.protocol.errors import ErrorCode


class State(Enum):
    """Where the producer stands."""

    READY = "no transaction is open"
    OPEN = "a transaction is open"
    FLUSHING = "a transaction waits for its last records to be committed"
    COMMITTING = "a transaction is being committed"
    FAILED = "the transaction has failed and must be aborted"
    ABORTING = "a transaction is being aborted"
    FATAL = "the producer cannot go on"


class Event(Enum):
    """What happens to it."""

    BEGIN = auto()
    COMMIT = auto()
    FLUSHED = auto()
    COMMITTED = auto()
    ABORT = auto()
    ABORTED = auto()
    FAIL = auto()
    FATAL = auto()


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.READY, Event.BEGIN): State.OPEN,
    (State.OPEN, Event.COMMIT): State.FLUSHING,
    (State.FLUSHING, Event.COMMIT): State.FLUSHING,
    (State.FLUSHING, Event.FLUSHED): State.COMMITTING,
    (State.COMMITTING, Event.FLUSHED): State.COMMITTING,
    (State.COMMITTING, Event.COMMIT): State.COMMITTING,
    (State.COMMITTING, Event.COMMITTED): State.READY,
    (State.OPEN, Event.ABORT): State.ABORTING,
    (State.FLUSHING, Event.ABORT): State.ABORTING,
    (State.FAILED, Event.ABORT): State.ABORTING,
    (State.ABORTING, Event.ABORT): State.ABORTING,
    (State.ABORTING, Event.ABORTED): State.READY,
    (State.OPEN, Event.FAIL): State.FAILED,
    (State.FLUSHING, Event.FAIL): State.FAILED,
    (State.COMMITTING, Event.FAIL): State.FAILED,
    (State.FAILED, Event.FAIL): State.FAILED,
    # Records that are given up because of the abort.
    (State.ABORTING, Event.FAIL): State.ABORTING,
    # The last answers of records that a closing producer gives up.
    (State.READY, Event.FAIL): State.READY,
    (State.FATAL, Event.FAIL): State.FATAL,
    **{(state, Event.FATAL): State.FATAL for state in State},
}


def next_state(state: State, event: Event) -> State:
    """The state after an event; IllegalState if it cannot happen now."""
    found = TRANSITIONS.get((state, event))
    if found is None:
        raise IllegalState(f"cannot {event.name.lower()}: {state.value}")
    return found


FATAL_CODES: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
"""What a coordinator says of a producer that is not, or no longer, the one it should hear."""
