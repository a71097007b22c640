"""How the batches of an idempotent producer are numbered, and what an answer to one means.

Pure: no I/O, no time. A producer has an id and an epoch. In each partition it numbers its records from 0; a batch
carries the number of its first record. Of one epoch a leader takes a batch only if its number follows the last one, and
it knows the last five batches if they come again (KAFKA-5494). Once it has a batch of an epoch, it takes none of an
earlier one.

An attempt to send a batch is over with its answer. Without an answer, or with one that does not rule it out, the batch
may have been written, or may be written later: the request may lie in the socket of a leader that stands still. Such a
batch is uncertain, until an attempt succeeds. A batch of which every attempt was refused was not written, and will
not be. The rules:

1. A batch gets its number when it is sent first. An uncertain batch is sent again with the same bytes, never with
   another number.
2. All batches in flight are answered, or their connection is gone, before any is sent again; then all are sent in their
   order, before any new one. So no more than five are uncertain, and a leader that has one of them knows it.
3. A partition leaves its epoch when a number may be missing in it: a batch with a number failed or was given up at its
   delivery timeout, or the oldest batch was refused as out of order. From then on no batch gets a number in this epoch.
4. It has left when nothing is in flight, and no batch that waits to be sent again is uncertain. What waits was never
   written, so it is numbered from 0 in the next epoch, in its order, before any new batch (KIP-360). Partitions leave
   one by one.
5. A batch that was given up goes on being sent while an uncertain one that was not given up comes after it: that one
   can only be written if this one is. In the end the uncertain ones are delivered, or reach their own timeouts.

6. One batch is in flight until one of this producer id is delivered in the partition: a leader that does not know the
   producer takes any number, so also that of the second batch after it has refused the first one.

Why nothing is written twice: a batch has one number in an epoch, and gets one in the next only if no attempt before can
have been written (1, 4). Why nothing is reordered: within an epoch the leader keeps the order of numbers, and what is
sent in the next epoch comes after all that was delivered in this one (3, 4). This holds while the leader remembers the
producer; one that has forgotten it (unclean election, `producer.id.expiration.ms`) takes any number.

Kafka's Java client does 1 to 3 as well (`markSequenceUnresolved`, `maybeResolveSequences`), but gives uncertain batches
other numbers, too: one that is written late is then there twice. In a transaction 3 to 5 do not apply: it fails, and
its abort begins a new epoch.
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
    LEAVE_EPOCH = auto()
    """It was refused, as one before it is missing: send it again, and leave the epoch."""
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
# Codes that leaders only answer with before they write anything. Others, such as NOT_LEADER_OR_FOLLOWER, may also come
# of waiting for replicas.
_REFUSED: Final = frozenset(
    {
        *_OUT_OF_PLACE,
        *_TOO_LARGE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_RECORD,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
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
    Mode.IDEMPOTENT: Verdict.LEAVE_EPOCH,
    # Records of this transaction may be missing from the middle, and abandoning it is how to make that good.
    Mode.TRANSACTIONAL: Verdict.ABORT,
}
_GIVEN_UP: Final = {Mode.PLAIN: Verdict.FAIL, Mode.IDEMPOTENT: Verdict.FAIL, Mode.TRANSACTIONAL: Verdict.ABORT}


def is_refusal(code: int) -> bool:
    """Whether the attempt that was answered with a code has written nothing, and will write nothing."""
    return code in _REFUSED


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
