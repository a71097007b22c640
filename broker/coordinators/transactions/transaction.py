"""One transaction, and the rules by which it changes. Pure: time and producer ids are arguments.

A transaction is a value. Every rule takes the one that holds and gives the one that is to be written, or raises what
the producer has to be told; nothing holds until it is written.

Each producer of a transactional id has an epoch, and only the one with the newest may do anything. Beginning a session
raises it. So does being fenced: a producer that takes too long, or is replaced while its transaction is open, is
refused from then on by the coordinator and, since the markers carry the epoch, by every partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from minikafka.broker.coordinators.transactions.states import AT_REST, DECIDED, FOLLOWERS, State
from minikafka.protocol.errors import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
)

Name: TypeAlias = tuple[str, int]
"""A topic and a partition."""

NO_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1

_EPOCH_LAST: Final = (1 << 15) - 2
"""The last one to be given away: the highest of 16 bits is left for fencing whoever has this one."""


class Identity(NamedTuple):
    """Who a producer says it is."""

    producer_id: int
    epoch: int


class Transaction(NamedTuple):
    """See the module's description."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[Name] = frozenset()
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    last_producer_id: int = NO_ID
    """The id before this one, if its epochs were used up; known until the coordinator changes."""
    last_epoch: int = NO_EPOCH
    """The epoch that a producer had raised to the present one, so that it may ask twice; known as long."""

    @property
    def is_committing(self) -> bool:
        return self.state is State.PREPARE_COMMIT

    @property
    def is_used_up(self) -> bool:
        """Whether its producer id has no epoch left to give away."""
        return self.epoch >= _EPOCH_LAST

    def is_overdue(self, now_ms: int) -> bool:
        return self.state is State.ONGOING and self.started_ms + self.timeout_ms < now_ms

    def is_unused(self, now_ms: int, expiration_ms: int) -> bool:
        return self.state in AT_REST and self.updated_ms + expiration_ms <= now_ms


def new(transactional_id: str, producer_id: int, timeout_ms: int) -> Transaction:
    """That of an id nobody has used yet; it has no epoch until its first session begins."""
    return Transaction(transactional_id, producer_id, NO_EPOCH, timeout_ms)


def _changed(txn: Transaction, state: State, now_ms: int) -> Transaction:
    assert state in FOLLOWERS[txn.state], f"{state} after {txn.state}"
    return txn._replace(state=state, updated_ms=now_ms)


# ----------------------------------------------------------------------------------------------------------- sessions


def needs_new_id(txn: Transaction, expected: Identity | None) -> bool:
    """Whether the next session needs another producer id."""
    return txn.is_used_up and (expected is None or expected.epoch == txn.epoch)


def check_session(txn: Transaction, expected: Identity | None) -> None:
    """Whether somebody may begin a session; `expected` is who it was, if it wants to go on as that."""
    if expected is not None and txn.epoch != NO_EPOCH:
        was_before = expected.producer_id == txn.last_producer_id and expected.epoch >= _EPOCH_LAST
        if expected.producer_id != txn.producer_id and not was_before:
            raise ProducerFencedError(f"{txn.transactional_id} has another producer id by now")
    if txn.state in DECIDED:
        raise ConcurrentTransactionsError(f"{txn.transactional_id} is still ending a transaction")


def session(
    txn: Transaction, timeout_ms: int, expected: Identity | None, now_ms: int, new_id: int | None = None
) -> Transaction:
    """The next session of a producer, with the next epoch or another id; nothing is open."""
    if new_id is not None:
        last_epoch = NO_EPOCH if expected is None else txn.epoch
        begun = txn._replace(producer_id=new_id, epoch=0, last_producer_id=txn.producer_id, last_epoch=last_epoch)
    elif expected is None or txn.epoch == NO_EPOCH or expected.epoch == txn.epoch:
        last_epoch = NO_EPOCH if expected is None else txn.epoch
        begun = txn._replace(epoch=txn.epoch + 1, last_epoch=last_epoch)
    elif expected.epoch == txn.last_epoch:
        # Asked once more: it did not hear the answer.
        begun = txn
    else:
        raise ProducerFencedError(f"{txn.transactional_id} is at epoch {txn.epoch}, not {expected.epoch}")
    begun = begun._replace(timeout_ms=timeout_ms, partitions=frozenset(), started_ms=NO_TIME)
    return _changed(begun, State.EMPTY, now_ms)


# ------------------------------------------------------------------------------------------------------- transactions


def check_producer(txn: Transaction, who: Identity) -> None:
    if who.producer_id != txn.producer_id:
        raise InvalidProducerIdMappingError(f"{txn.transactional_id} does not belong to producer {who.producer_id}")
    if who.epoch != txn.epoch:
        raise ProducerFencedError(f"{txn.transactional_id} is at epoch {txn.epoch}, not {who.epoch}")


def check_open(txn: Transaction) -> None:
    if txn.state in DECIDED:
        raise ConcurrentTransactionsError(f"{txn.transactional_id} is still ending a transaction")


def with_partitions(txn: Transaction, names: Iterable[Name], now_ms: int) -> Transaction:
    """With more partitions; the same if it has them already. The first ones begin a transaction."""
    check_open(txn)
    added = frozenset(names)
    if txn.state is State.ONGOING:
        if added <= txn.partitions:
            return txn
        return _changed(txn, State.ONGOING, now_ms)._replace(partitions=txn.partitions | added)
    return _changed(txn, State.ONGOING, now_ms)._replace(partitions=added, started_ms=now_ms)


def ended(txn: Transaction, *, is_committed: bool, now_ms: int) -> Transaction | None:
    """Decided; None if that has been so for long, and the producer asks again."""
    if txn.state is State.ONGOING:
        return _changed(txn, State.PREPARE_COMMIT if is_committed else State.PREPARE_ABORT, now_ms)
    if txn.state is (State.COMPLETE_COMMIT if is_committed else State.COMPLETE_ABORT):
        return None
    if txn.state is (State.PREPARE_COMMIT if is_committed else State.PREPARE_ABORT):
        raise ConcurrentTransactionsError(f"{txn.transactional_id} is still ending a transaction")
    raise InvalidTxnStateError(f"{txn.transactional_id} has no open transaction, it is {txn.state.shown}")


def fenced(txn: Transaction, now_ms: int) -> Transaction:
    """Aborted on behalf of somebody else: the producer, which does not know, has an old epoch from now on."""
    return _changed(txn, State.PREPARE_ABORT, now_ms)._replace(epoch=txn.epoch + 1, last_epoch=NO_EPOCH)


def completed(txn: Transaction, now_ms: int) -> Transaction:
    """All partitions know."""
    return _changed(txn, DECIDED[txn.state], now_ms)._replace(partitions=frozenset())


def dead(txn: Transaction, now_ms: int) -> Transaction:
    """Forgotten."""
    return _changed(txn, State.DEAD, now_ms)
