"""Transactions on one broker: to their end, through changes of leaders between any two steps, and refused ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from minikafka.broker.coordinators.transactions.states import State
from minikafka.broker.coordinators.verifying import TxnMember
from minikafka.broker.internal_topics import GROUP_OFFSETS, TRANSACTION_STATE
from minikafka.broker.network.connection import Connection
from minikafka.protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    ErrorCode,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    NotCoordinatorError,
    ProducerFencedError,
    TransactionalIdNotFoundError,
)
from minikafka.protocol.messages.transactions import AddOffsetsToTxnRequest, EndTxnRequest
from minikafka.protocol.records.batch import BatchView
from tests.broker.coordinators.txn_bench import TxnBench, txn_bench
from tests.broker.eventually import eventually

ABORTED, COMMITTED = False, True


@pytest.fixture
async def bench() -> AsyncIterator[TxnBench]:
    async with txn_bench() as made:
        await made.lead()
        yield made


async def test_committed(bench: TxnBench) -> None:
    who = await bench.begin()
    await bench.add(who)
    assert await bench.produce(who) == ErrorCode.NONE
    assert not bench.is_stable
    await bench.end(who)
    await bench.wait_state(State.COMPLETE_COMMIT)
    assert bench.is_stable
    assert bench.partition("t").log.aborted_transactions(0, 10) == []


async def test_aborted(bench: TxnBench) -> None:
    who = await bench.begin()
    await bench.add(who)
    assert await bench.produce(who) == ErrorCode.NONE
    await bench.end(who, is_committed=ABORTED)
    await bench.wait_state(State.COMPLETE_ABORT)
    assert bench.is_stable
    (aborted,) = bench.partition("t").log.aborted_transactions(0, 10)
    assert (aborted.producer_id, aborted.first_offset) == (who.producer_id, 0)


async def test_several_in_turn_go_on_counting(bench: TxnBench) -> None:
    who = await bench.begin()
    for sequence in range(5):
        await bench.add(who)
        assert await bench.produce(who, sequence) == ErrorCode.NONE
        await bench.end(who)
    await bench.wait_state(State.COMPLETE_COMMIT)
    assert bench.is_stable and bench.partition("t").log.log_end_offset == 10


# --------------------------------------------------------------------------------------- another coordinator or leader


@pytest.mark.parametrize("topic", [TRANSACTION_STATE, GROUP_OFFSETS, "t"])
@pytest.mark.parametrize("is_committed", [COMMITTED, ABORTED])
async def test_leaders_change_between_all_steps(bench: TxnBench, topic: str, is_committed: bool) -> None:
    async def change() -> None:
        await bench.lead(topic, leader=2)
        await bench.lead(topic)

    who = await bench.begin()
    await change()
    await bench.add(who, "t", GROUP_OFFSETS)
    await change()
    assert await bench.produce(who) == ErrorCode.NONE
    await change()
    assert await bench.produce(who, 1) == ErrorCode.NONE
    assert await bench.commit_offset(who, 7) == ErrorCode.NONE
    await change()
    assert await bench.committed_offset() == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert await bench.committed_offset(is_stable=False) == -1
    await bench.end(who, is_committed=is_committed)
    await change()
    await bench.wait_state(State.COMPLETE_COMMIT if is_committed else State.COMPLETE_ABORT)
    await change()
    assert bench.is_stable
    assert await bench.committed_offset() == (7 if is_committed else -1)


async def test_what_is_decided_is_done_by_the_next_coordinator(bench: TxnBench) -> None:
    """The leader of the data is away when it is decided, and the coordinator before it is back."""
    who = await bench.begin()
    await bench.add(who)
    assert await bench.produce(who) == ErrorCode.NONE
    await bench.lead("t", leader=2)
    await bench.end(who)
    await bench.lead(TRANSACTION_STATE, leader=2)
    with pytest.raises(NotCoordinatorError):
        bench.transactions.describe("x")
    await bench.lead("t", TRANSACTION_STATE)
    await bench.wait_state(State.COMPLETE_COMMIT)
    assert bench.is_stable


async def test_a_partition_that_is_deleted_needs_no_marker(bench: TxnBench) -> None:
    who = await bench.begin()
    await bench.transactions.add_partitions("x", who, [("gone", 0), ("t", 0)])
    await bench.end(who)
    await bench.wait_state(State.COMPLETE_COMMIT)


async def test_nothing_holds_before_all_replicas_have_it(bench: TxnBench) -> None:
    who = await bench.begin()
    await bench.lead(TRANSACTION_STATE, replicas=(1, 2))
    adding = asyncio.create_task(bench.add(who))
    await eventually(lambda: bench.transactions.shards.of("x").is_changing("x"))
    with pytest.raises(ConcurrentTransactionsError):
        await bench.end(who)
    states = [bench.state]
    bench.follow(TRANSACTION_STATE, 2)
    await adding
    assert [*states, bench.state] == [State.EMPTY, State.ONGOING]


async def test_what_takes_too_long_is_not_known_and_holds_later(bench: TxnBench) -> None:
    who = await bench.begin()
    await bench.add(who)
    await bench.lead(TRANSACTION_STATE, replicas=(1, 2))
    bench.follow(TRANSACTION_STATE, 2)
    with pytest.raises(CoordinatorNotAvailableError):
        await bench.end(who)
    assert bench.state is State.ONGOING
    # It is in the log: the opposite must not be decided now.
    with pytest.raises(ConcurrentTransactionsError):
        await bench.end(who, is_committed=ABORTED)
    bench.follow(TRANSACTION_STATE, 2)
    await eventually(lambda: bench.state is not State.ONGOING)
    assert bench.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)


async def test_offsets_can_be_added_before_there_is_a_topic_for_them() -> None:
    async with txn_bench(offsets_topic_num_partitions="1") as bench:
        await bench.lead(TRANSACTION_STATE, "t")
        who = await bench.begin()
        asked = AddOffsetsToTxnRequest(
            transactional_id="x", producer_id=who.producer_id, producer_epoch=who.epoch, group_id="g"
        )
        assert (await bench.station.ask(asked, 3)).error_code == ErrorCode.NONE
        await bench.lead(GROUP_OFFSETS)
        assert await bench.commit_offset(who, 7) == ErrorCode.NONE
        await bench.end(who)
        await bench.wait_state(State.COMPLETE_COMMIT)
        assert await bench.committed_offset() == 7


# -------------------------------------------------------------------------------------------------- fencing, timeouts


async def test_a_second_producer_fences_the_first(bench: TxnBench) -> None:
    first = await bench.begin()
    await bench.add(first)
    assert await bench.produce(first) == ErrorCode.NONE
    with pytest.raises(ConcurrentTransactionsError):
        await bench.begin()
    await bench.wait_state(State.COMPLETE_ABORT)
    second = await bench.begin()
    assert second.producer_id == first.producer_id and second.epoch == first.epoch + 2
    for refused in (bench.add(first), bench.end(first)):
        with pytest.raises(ProducerFencedError):
            await refused
    assert await bench.produce(first, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.is_stable


async def test_what_takes_too_long_is_aborted(bench: TxnBench) -> None:
    who = await bench.begin(timeout_ms=1000)
    await bench.add(who)
    assert await bench.produce(who) == ErrorCode.NONE
    now_ms = bench.station.context.clock.wall_ms()
    bench.transactions.abort_overdue(now_ms + 900)
    assert bench.state is State.ONGOING
    bench.transactions.abort_overdue(now_ms + 1100)
    await bench.wait_state(State.COMPLETE_ABORT)
    assert bench.is_stable
    with pytest.raises(ProducerFencedError):
        await bench.end(who)


async def test_unused_ids_are_forgotten_for_good(bench: TxnBench) -> None:
    await bench.begin()
    now_ms = bench.station.context.clock.wall_ms()
    bench.transactions.expire(now_ms, 1000)
    assert bench.state is State.EMPTY
    bench.transactions.expire(now_ms + 2000, 1000)
    await bench.lead(TRANSACTION_STATE)
    with pytest.raises(TransactionalIdNotFoundError):
        bench.transactions.describe("x")


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
async def test_timeouts_have_limits(bench: TxnBench, timeout_ms: int) -> None:
    with pytest.raises(InvalidTransactionTimeoutError):
        await bench.begin(timeout_ms=timeout_ms)


# ---------------------------------------------------------------------------------------------------------- late ones


@pytest.mark.parametrize(
    ("version", "error"), [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
async def test_a_batch_after_the_end_opens_nothing(bench: TxnBench, version: int, error: ErrorCode) -> None:
    who = await bench.begin()
    await bench.add(who)
    await bench.end(who, is_committed=ABORTED)
    await bench.wait_state(State.COMPLETE_ABORT)
    assert await bench.produce(who, version=version) == error
    assert bench.is_stable


async def test_an_answer_about_the_last_transaction_opens_no_other(bench: TxnBench) -> None:
    """The marker is written between the question and the append."""
    who = await bench.begin()
    await bench.add(who)
    member = TxnMember("x", who.producer_id, who.epoch)
    verification = bench.all.verifier.begin(member, bench.partition("t"))
    assert await bench.all.verifier.ask(member, [("t", 0)]) == {("t", 0): None}
    await bench.end(who, is_committed=ABORTED)
    await bench.wait_state(State.COMPLETE_ABORT)
    with pytest.raises(InvalidTxnStateError):
        bench.partition("t").append(BatchView(bench.batch(who)), 1, 1, verification=verification)


async def test_offsets_after_the_end_are_refused(bench: TxnBench) -> None:
    who = await bench.begin()
    await bench.add(who, GROUP_OFFSETS)
    await bench.end(who)
    await bench.wait_state(State.COMPLETE_COMMIT)
    assert await bench.commit_offset(who, 7) == ErrorCode.INVALID_TXN_STATE
    assert await bench.commit_offset(who, 7, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    assert await bench.committed_offset() == -1


async def test_a_late_end_does_not_end_the_next_transaction(bench: TxnBench) -> None:
    """Its producer gave up waiting, asked again over another connection, and has begun anew."""
    who = await bench.begin()
    old, new = _connection(bench, 1), _connection(bench, 2)
    end = EndTxnRequest(transactional_id="x", producer_id=who.producer_id, producer_epoch=who.epoch, committed=True)
    await bench.transactions.add_partitions("x", who, [("t", 0)], connection=1)
    assert (await bench.station.ask(end, 3, new)).error_code == ErrorCode.NONE
    await bench.wait_state(State.COMPLETE_COMMIT)
    await bench.transactions.add_partitions("x", who, [("t", 0)], connection=2)
    with pytest.raises(AssertionError):
        # There is no answer.
        await bench.station.ask(end, 3, old)
    assert bench.state is State.ONGOING
    assert (await bench.station.ask(end, 3, new)).error_code == ErrorCode.NONE


def _connection(bench: TxnBench, number: int) -> Connection:
    made = bench.station.another_connection()
    made.number = number
    return made
