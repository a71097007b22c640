"""How the batches of an idempotent producer are numbered, and what an answer to one means.

Pure: no I/O, no time. The rules:

- A producer has an id and an epoch. For each partition it numbers its records from 0; a batch carries the number of its
  first record. A leader takes a batch only if its number follows the one before, and knows one that it has already.
- Of an uncertain batch (the connection broke, no answer came) the same bytes are sent again, with the same number.
- Batches in flight are answered before any is sent again, so they come again in their order.
- A gap arises when a batch is given up. Whoever comes after it keeps its number: was the lost batch written after all,
  all is well. If not, the leader answers that the oldest batch is out of order. Then neither it nor any later one was
  written, and it is safe to number them anew from 0, in a new epoch. They are never numbered anew for another reason.
- Partitions move to a new epoch one by one, when they have nothing in flight.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from minikafka.protocol.errors import ErrorCode, KafkaError, RetriableError, error_for

EPOCH_MAX: Final = (1 << 15) - 1
_SEQUENCE_MASK: Final = (1 << 31) - 1


class Identity(NamedTuple):
    """The producer id and epoch that batches carry; -1 for a producer that is not idempotent."""

    producer_id: int = -1
    epoch: int = -1

    def bumped(self) -> Identity | None:
        """The next epoch; None if there is none, and a new producer id is needed."""
        return None if self.epoch >= EPOCH_MAX else Identity(self.producer_id, self.epoch + 1)


def add_to_sequence(sequence: int, records: int) -> int:
    """The number that follows so many records; after 2**31 - 1 comes 0."""
    return sequence + records & _SEQUENCE_MASK


class Numbering:
    """The numbers of one partition."""

    __slots__ = ("identity", "next_sequence")

    def __init__(self) -> None:
        self.identity = Identity()
        self.next_sequence = 0

    def adopt(self, identity: Identity) -> None:
        """Start anew under another identity; allowed while nothing of the partition is in flight."""
        if identity != self.identity:
            self.identity = identity
            self.next_sequence = 0

    def take(self, records: int) -> int:
        """The number of a batch of so many records."""
        sequence = self.next_sequence
        self.next_sequence = add_to_sequence(sequence, records)
        return sequence


class Mode(Enum):
    """What the producer promises."""

    PLAIN = auto()
    IDEMPOTENT = auto()
    TRANSACTIONAL = auto()


class Verdict(Enum):
    """What becomes of a batch after an answer."""

    DELIVERED = auto()
    RETRY = auto()
    """Send it again as it is."""
    RENUMBER = auto()
    """It was not written, nor was any later one: number all of them anew."""
    SPLIT = auto()
    """It was not written because it is too large; two halves may be taken."""
    FAIL = auto()
    """Tell whoever sent it."""
    ABORT = auto()
    """The same, and the transaction cannot be committed any more."""
    FATAL = auto()
    """The same, and the producer is of no more use."""


_DELIVERED: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
# Of a batch that is not the oldest these only say that an earlier one did not get through.
_OUT_OF_PLACE: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
_FATAL: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)

# What the numbers having gone wrong for the oldest batch means, by mode.
_LOST_PLACE: Final = {
    Mode.PLAIN: Verdict.FAIL,
    Mode.IDEMPOTENT: Verdict.RENUMBER,
    # Records of this transaction may be missing from the middle, and abandoning it is how to make that good.
    Mode.TRANSACTIONAL: Verdict.ABORT,
}
_GIVEN_UP: Final = {Mode.PLAIN: Verdict.FAIL, Mode.IDEMPOTENT: Verdict.FAIL, Mode.TRANSACTIONAL: Verdict.ABORT}


def judge(code: int, mode: Mode, *, is_oldest: bool, records: int) -> Verdict:
    """What becomes of a batch that was answered with a code."""
    if code in _DELIVERED:
        return Verdict.DELIVERED
    if code in _OUT_OF_PLACE:
        return _LOST_PLACE[mode] if is_oldest else Verdict.RETRY
    if code == ErrorCode.INVALID_PRODUCER_EPOCH:
        return _LOST_PLACE[mode]
    if code in _TOO_LARGE and records > 1:
        return Verdict.SPLIT
    if code in _FATAL and mode is not Mode.PLAIN:
        return Verdict.FATAL
    return judge_error(error_for(code), mode)


def judge_error(error: KafkaError, mode: Mode) -> Verdict:
    """What becomes of a batch to which there is no answer, or an answer without a meaning of its own."""
    return Verdict.RETRY if isinstance(error, RetriableError) else _GIVEN_UP[mode]
