"""The rules of transactions: directed ones, and any schedule of producers, timeouts and coordinators.

- The identities that are given away are all different, and epochs of a producer id only grow.
- Only whoever has the newest identity can do anything.
- A transaction ends once, and is committed only if its producer said so.
- A transaction that nobody ends is over after its timeout.
"""

from __future__ import annotations

import os
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.broker.coordinators.transactions import transaction as rules
from minikafka.broker.coordinators.transactions.records import entry, read_entry
from minikafka.broker.coordinators.transactions.states import AT_REST, DECIDED, FOLLOWERS, State
from minikafka.broker.coordinators.transactions.transaction import NO_EPOCH, NO_ID, VERSION_2, Identity, Transaction
from minikafka.protocol.errors import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
)

SCHEDULES = int(os.environ.get("MINIKAFKA_SCHEDULES", "200"))

A, B = ("a", 0), ("b", 1)
EPOCH_MAX = (1 << 15) - 1


def begun(txn: Transaction | None = None, expected: Identity | None = None, new_id: int | None = None) -> Transaction:
    return rules.session(txn or rules.new("t", 7, 1000), 1000, expected, 10, new_id)


def who(txn: Transaction) -> Identity:
    return Identity(txn.producer_id, txn.epoch)


def test_every_state_but_kafkas_own_has_its_followers() -> None:
    assert FOLLOWERS.keys() == set(State) - {State.PREPARE_EPOCH_FENCE}
    assert all(follower in FOLLOWERS for followers in FOLLOWERS.values() for follower in followers)
    assert [each.shown for each in State][2:4] == ["PrepareCommit", "PrepareAbort"]


def test_each_session_has_the_next_epoch() -> None:
    first = begun()
    assert who(first) == (7, 0)
    assert who(begun(first)) == (7, 1)


def test_who_asks_twice_gets_the_same_epoch() -> None:
    first = begun()
    second = begun(first, who(first))
    assert who(second) == who(begun(second, who(first))) == (7, 1)


def test_a_stranger_and_an_old_one_begin_no_session() -> None:
    txn = begun(begun(begun()))
    with pytest.raises(ProducerFencedError):
        begun(txn, Identity(7, 0))
    with pytest.raises(ProducerFencedError):
        rules.check_session(txn, Identity(8, 2))


def test_another_id_when_the_epochs_are_used_up() -> None:
    last = begun()._replace(epoch=EPOCH_MAX - 1)
    assert rules.needs_new_id(last, None) and rules.needs_new_id(last, who(last))
    next_one = begun(last, who(last), new_id=8)
    assert who(next_one) == (8, 0)
    # It asks again, as whom it was before.
    rules.check_session(next_one, who(last))
    assert who(begun(next_one, who(last))) == (8, 0)


def test_partitions_are_added_once() -> None:
    txn = rules.with_partitions(begun(), [A], 20)
    assert (txn.state, txn.partitions, txn.started_ms) == (State.ONGOING, frozenset({A}), 20)
    assert rules.with_partitions(txn, [A], 30) is txn
    more = rules.with_partitions(txn, [B], 30)
    assert (more.partitions, more.started_ms, more.updated_ms) == (frozenset({A, B}), 20, 30)


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_end_can_be_asked_for_again(is_committed: bool) -> None:
    me = who(begun())
    txn = rules.ended(rules.with_partitions(begun(), [A], 20), me, is_committed=is_committed, now_ms=30)
    assert txn is not None and txn.state in DECIDED and txn.is_committing is is_committed
    with pytest.raises(ConcurrentTransactionsError):
        rules.ended(txn, me, is_committed=is_committed, now_ms=40)
    with pytest.raises(InvalidTxnStateError):
        rules.ended(txn, me, is_committed=not is_committed, now_ms=40)
    with pytest.raises(ConcurrentTransactionsError):
        rules.with_partitions(txn, [B], 40)
    with pytest.raises(ConcurrentTransactionsError):
        rules.check_session(txn, None)
    done = rules.completed(txn, 50)
    assert done.state in AT_REST and not done.partitions
    assert rules.ended(done, me, is_committed=is_committed, now_ms=60) is None
    with pytest.raises(InvalidTxnStateError):
        rules.ended(done, me, is_committed=not is_committed, now_ms=60)


def test_nothing_ends_that_has_not_begun() -> None:
    with pytest.raises(InvalidTxnStateError):
        rules.ended(begun(), who(begun()), is_committed=True, now_ms=20)


def test_a_fenced_producer_is_refused() -> None:
    txn = rules.with_partitions(begun(), [A], 20)
    fenced = rules.fenced(txn, 30)
    assert fenced.state is State.PREPARE_ABORT and fenced.epoch == txn.epoch + 1
    with pytest.raises(ProducerFencedError):
        rules.check_producer(fenced, who(txn))
    with pytest.raises(InvalidProducerIdMappingError):
        rules.check_producer(fenced, Identity(8, fenced.epoch))


# ------------------------------------------------------------------------------------------------------------ version 2


def opened_2(txn: Transaction | None = None) -> Transaction:
    return rules.with_partitions(txn or begun(), [A], 20, VERSION_2)


def ended_2(txn: Transaction, me: Identity, is_committed: bool = True, new_id: int = NO_ID) -> Transaction | None:
    return rules.ended(txn, me, is_committed=is_committed, now_ms=30, version=VERSION_2, new_id=new_id)


@pytest.mark.parametrize("is_committed", [True, False])
def test_end_of_version_2_raises_the_epoch_and_can_be_repeated(is_committed: bool) -> None:
    me = who(begun())
    txn = ended_2(opened_2(), me, is_committed)
    assert txn is not None and txn.state in DECIDED
    assert who(txn) == txn.holder == (7, 1)
    with pytest.raises(ConcurrentTransactionsError):
        ended_2(txn, me, is_committed)
    with pytest.raises(InvalidTxnStateError):
        ended_2(txn, me, not is_committed)
    done = rules.completed(txn, 40)
    assert ended_2(done, me, is_committed) is None and done.holder == (7, 1)
    with pytest.raises(InvalidTxnStateError):
        ended_2(done, me, not is_committed)


@pytest.mark.parametrize("version", [0, VERSION_2])
@pytest.mark.parametrize("is_committed", [True, False])
def test_late_end_does_not_end_the_next_transaction(is_committed: bool, version: int) -> None:
    me = who(begun())
    first = ended_2(opened_2(), me)
    assert first is not None
    second = opened_2(rules.completed(first, 40))
    with pytest.raises(ProducerFencedError):
        rules.ended(second, me, is_committed=is_committed, now_ms=50, version=version)


def test_end_of_an_earlier_version_does_not_end_a_transaction_of_version_2() -> None:
    """It can only be meant for one from before: the first transaction after an upgrade has the epoch of the last."""
    txn = opened_2()
    with pytest.raises(InvalidTxnStateError):
        rules.ended(txn, who(txn), is_committed=True, now_ms=30)


def test_commit_of_an_earlier_version_can_be_repeated_by_version_2() -> None:
    """The Spark sink asks again from another process, perhaps after an upgrade."""
    me = who(begun())
    txn = rules.ended(rules.with_partitions(begun(), [A], 20), me, is_committed=True, now_ms=30)
    assert txn is not None
    assert ended_2(rules.completed(txn, 40), me) is None


def test_nothing_can_be_aborted_with_version_2_but_not_committed() -> None:
    """The producer does not know whether a partition was added; a new epoch it needs in any case."""
    for txn in (begun(), rules.completed(rules.fenced(opened_2(), 30), 40)):
        aborted = ended_2(txn, who(txn), is_committed=False)
        assert aborted is not None and aborted.state is State.PREPARE_ABORT and aborted.epoch == txn.epoch + 1
        with pytest.raises(InvalidTxnStateError):
            ended_2(txn, who(txn))


def test_fenced_producer_of_version_2_learns_that_it_cannot_commit_and_may_go_on() -> None:
    """Its transaction took too long; a session of somebody else would have raised the epoch once more."""
    me = who(begun())
    done = rules.completed(rules.fenced(opened_2(), 30), 40)
    with pytest.raises(InvalidTxnStateError):
        ended_2(done, me)
    assert ended_2(done, me, is_committed=False) is None and done.holder == (7, 1)
    with pytest.raises(ProducerFencedError):
        ended_2(begun(done), me, is_committed=False)


def test_last_epoch_of_version_2_brings_another_producer_id() -> None:
    txn = opened_2(begun()._replace(epoch=EPOCH_MAX - 1))
    me = who(txn)
    assert rules.end_needs_new_id(txn, me, VERSION_2)
    decided = ended_2(txn, me, new_id=8)
    assert decided is not None
    # The markers are still of the old id; the producer goes on as the next one, and has to wait.
    assert who(decided) == (7, EPOCH_MAX) and decided.holder == (8, 0)
    with pytest.raises(ConcurrentTransactionsError):
        ended_2(decided, me)
    with pytest.raises(ConcurrentTransactionsError):
        rules.check_session(decided, Identity(8, 0))
    rules.check_producer(decided, Identity(8, 0))
    read = read_entry(*entry(decided))
    assert read is not None and read[1] is not None and read[1].holder == (8, 0)
    done = rules.completed(read[1], 40)
    assert who(done) == done.holder == (8, 0)
    read = read_entry(*entry(done))
    assert read is not None and read[1] is not None
    assert ended_2(read[1], me) is None
    assert rules.with_partitions(done, [A], 50, VERSION_2).epoch == 0


def test_nobody_goes_on_in_the_epoch_that_is_left_for_fencing() -> None:
    txn = opened_2(begun()._replace(epoch=EPOCH_MAX - 1))
    done = rules.completed(rules.fenced(txn, 30), 40)
    for me in (who(txn), who(done)):
        with pytest.raises(ProducerFencedError):
            ended_2(done, me, is_committed=False)


def test_leader_adds_nothing_to_a_transaction_of_an_earlier_version() -> None:
    """A batch that is late must not get into it by that; what its producer has added is there already."""
    txn = rules.with_partitions(begun(), [A], 20)
    assert rules.with_partitions(txn, [A], 30, VERSION_2) is txn
    with pytest.raises(TransactionAbortableError):
        rules.with_partitions(txn, [B], 30, VERSION_2)
    assert rules.with_partitions(opened_2(), [B], 30, VERSION_2).partitions == {A, B}


def test_overdue_and_unused() -> None:
    txn = rules.with_partitions(begun(), [A], 20)
    assert not txn.is_overdue(1020) and txn.is_overdue(1021)
    assert not txn.is_unused(10**9, 100)
    assert begun().is_unused(110, 100) and not begun().is_unused(109, 100)


@pytest.mark.parametrize("state", [each for each in FOLLOWERS if each is not State.DEAD])
def test_what_is_written_is_what_is_read(state: State) -> None:
    partitions = frozenset({A, B}) if state is not State.EMPTY else frozenset()
    txn = Transaction("t", 7, 3, 1000, state, partitions, 20, 30)
    assert read_entry(*entry(txn)) == ("t", txn)


def test_what_is_forgotten_has_no_value() -> None:
    written = entry(rules.dead(begun(), 20))
    assert written.value is None
    assert read_entry(*written) == ("t", None)


# ---------------------------------------------------------------------------------------------------------- schedules


class Schedule:
    """One transactional id, three who want to be its producer, and a coordinator that may change."""

    def __init__(self, first_epoch: int) -> None:
        self.now_ms = 0
        self.ids = count(7)
        self.txn = rules.new("t", next(self.ids), 1000)._replace(epoch=first_epoch)
        self.clients: list[Identity | None] = [None] * 3
        self.newest: Identity | None = None
        self.given: set[Identity] = set()
        self.wish: bool | None = None
        """What the producer of the open transaction has asked for."""

    def become(self, txn: Transaction) -> None:
        before = self.txn
        assert txn.state in FOLLOWERS[before.state]
        assert txn.producer_id > before.producer_id or txn.epoch >= before.epoch
        assert txn.epoch <= EPOCH_MAX
        if before.state is State.PREPARE_COMMIT:
            assert self.wish is True
        if before.state in DECIDED or txn.state is State.EMPTY:
            self.wish = None
        self.txn = txn

    def init(self, client: int, pick: int) -> None:
        expected = self.clients[client] if pick % 2 else None
        rules.check_session(self.txn, expected)
        if self.txn.state is State.ONGOING:
            self.become(rules.fenced(self.txn, self.now_ms))
            return
        new_id = next(self.ids) if rules.needs_new_id(self.txn, expected) else None
        before = who(self.txn)
        txn = rules.session(self.txn, 1000, expected, self.now_ms, new_id)
        is_said_again = who(txn) == before
        assert is_said_again == (who(txn) in self.given)
        self.become(txn)
        self.given.add(who(txn))
        self.clients[client] = self.newest = who(txn)

    def _identity(self, client: int) -> Identity:
        identity = self.clients[client]
        if identity is None:
            raise InvalidProducerIdMappingError("it has not begun")
        rules.check_producer(self.txn, identity)
        assert identity == self.newest
        return identity

    def add(self, client: int, pick: int) -> None:
        self._identity(client)
        name = (A, B)[pick % 2]
        txn = rules.with_partitions(self.txn, [name], self.now_ms, VERSION_2 if pick > 2 else 0)
        assert name in txn.partitions
        if txn is not self.txn:
            self.become(txn)

    def end(self, client: int, pick: int) -> None:
        self._identity(client)
        identity = self.clients[client]
        assert identity is not None
        txn = rules.ended(self.txn, identity, is_committed=pick % 2 == 0, now_ms=self.now_ms)
        if txn is not None:
            self.wish = pick % 2 == 0
            self.become(txn)

    def end_with_version_2(self, client: int, pick: int) -> None:
        """Every third answer is lost."""
        identity = self.clients[client]
        if identity is None:
            raise InvalidProducerIdMappingError("it has not begun")
        rules.check_end(self.txn, identity, VERSION_2)
        new_id = next(self.ids) if rules.end_needs_new_id(self.txn, identity, VERSION_2) else NO_ID
        before = self.txn
        txn = rules.ended(
            before, identity, is_committed=pick % 2 == 0, now_ms=self.now_ms, version=VERSION_2, new_id=new_id
        )
        if txn is None:
            # It ended as is asked for now, and nothing is open.
            assert before.state in AT_REST
        else:
            assert identity == self.newest and txn.holder not in self.given
            self.wish = pick % 2 == 0
            self.become(txn)
        self.newest = self.txn.holder
        self.given.add(self.newest)
        if pick % 3:
            self.clients[client] = self.newest

    def complete(self, _: int, __: int) -> None:
        if self.txn.state in DECIDED:
            self.become(rules.completed(self.txn, self.now_ms))

    def pass_time(self, _: int, pick: int) -> None:
        self.now_ms += 300 * pick
        if self.txn.is_overdue(self.now_ms):
            self.become(rules.fenced(self.txn, self.now_ms))

    def fail_over(self, _: int, __: int) -> None:
        """Another coordinator knows what was written."""
        found = read_entry(*entry(self.txn))
        assert found is not None and found[1] is not None
        self.txn = found[1]
        assert self.txn.last_epoch == NO_EPOCH


STEPS = ("init", "add", "add", "end", "end_with_version_2", "complete", "pass_time", "fail_over")


@settings(max_examples=SCHEDULES)
@given(
    first_epoch=st.sampled_from([NO_EPOCH, EPOCH_MAX - 4]),
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2), st.integers(0, 5)), max_size=60),
)
def test_any_schedule(first_epoch: int, steps: list[tuple[str, int, int]]) -> None:
    schedule = Schedule(first_epoch)
    for step, client, pick in steps:
        try:
            getattr(schedule, step)(client, pick)
        except KafkaError:
            continue
    # Left alone, whatever is open is over after a while.
    schedule.pass_time(0, 4)
    schedule.complete(0, 0)
    assert schedule.txn.state in AT_REST
