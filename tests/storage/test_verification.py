"""The first batch of a transaction in a partition, which its coordinator is asked about."""

import pytest

from minikafka.protocol.errors import InvalidTxnStateError, OutOfOrderSequenceNumberError
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType, build_marker
from tests.storage.batches import NOW_MS
from tests.storage.producing import PID, Partition

DAY_MS = 86_400_000


@pytest.fixture
def log() -> Partition:
    return Partition()


def test_the_first_append_of_a_transaction_is_verified(log: Partition) -> None:
    batch = log.batch(0, is_txn=True)
    with pytest.raises(InvalidTxnStateError):
        log.states.check_verification(batch, None)
    token = log.states.begin_verification(PID, 0, 0, NOW_MS)
    assert token is not None
    log.states.check_verification(batch, token)
    log.data(0, is_txn=True)
    # It is open now, and nothing needs to be asked.
    assert log.states.begin_verification(PID, 0, 1, NOW_MS) is None
    log.states.check_verification(log.batch(1, is_txn=True), None)
    log.data(1, is_txn=True)
    log.marker()
    with pytest.raises(InvalidTxnStateError):
        log.states.check_verification(log.batch(2, is_txn=True), token)


def test_a_marker_in_between_voids_a_verification(log: Partition) -> None:
    old = log.states.begin_verification(PID, 0, 0, NOW_MS)
    log.marker(ControlType.ABORT)
    new = log.states.begin_verification(PID, 0, 0, NOW_MS)
    assert old is not None and new is not None
    with pytest.raises(InvalidTxnStateError):
        log.states.check_verification(log.batch(0, is_txn=True), old)
    log.states.check_verification(log.batch(0, is_txn=True), new)


def test_plain_batches_and_markers_need_no_verification(log: Partition) -> None:
    log.states.check_verification(log.batch(0), None)
    marker = build_marker(
        ControlType.ABORT, producer_id=PID, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    log.states.check_verification(BatchView(marker), None)


def test_nothing_overtakes_a_batch_that_waits(log: Partition) -> None:
    token = log.states.begin_verification(PID, 0, 5, NOW_MS)
    assert log.states.begin_verification(PID, 0, 3, NOW_MS) is token
    assert log.refused(OutOfOrderSequenceNumberError, 4, is_txn=True)
    log.data(9, pid=0)  # not the others
    # A higher epoch starts over, a lower one does not count.
    log.states.begin_verification(PID, 1, 8, NOW_MS)
    log.states.begin_verification(PID, 0, 0, NOW_MS)
    assert log.refused(OutOfOrderSequenceNumberError, 9, epoch=1, is_txn=True)
    log.data(8, epoch=1, is_txn=True)


def test_an_old_batch_that_waits_does_not_hold_up_the_next_transaction(log: Partition) -> None:
    """It was late on its way. The coordinator does not vouch for it, and it is not sent again."""
    for sequence in range(7):
        log.data(sequence, is_txn=True)
    log.marker()
    log.states.begin_verification(PID, 0, 0, NOW_MS)
    log.states.begin_verification(PID, 0, 7, NOW_MS)
    assert log.refused(OutOfOrderSequenceNumberError, 8, is_txn=True)
    log.data(7, is_txn=True)


def test_verifications_that_were_never_answered_expire(log: Partition) -> None:
    token = log.states.begin_verification(PID, 0, 0, NOW_MS)
    log.states.expire(NOW_MS + DAY_MS - 1, DAY_MS)
    log.states.check_verification(log.batch(0, is_txn=True), token)
    log.states.expire(NOW_MS + DAY_MS, DAY_MS)
    with pytest.raises(InvalidTxnStateError):
        log.states.check_verification(log.batch(0, is_txn=True), token)


def test_marker_of_version_2_takes_nothing_from_the_next_transaction(log: Partition) -> None:
    """Its epoch is that of the next one, of which the first batch may be held back already; an old one it ends."""
    held = log.states.begin_verification(PID, 1, 0, NOW_MS, has_own_epoch=True)
    log.marker(epoch=1)
    log.states.check_verification(log.batch(0, epoch=1, is_txn=True), held)
    log.marker(epoch=2)
    with pytest.raises(InvalidTxnStateError):
        log.states.check_verification(log.batch(0, epoch=1, is_txn=True), held)


def test_transaction_that_is_open_in_another_epoch_is_another_one(log: Partition) -> None:
    """With version 2 a producer goes on as soon as the end is decided, and overtakes the marker."""
    log.states.begin_verification(PID, 0, 0, NOW_MS, has_own_epoch=True)
    log.data(0, is_txn=True)
    assert log.states.begin_verification(PID, 0, 1, NOW_MS) is None
    assert log.states.begin_verification(PID, 1, 0, NOW_MS) is not None
    with pytest.raises(InvalidTxnStateError):
        log.states.check_verification(log.batch(0, epoch=1, is_txn=True), None)
