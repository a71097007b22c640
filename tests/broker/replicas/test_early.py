"""Which gaps in the numbers of a producer are excused, and for how long."""

from __future__ import annotations

import pytest

from minikafka.broker.replicas.early import PATIENCE_MS, EarlyBatches
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.layout import SEQUENCE_MASK
from minikafka.storage.producers import BatchMeta, Producer, ProducerStates
from tests.storage.batches import make_batch

PID = 7
START = 100
"""Where the leadership begins."""


def batch(sequence: int, epoch: int = 0) -> BatchView:
    return BatchView(make_batch(1, base_offset=0, producer_id=PID, producer_epoch=epoch, base_sequence=sequence))


def producer(last_sequence: int, last_offset: int, epoch: int = 0) -> Producer:
    """One whose last batch is known."""
    made = Producer()
    made.epoch = epoch
    made.batches.append(BatchMeta(last_sequence, last_offset, 0, 0))
    return made


BEFORE = producer(5, START - 1)
SINCE = producer(5, START)


def test_a_gap_is_excused_in_a_new_leadership_for_a_while() -> None:
    early = EarlyBatches()
    assert early.is_excused(batch(8), BEFORE, START, 1_000)
    assert early.is_excused(batch(7), BEFORE, START, 1_000 + PATIENCE_MS)
    assert not early.is_excused(batch(7), BEFORE, START, 1_001 + PATIENCE_MS)


def test_who_has_written_in_this_leadership_is_not_excused() -> None:
    early = EarlyBatches()
    assert not early.is_excused(batch(7), SINCE, START, 0)
    # Nor when it was before.
    assert early.is_excused(batch(7), BEFORE, START, 0)
    assert not early.is_excused(batch(9), producer(6, START), START, 0)


def test_what_comes_behind_a_batch_that_was_refused_is_excused() -> None:
    early = EarlyBatches()
    early.on_refused(batch(6), SINCE, 0)
    assert early.is_excused(batch(7), SINCE, START, PATIENCE_MS)
    early.on_refused(batch(6), SINCE, PATIENCE_MS)
    assert early.is_excused(batch(7), SINCE, START, 2 * PATIENCE_MS)
    # When that has come, another gap is one.
    assert not early.is_excused(batch(8), producer(6, START + 1), START, 2 * PATIENCE_MS)


def test_what_is_known_of_nobody_is_no_gap() -> None:
    early = EarlyBatches()
    early.on_refused(batch(6), None, 0)
    assert not early.is_excused(batch(7), None, START, 0)


def test_the_second_batch_of_a_new_producer_waits_for_its_first_in_a_new_leadership() -> None:
    early = EarlyBatches()
    early.on_elected(3, 1_000)
    assert early.is_watchful
    assert early.may_be_first(batch(0), 1_000)
    assert not early.may_be_first(batch(1), 1_000 + PATIENCE_MS)
    assert early.may_be_first(batch(1), 1_001 + PATIENCE_MS)
    assert not early.is_watchful


def test_before_the_first_leader_there_was_nobody() -> None:
    early = EarlyBatches()
    early.on_elected(0, 1_000)
    assert not early.is_watchful
    assert early.may_be_first(batch(1), 1_000)


@pytest.mark.parametrize("sequence", [0, 4, 5, 6])
def test_what_came_before_is_not_excused(sequence: int) -> None:
    """6 is what is expected, and so never out of order; the others have been written or are lost."""
    assert not EarlyBatches().is_excused(batch(sequence), BEFORE, START, 0)


def test_numbers_begin_anew_after_the_highest() -> None:
    last = producer(SEQUENCE_MASK, START - 1)
    assert EarlyBatches().is_excused(batch(1), last, START, 0)
    assert not EarlyBatches().is_excused(batch(SEQUENCE_MASK - 1), last, START, 0)


def test_a_new_epoch_begins_with_its_first_batch() -> None:
    assert EarlyBatches().is_excused(batch(3, epoch=1), BEFORE, START, 0)
    assert not EarlyBatches().is_excused(batch(0, epoch=1), BEFORE, START, 0)


def test_what_is_missing_is_forgotten_with_its_producer() -> None:
    states, early = ProducerStates(), EarlyBatches()
    states.update(batch(0))
    early.on_refused(batch(1), states.get(PID), 0)
    assert len(early) == 1
    assert states.expire(10**15, 0) == 1
    assert len(early) == 0


def test_whoever_was_refused_first_is_waited_for_and_nobody_for_ever() -> None:
    early = EarlyBatches()
    early.on_elected(0, 0)
    assert not early.is_watchful
    # One without a number has no order to keep.
    early.on_refused(BatchView(make_batch(1, base_offset=0)), None, 0)
    assert not early.is_watchful
    early.on_refused(batch(0), None, 10 * PATIENCE_MS)
    assert early.is_watchful
    assert early.may_be_first(batch(0), 11 * PATIENCE_MS)
    assert not early.may_be_first(batch(1), 11 * PATIENCE_MS)
    assert early.may_be_first(batch(1), 11 * PATIENCE_MS + 1)
