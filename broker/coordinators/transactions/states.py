"""The states of a transaction, as a table: what may follow what.

    Empty --> Ongoing --> PrepareCommit --> CompleteCommit --+
      ^         ^   |                                        |
      |         |   +---> PrepareAbort ---> CompleteAbort ---+--> Ongoing, Empty (the producer begins anew)
      +---------+
                                             Empty, CompleteCommit, CompleteAbort --> Dead
                                             Empty, CompleteCommit, CompleteAbort --> PrepareAbort (of nothing, KIP-890)

Whatever is not in the table cannot happen: it would be a fault of ours.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """The numbers stand in the log; `shown` is the name that clients get to see."""

    EMPTY = 0
    """The producer has an id and an epoch, and has written nothing since."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """Decided. The partitions are being told."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    """All partitions have it."""
    COMPLETE_ABORT = 5
    DEAD = 6
    """Nobody has used the id for long; it is forgotten."""
    PREPARE_EPOCH_FENCE = 7
    """Kafka's, between finding out that a producer has to be fenced and writing that down. Here that is one step."""

    @property
    def shown(self) -> str:
        return self.name.title().replace("_", "")


_EMPTY, _ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT, _COMPLETE_COMMIT, _COMPLETE_ABORT, _DEAD, _ = State

FOLLOWERS: Final[dict[State, frozenset[State]]] = {
    _EMPTY: frozenset({_EMPTY, _ONGOING, _PREPARE_ABORT, _DEAD}),
    _ONGOING: frozenset({_ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT}),
    _PREPARE_COMMIT: frozenset({_COMPLETE_COMMIT}),
    _PREPARE_ABORT: frozenset({_COMPLETE_ABORT}),
    _COMPLETE_COMMIT: frozenset({_EMPTY, _ONGOING, _PREPARE_ABORT, _DEAD}),
    _COMPLETE_ABORT: frozenset({_EMPTY, _ONGOING, _PREPARE_ABORT, _DEAD}),
    _DEAD: frozenset(),
}

DECIDED: Final = {_PREPARE_COMMIT: _COMPLETE_COMMIT, _PREPARE_ABORT: _COMPLETE_ABORT}
"""What is decided and not done yet, with what it is then."""

AT_REST: Final = frozenset({_EMPTY, _COMPLETE_COMMIT, _COMPLETE_ABORT})
"""Nothing is open: the producer may begin, be replaced, or be forgotten."""

STATE_NAMES: Final = frozenset(each.shown for each in State)
