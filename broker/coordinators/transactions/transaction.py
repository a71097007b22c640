"""One transaction, and the rules by which it changes. Pure: time and producer ids are arguments.

A transaction is a value. Every rule takes the one that holds and gives the one that is to be written, or raises what
the producer has to be told; nothing holds until it is written.

Each producer of a transactional id has an epoch, and only the one with the newest may do anything. Beginning a session
raises it. So does being fenced: a producer that takes too long, or is replaced while its transaction is open, is
refused from then on by the coordinator and, since the markers carry the epoch, by every partition.

A transaction keeps the version of the protocol with which it began (KIP-890). With version 2 every end raises the
epoch, markers carry the new one, and the producer gets it with the answer: no two transactions share an epoch, so a
request that arrives late belongs to none that is open. When the epochs are used up, the end brings another producer id.
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
    TransactionAbortableError,
)

Name: TypeAlias = tuple[str, int]
"""A topic and a partition."""

NO_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1

VERSION_2: Final = 2
"""The transaction version in which every transaction has an epoch of its own."""

_EPOCH_LAST: Final = (1 << 15) - 2
"""The last one to be given away: the highest of 16 bits is left for fencing whoever has this one."""

_ENDED: Final = (AT_REST | DECIDED.keys()) - {State.EMPTY}


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
    version: int = 0
    """The transaction version of what is open, or of the last end."""
    next_producer_id: int = NO_ID
    """The id that the producer has once the decided transaction is complete, since this one's epochs are used up."""

    @property
    def holder(self) -> Identity:
        """Who may act: after an end that used up the epochs, the producer has its next id already."""
        is_moving = self.next_producer_id != NO_ID
        return Identity(self.next_producer_id, 0) if is_moving else Identity(self.producer_id, self.epoch)

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
    """Whether somebody may begin a session; `expected` is who it was, if it wants to go on as that.

    What is open is aborted for a producer that then gets a session. One with another identity gets none: its request
    is late, or it was replaced. Kafka aborts all the same, and refuses it when it asks again.
    """
    if expected is not None and txn.epoch != NO_EPOCH:
        was_before = expected.producer_id == txn.last_producer_id and expected.epoch >= _EPOCH_LAST
        if expected.producer_id not in (txn.producer_id, txn.next_producer_id) and not was_before:
            raise ProducerFencedError(f"{txn.transactional_id} has another producer id by now")
        if txn.state is State.ONGOING and expected != txn.holder:
            raise ProducerFencedError(f"{txn.transactional_id} has a transaction open at epoch {txn.epoch}")
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
    begun = begun._replace(timeout_ms=timeout_ms, partitions=frozenset(), started_ms=NO_TIME, version=0)
    return _changed(begun, State.EMPTY, now_ms)


# ------------------------------------------------------------------------------------------------------- transactions


def check_producer(txn: Transaction, who: Identity) -> None:
    holder = txn.holder
    if who.producer_id != holder.producer_id:
        raise InvalidProducerIdMappingError(f"{txn.transactional_id} does not belong to producer {who.producer_id}")
    if who.epoch != holder.epoch or who.epoch > _EPOCH_LAST:
        raise ProducerFencedError(f"{txn.transactional_id} is at epoch {holder.epoch}, not {who.epoch}")


def check_open(txn: Transaction) -> None:
    if txn.state in DECIDED:
        raise ConcurrentTransactionsError(f"{txn.transactional_id} is still ending a transaction")


def with_partitions(txn: Transaction, names: Iterable[Name], now_ms: int, version: int = 0) -> Transaction:
    """With more partitions; the same if it has them already. The first ones begin a transaction of that version.

    With version 2 a leader adds its partition by itself, for a batch that may have been late on its way. Into a
    transaction whose producer adds partitions itself it must not get like that.
    """
    check_open(txn)
    added = frozenset(names)
    if txn.state is State.ONGOING:
        if added <= txn.partitions:
            return txn
        if version > txn.version:
            raise TransactionAbortableError(f"the producer of {txn.transactional_id} adds partitions by itself")
        return _changed(txn, State.ONGOING, now_ms)._replace(partitions=txn.partitions | added)
    return _changed(txn, State.ONGOING, now_ms)._replace(partitions=added, started_ms=now_ms, version=version)


def is_end_repeated(txn: Transaction, who: Identity, version: int) -> bool:
    """Whether an end of version 2 is asked for again by who has not heard what it brought."""
    if version < VERSION_2 or txn.version < VERSION_2 or txn.state not in _ENDED:
        return False
    if who.epoch >= _EPOCH_LAST and who.producer_id == txn.last_producer_id:
        return txn.epoch == 0
    return who == (txn.producer_id, txn.epoch - 1)


def check_end(txn: Transaction, who: Identity, version: int) -> None:
    """Whether somebody may end a transaction, or ask once more for its end."""
    if not is_end_repeated(txn, who, version):
        check_producer(txn, who)
    elif txn.holder.epoch > _EPOCH_LAST:
        # Fenced at the last epoch: nobody can go on with the one that is left for that.
        raise ProducerFencedError(f"the epochs of {txn.transactional_id} are used up")


def end_needs_new_id(txn: Transaction, who: Identity, version: int) -> bool:
    """Whether the end of a transaction takes another producer id."""
    return version >= VERSION_2 and txn.is_used_up and txn.state not in DECIDED and who == txn.holder


def ended(
    txn: Transaction,
    who: Identity,
    *,
    is_committed: bool,
    now_ms: int,
    version: int = 0,
    new_id: int = NO_ID,
) -> Transaction | None:
    """Decided; None if that has been so for long, and the producer asks again.

    A producer of version 2 may abort what no partition has heard of, for it cannot know that.
    """
    check_end(txn, who, version)
    is_repeated = is_end_repeated(txn, who, version)
    if txn.state is (State.PREPARE_COMMIT if is_committed else State.PREPARE_ABORT):
        raise ConcurrentTransactionsError(f"{txn.transactional_id} is still ending a transaction")
    is_as_asked = txn.state is (State.COMPLETE_COMMIT if is_committed else State.COMPLETE_ABORT)
    # An end of an earlier version raises no epoch, so what repeats it comes with the present one.
    if is_as_asked and (is_repeated or (txn.version < VERSION_2 and (version < VERSION_2 or is_committed))):
        return None
    is_open = txn.state is State.ONGOING and version >= txn.version
    is_empty_abort = version >= VERSION_2 and not is_committed and not is_repeated and txn.state in AT_REST
    if not (is_open or is_empty_abort):
        raise InvalidTxnStateError(
            f"{txn.transactional_id} has no open transaction of version {version}, it is {txn.state.shown}"
        )
    decided = _changed(txn, State.PREPARE_COMMIT if is_committed else State.PREPARE_ABORT, now_ms)
    if version < VERSION_2:
        return decided
    started_ms = now_ms if is_empty_abort else txn.started_ms
    return decided._replace(
        epoch=txn.epoch + 1, last_epoch=txn.epoch, version=version, next_producer_id=new_id, started_ms=started_ms
    )


def fenced(txn: Transaction, now_ms: int) -> Transaction:
    """Aborted on behalf of somebody else: the producer, which does not know, has an old epoch from now on."""
    return _changed(txn, State.PREPARE_ABORT, now_ms)._replace(epoch=txn.epoch + 1, last_epoch=NO_EPOCH)


def completed(txn: Transaction, now_ms: int) -> Transaction:
    """All partitions know. If the epochs are used up, the next producer id takes the place of this one."""
    done = _changed(txn, DECIDED[txn.state], now_ms)._replace(partitions=frozenset())
    if txn.next_producer_id == NO_ID:
        return done
    producer_id, epoch = txn.holder
    return done._replace(
        producer_id=producer_id,
        epoch=epoch,
        next_producer_id=NO_ID,
        last_producer_id=txn.producer_id,
        last_epoch=_EPOCH_LAST,
    )


def dead(txn: Transaction, now_ms: int) -> Transaction:
    """Forgotten."""
    return _changed(txn, State.DEAD, now_ms)
