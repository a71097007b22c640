"""Producer state: sequences, fencing, transactions and the first unstable offset, by Kafka's rules."""

import pytest

from minikafka.protocol.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType
from minikafka.storage.formats import ProducerSnapshotEntry, encode_snapshot, parse_snapshot
from minikafka.storage.producers import BatchMeta, CompletedTxn, Origin, ProducerStates
from tests.storage.batches import NOW_MS, make_batch
from tests.storage.producing import PID, Partition

DAY_MS = 86_400_000
LAST_SEQUENCE = 2**31 - 1


@pytest.fixture
def log() -> Partition:
    return Partition()


# -------------------------------------------------------------------------------------- sequences


def test_sequences_follow_each_other(log: Partition) -> None:
    log.data(0, 3)
    log.data(3)
    for wrong in (3, 2, 5, 0):
        assert log.refused(OutOfOrderSequenceNumberError, wrong)
    log.data(4)


def test_the_first_batch_of_a_producer_may_have_any_sequence(log: Partition) -> None:
    log.data(55)
    assert log.refused(OutOfOrderSequenceNumberError, 0)
    log.data(56)


def test_a_new_epoch_starts_at_zero(log: Partition) -> None:
    log.data(5, epoch=1)
    assert log.refused(OutOfOrderSequenceNumberError, 6, epoch=2)
    log.data(0, epoch=2)
    assert log.refused(InvalidProducerEpochError, 1, epoch=1)
    log.data(1, epoch=2)


def test_sequences_wrap_around(log: Partition) -> None:
    log.data(LAST_SEQUENCE - 1, 4)  # ..., 2**31 - 1, 0, 1
    assert log.refused(OutOfOrderSequenceNumberError, LAST_SEQUENCE)
    assert log.states.duplicate_of(log.batch(LAST_SEQUENCE - 1, 4)) == BatchMeta(1, 3, 3, NOW_MS)
    log.data(2)
    again = Partition()
    again.data(LAST_SEQUENCE)
    again.data(0)


@pytest.mark.parametrize(("last", "delta", "first"), [(5, 2, 3), (5, 5, 0), (1, 3, LAST_SEQUENCE - 1)])
def test_first_sequence_of_a_remembered_batch(last: int, delta: int, first: int) -> None:
    meta = BatchMeta(last, 100, delta, NOW_MS)
    assert (meta.first_sequence, meta.first_offset) == (first, 100 - delta)


def test_producers_do_not_meet(log: Partition) -> None:
    log.data(0, pid=0)
    log.data(0, pid=2)
    log.data(1, pid=0)
    assert log.refused(OutOfOrderSequenceNumberError, 1, pid=0)
    assert len(log.states) == 2


def test_batches_without_a_producer(log: Partition) -> None:
    log.data(-1, 2, pid=-1, epoch=-1)
    log.data(-1, 2, pid=-1, epoch=-1)
    assert len(log.states) == 0
    assert log.states.map_end_offset == log.end == 4


@pytest.mark.parametrize("origin", [Origin.REPLICATION, Origin.COORDINATOR])
def test_only_clients_have_sequences(log: Partition, origin: Origin) -> None:
    log.data(0)
    log.data(9, origin=origin)
    log.data(-1, is_txn=True, origin=origin)


def test_replicas_take_what_the_leader_has(log: Partition) -> None:
    log.data(0, epoch=3)
    assert log.refused(InvalidProducerEpochError, 0, epoch=2, origin=Origin.COORDINATOR)
    log.data(0, epoch=2, origin=Origin.REPLICATION)
    assert log.states.snapshot()[0].producer_epoch == 2


# -------------------------------------------------------------------------------------- duplicates


def test_the_last_five_batches_are_remembered(log: Partition) -> None:
    for sequence in range(0, 14, 2):
        log.data(sequence, 2)
    for sequence in (4, 6, 8, 10, 12):
        meta = log.states.duplicate_of(log.batch(sequence, 2))
        assert meta is not None
        assert (meta.first_offset, meta.last_offset) == (sequence, sequence + 1)
    assert log.states.duplicate_of(log.batch(2, 2)) is None
    assert log.refused(OutOfOrderSequenceNumberError, 2, count=2)


def test_a_duplicate_has_the_same_ends_and_epoch(log: Partition) -> None:
    log.data(0, 4)
    assert log.states.duplicate_of(log.batch(0, 4)) is not None
    for sequence, count, epoch in [(0, 3, 0), (1, 3, 0), (2, 4, 0), (0, 4, 1)]:
        assert log.states.duplicate_of(log.batch(sequence, count, epoch=epoch)) is None
    assert log.states.duplicate_of(log.batch(0, 4, pid=8)) is None


def test_a_new_epoch_forgets_batches(log: Partition) -> None:
    log.data(0)
    log.data(0, epoch=1)
    assert log.states.duplicate_of(log.batch(0, epoch=0)) is None
    meta = log.states.duplicate_of(log.batch(0, epoch=1))
    assert meta is not None and meta.last_offset == 1


# -------------------------------------------------------------------------------------- transactions


def test_a_transaction_holds_the_first_unstable_offset(log: Partition) -> None:
    log.data(0, pid=1)
    log.data(0, is_txn=True)
    log.data(1, 5, is_txn=True)
    assert log.states.first_unstable_offset == 1
    assert log.marker() == CompletedTxn(PID, 1, 7, is_aborted=False)
    assert log.states.first_unstable_offset == 1
    log.states.on_high_watermark(7)  # the marker itself is at 7
    assert log.states.first_unstable_offset == 1
    log.states.on_high_watermark(8)
    assert log.states.first_unstable_offset is None


def test_completed_in_another_order(log: Partition) -> None:
    log.data(0, pid=1, is_txn=True)
    log.data(0, pid=2, is_txn=True)
    log.data(0, pid=3, is_txn=True)
    log.marker(pid=2)
    log.states.on_high_watermark(log.end)
    assert log.states.first_unstable_offset == 0
    log.marker(pid=1)
    assert log.states.first_unstable_offset == 0
    log.states.on_high_watermark(log.end)
    assert log.states.first_unstable_offset == 2
    log.marker(pid=3)
    log.states.on_high_watermark(log.end)
    assert log.states.first_unstable_offset is None


def test_an_unreplicated_transaction_comes_before_an_open_one(log: Partition) -> None:
    log.data(0, pid=1, is_txn=True)
    log.data(0, pid=2, is_txn=True)
    log.marker(pid=1)
    log.data(0, pid=3, is_txn=True)
    log.marker(pid=2)
    log.states.on_high_watermark(4)  # of the markers at 2 and 4 only the first
    assert log.states.first_unstable_offset == 1
    log.states.on_high_watermark(log.end)
    assert log.states.first_unstable_offset == 3


def test_the_last_stable_offset_for_the_index(log: Partition) -> None:
    log.data(0, pid=1, is_txn=True)
    log.data(0, pid=2, is_txn=True)
    aborted = CompletedTxn(1, 0, 2, is_aborted=True)
    assert log.states.last_stable_offset_of(aborted) == 1
    assert log.marker(ControlType.ABORT, pid=1) == aborted
    assert log.states.last_stable_offset_of(CompletedTxn(2, 1, 3, is_aborted=True)) == 4


def test_a_marker_without_data_completes_nothing(log: Partition) -> None:
    assert log.marker(coordinator_epoch=4) is None
    assert log.states.first_unstable_offset is None
    entry = log.states.snapshot()[0]
    assert (entry.last_sequence, entry.last_offset, entry.offset_delta, entry.coordinator_epoch) == (-1, -1, 0, 4)
    # The producer is known, so it has to start with 0.
    assert log.refused(OutOfOrderSequenceNumberError, 3)
    log.data(0)


def test_sequences_go_on_after_a_marker(log: Partition) -> None:
    log.data(0, 2, is_txn=True)
    log.marker()
    assert log.refused(OutOfOrderSequenceNumberError, 0, is_txn=True)
    log.data(2, is_txn=True)
    log.marker(epoch=1)  # the coordinator bumped the epoch
    assert log.refused(InvalidProducerEpochError, 3, is_txn=True)
    log.data(0, epoch=1, is_txn=True)


def test_no_plain_batch_inside_a_transaction(log: Partition) -> None:
    log.data(0, is_txn=True)
    assert log.refused(InvalidTxnStateError, 1)
    assert log.refused(InvalidTxnStateError, -1, origin=Origin.COORDINATOR)
    log.data(1, is_txn=True)
    log.marker()
    log.data(2)


def test_a_transaction_goes_on_in_a_new_epoch(log: Partition) -> None:
    log.data(0, is_txn=True)
    log.data(0, epoch=1, is_txn=True)
    assert log.marker(ControlType.ABORT, epoch=1) == CompletedTxn(PID, 0, 2, is_aborted=True)


def test_old_markers_are_refused(log: Partition) -> None:
    log.data(0, epoch=2, is_txn=True)
    log.marker(epoch=2, coordinator_epoch=7)
    with pytest.raises(InvalidProducerEpochError):
        log.marker(epoch=1, coordinator_epoch=7)
    with pytest.raises(TransactionCoordinatorFencedError):
        log.marker(epoch=2, coordinator_epoch=6)
    log.marker(epoch=2, coordinator_epoch=6, origin=Origin.REPLICATION)
    log.marker(epoch=3, coordinator_epoch=8)


def test_a_marker_that_compaction_has_emptied(log: Partition) -> None:
    log.data(0, is_txn=True)
    emptied = make_batch(
        [], base_offset=1, last_offset_delta=0, producer_id=PID, producer_epoch=0, base_sequence=-1, attributes=0x30
    )
    assert log.states.update(BatchView(emptied)) is None
    assert log.states.first_unstable_offset == 0
    assert log.states.map_end_offset == 2


# -------------------------------------------------------------------------------------- expiry and snapshots


def test_silent_producers_expire(log: Partition) -> None:
    # The clock is not that of the records, and begins anywhere.
    log.data(0, pid=1, now_ms=NOW_MS)
    log.data(0, pid=2, now_ms=NOW_MS - 10 * DAY_MS)
    assert log.states.expire(5, DAY_MS) == 0
    log.data(1, pid=2, now_ms=NOW_MS - 10 * DAY_MS)
    assert log.states.expire(5 + DAY_MS - 1, DAY_MS) == 0
    assert log.states.expire(5 + DAY_MS, DAY_MS) == 1
    assert [entry.producer_id for entry in log.states.snapshot()] == [2]
    log.data(9, pid=1)  # unknown again


def test_an_open_transaction_never_expires(log: Partition) -> None:
    log.data(0, is_txn=True)
    assert log.states.expire(NOW_MS, DAY_MS) == log.states.expire(NOW_MS + 10 * DAY_MS, DAY_MS) == 0
    assert log.states.first_unstable_offset == 0
    log.marker()
    # The marker counts as a sign of life.
    assert log.states.expire(NOW_MS + 10 * DAY_MS + 1, DAY_MS) == 0
    assert log.states.expire(NOW_MS + 11 * DAY_MS + 1, DAY_MS) == 1


def test_a_snapshot_and_back(log: Partition) -> None:
    log.data(0, 3, pid=1)
    log.data(3, 2, pid=1, now_ms=NOW_MS + 1)
    log.data(0, pid=2, epoch=4, is_txn=True)
    log.marker(pid=3, coordinator_epoch=9)
    entries = log.states.snapshot()
    assert entries == [
        ProducerSnapshotEntry(1, 0, 4, 4, 1, NOW_MS + 1, -1, -1),
        ProducerSnapshotEntry(2, 4, 0, 5, 0, NOW_MS, -1, 5),
        ProducerSnapshotEntry(3, 0, -1, -1, 0, NOW_MS, 9, -1),
    ]
    again = Partition()
    again.end = log.end
    again.states.map_end_offset = log.end
    again.states.load(parse_snapshot(encode_snapshot(entries)), 0)
    assert again.states.snapshot() == entries
    assert again.states.map_end_offset == log.end
    assert again.states.first_unstable_offset == 5
    # Of the batches only the last is known.
    meta = again.states.duplicate_of(again.batch(3, 2, pid=1))
    assert meta is not None and meta.first_offset == 3
    assert again.states.duplicate_of(again.batch(0, 3, pid=1)) is None
    again.data(5, pid=1)
    assert again.marker(ControlType.ABORT, pid=2, epoch=4) == CompletedTxn(2, 5, 8, is_aborted=True)


def test_loading_gives_producers_their_whole_time() -> None:
    entries = [
        ProducerSnapshotEntry(1, 0, 4, 4, 1, NOW_MS - 9 * DAY_MS, -1, -1),
        ProducerSnapshotEntry(2, 0, 4, 4, 1, NOW_MS - 9 * DAY_MS, -1, 3),
    ]
    states = ProducerStates()
    states.load(entries, 0)
    assert states.expire(NOW_MS, DAY_MS) == states.expire(NOW_MS + DAY_MS - 1, DAY_MS) == 0
    assert states.snapshot() == entries
    assert states.expire(NOW_MS + DAY_MS, DAY_MS) == 1
    assert states.snapshot() == entries[1:]


def test_loading_puts_transactions_in_order() -> None:
    entries = [ProducerSnapshotEntry(pid, 0, 0, 90 + pid, 0, NOW_MS, -1, first) for pid, first in [(1, 50), (2, 30)]]
    states = ProducerStates()
    states.load(entries, 0)
    assert states.first_unstable_offset == 30
    assert states.last_stable_offset_of(CompletedTxn(9, 0, 99, is_aborted=True)) == 30
    assert states.last_stable_offset_of(CompletedTxn(2, 30, 99, is_aborted=True)) == 50


def test_loading_starts_afresh(log: Partition) -> None:
    log.data(0, is_txn=True)
    log.marker()
    log.states.load([], 40)
    assert len(log.states) == 0
    assert log.states.first_unstable_offset is None
    assert log.states.map_end_offset == 40


def test_truncation_forgets_all(log: Partition) -> None:
    log.data(0, pid=1, is_txn=True)
    log.data(0, pid=2, is_txn=True)
    log.marker(pid=2)
    log.states.truncate_fully(100)
    assert (len(log.states), log.states.first_unstable_offset, log.states.map_end_offset) == (0, None, 100)
    log.end = 100
    log.data(0, pid=3, is_txn=True)
    assert log.states.last_stable_offset_of(CompletedTxn(3, 100, 101, is_aborted=True)) == 102
    log.marker(pid=3)
    assert log.states.first_unstable_offset == 100
    log.states.on_high_watermark(102)
    assert log.states.first_unstable_offset is None


def test_the_log_start_moves(log: Partition) -> None:
    log.data(0, is_txn=True)
    log.marker()
    log.states.on_log_start_offset(1)
    assert log.states.first_unstable_offset == 0
    log.states.on_log_start_offset(50)
    assert log.states.first_unstable_offset is None
    assert log.states.map_end_offset == 50
    log.data(1)  # producers outlive their records
