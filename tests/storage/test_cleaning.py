"""What compaction keeps and drops: keys, tombstones, transactions, producers."""

from __future__ import annotations

from sys import getsizeof
from typing import Any

import pytest

from minikafka.protocol.compression import Compression
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType, read_marker
from minikafka.protocol.records.layout import TimestampType
from minikafka.protocol.records.reader import iter_records
from minikafka.storage.formats import AbortedTxn
from minikafka.storage.log import Log
from minikafka.storage.offset_map import OffsetMap
from tests.sim.memory_disk import MemoryDisk
from tests.storage.compacting import COMPACTED, compact, keyed_batch, pairs, put, put_in_txn, read_committed
from tests.storage.logs import NOW_MS, batches_from, end_txn, open_log

DIRECTORY = "t-0"
LATER_MS = NOW_MS + COMPACTED.delete_retention_ms
"""When the delete horizon of what is cleaned now has come."""


def new_log(**changes: Any) -> Log:
    return open_log(MemoryDisk(), DIRECTORY, COMPACTED._replace(**changes))


def sealed(log: Log) -> None:
    """Have everything so far in segments that can be cleaned."""
    log.roll()
    log.update_high_watermark(log.log_end_offset)


def batches(log: Log) -> list[BatchView]:
    return batches_from(log, log.log_start_offset)


# ----------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize("compression", [*Compression])
def test_the_last_record_of_each_key_stays(compression: Compression) -> None:
    log = new_log()
    put(log, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"), timestamp_ms=NOW_MS + 50, compression=compression)
    put(log, (b"c", b"4"), (b"a", b"5"), compression=compression)
    put(log, (b"d", b"6"), compression=compression)
    sealed(log)
    before = batches(log)
    assert compact(log) == 6
    assert pairs(log) == [(1, b"b", b"2"), (3, b"c", b"4"), (4, b"a", b"5"), (5, b"d", b"6")]
    after = batches(log)
    assert [(batch.base_offset, batch.last_offset) for batch in after] == [(0, 2), (3, 4), (5, 5)]
    assert {batch.compression for batch in after} == {compression}
    # What stays whole stays as it is, byte for byte.
    assert [bytes(batch.data) for batch in after[1:]] == [bytes(batch.data) for batch in before[1:]]
    (record,) = iter_records(after[0])
    assert record == [*iter_records(before[0])][1]
    assert after[0].max_timestamp == record.timestamp_ms == NOW_MS + 51


def test_a_batch_without_records_goes() -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    sealed(log)
    compact(log)
    assert [batch.base_offset for batch in batches(log)] == [1]
    assert log.log_start_offset == 0


def test_keys_of_any_length() -> None:
    log = new_log(segment_bytes=1 << 20)
    keys = [b"k" * size for size in range(40)]
    for value in (b"old", b"new"):
        for key in keys:
            put(log, (key, value))
    sealed(log)
    compact(log)
    assert pairs(log) == [(40 + number, key, b"new") for number, key in enumerate(keys)]


def test_a_key_is_never_taken_for_the_hash_of_another() -> None:
    newest = OffsetMap()
    newest.put([b"x" * 100], [7])
    (folded,) = newest._offsets
    # What the memory for a million keys is reckoned from.
    assert getsizeof(folded) == 48
    assert newest.are_newest([folded, b"x" * 100, b"x" * 100], [1, 6, 7]) == [True, False, True]


def test_records_without_a_key_go() -> None:
    # Written before the topic was compacted.
    log = new_log(cleanup_compact=False)
    put(log, (None, b"1"), (b"", b"2"), (b"a", b"3"))
    put(log, (b"", b"4"), (None, None))
    sealed(log)
    compact(log)
    assert pairs(log) == [(2, b"a", b"3"), (3, b"", b"4")]


def test_records_above_the_end_of_the_map_stay() -> None:
    log = new_log()
    for value in (b"1", b"2", b"3"):
        put(log, (b"a", value), (b"b", value))
    put(log, (b"a", None))
    sealed(log)
    # The map is full with the first batch, which is taken in whole.
    assert compact(log, keys_max=1) == 2
    assert [offset for offset, _, _ in pairs(log)] == [*range(7)]
    # A tombstone waits from when it is cleaned, not from when it is read.
    assert not batches(log)[-1].has_delete_horizon
    assert compact(log, 2, keys_max=1) == 4
    assert [offset for offset, _, _ in pairs(log)] == [2, 3, 4, 5, 6]
    assert compact(log, 4) == 7
    assert [offset for offset, _, _ in pairs(log)] == [5, 6]


def test_only_the_dirty_part_is_asked_for_newer_records() -> None:
    log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"b", b"2"))
    sealed(log)
    # In the middle of a batch: its second record is dirty.
    compact(log, 1)
    assert pairs(log) == [(2, b"a", b"2"), (3, b"b", b"2")]
    log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"b", b"2"))
    sealed(log)
    compact(log, 3)
    assert [offset for offset, _, _ in pairs(log)] == [0, 2, 3]


def test_offsets_without_records_count_as_cleaned() -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    put(log, (b"b", None))
    sealed(log)
    for now_ms in (NOW_MS, LATER_MS, LATER_MS):
        assert compact(log, 0, now_ms) == 2
    assert pairs(log) == [(0, b"a", b"1")]


def test_the_broker_s_time_stays() -> None:
    log = new_log(timestamp_type=TimestampType.LOG_APPEND_TIME)
    put(log, (b"a", b"1"), (b"b", b"2"))
    put(log, (b"a", None))
    sealed(log)
    compact(log)
    for batch in batches(log):
        assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert [record.timestamp_ms for record in iter_records(batch)] == [NOW_MS]


# ----------------------------------------------------------------------------------------- tombstones


def test_a_tombstone_stays_until_its_delete_horizon() -> None:
    log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"c", b"1"), timestamp_ms=NOW_MS - 77)
    sealed(log)
    compact(log)
    assert pairs(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    first, second = batches(log)
    assert first.delete_horizon_ms is None
    assert second.delete_horizon_ms == LATER_MS
    assert [record.timestamp_ms for record in iter_records(second)] == [NOW_MS - 77, NOW_MS - 76]
    assert second.max_timestamp == NOW_MS - 76
    # It is set once.
    compact(log, 0, LATER_MS - 1)
    assert batches(log)[1].delete_horizon_ms == LATER_MS
    compact(log, 0, LATER_MS)
    assert pairs(log) == [(1, b"b", b"1"), (3, b"c", b"1")]
    assert batches(log)[1].delete_horizon_ms == LATER_MS
    assert [record.timestamp_ms for record in iter_records(batches(log)[1])] == [NOW_MS - 76]


def test_a_tombstone_that_is_not_the_last_goes_at_once() -> None:
    log = new_log()
    put(log, (b"a", None), (b"a", b"1"))
    sealed(log)
    compact(log)
    assert pairs(log) == [(1, b"a", b"1")]
    assert not batches(log)[0].has_delete_horizon


# ----------------------------------------------------------------------------------------- transactions


def transactions(log: Log) -> list[AbortedTxn]:
    return log.aborted_transactions(0, log.log_end_offset)


def markers(log: Log) -> list[tuple[int, bool]]:
    """Offsets of the control batches, and whether each has a delete horizon."""
    return [(batch.base_offset, batch.has_delete_horizon) for batch in batches(log) if batch.is_control]


def test_aborted_records_go_and_their_marker_follows() -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    put_in_txn(log, 7, 0, (b"a", b"2"), (b"b", b"2"))
    end_txn(log, 7, ControlType.ABORT)
    put_in_txn(log, 7, 2, (b"c", b"3"))
    end_txn(log, 7, ControlType.COMMIT)
    put_in_txn(log, 7, 3, (b"d", b"4"))
    end_txn(log, 7, ControlType.COMMIT)
    sealed(log)
    aborted = [AbortedTxn(7, 1, 3, 4)]
    assert transactions(log) == aborted

    compact(log)
    assert [key for _, key, _ in pairs(log)] == [b"a", b"c", b"d"]
    # There were records of it when this round began.
    assert markers(log) == [(3, False), (5, False), (7, False)]
    assert transactions(log) == aborted

    compact(log, 0)
    assert markers(log) == [(3, True), (5, False), (7, False)]
    assert transactions(log) == []
    marker = read_marker(next(batch for batch in batches(log) if batch.is_control))
    assert marker is not None and marker.type is ControlType.ABORT

    compact(log, 0, LATER_MS - 1)
    assert markers(log) == [(3, True), (5, False), (7, False)]
    compact(log, 0, LATER_MS)
    assert markers(log) == [(5, False), (7, False)]
    assert [record.value for record in read_committed(log, 0)] == [b"1", b"3", b"4"]


def test_a_commit_marker_stays_as_long_as_its_records() -> None:
    log = new_log()
    put_in_txn(log, 7, 0, (b"a", b"1"))
    end_txn(log, 7, ControlType.COMMIT)
    sealed(log)
    compact(log)
    compact(log, 0, LATER_MS)
    assert markers(log) == [(1, False)]
    put_in_txn(log, 7, 1, (b"a", b"2"))
    end_txn(log, 7, ControlType.COMMIT)
    sealed(log)
    compact(log, 0, LATER_MS)
    compact(log, 0, LATER_MS)
    assert markers(log) == [(1, True), (3, False)]
    compact(log, 0, LATER_MS + COMPACTED.delete_retention_ms)
    assert markers(log) == [(3, False)]


def test_an_aborted_record_does_not_take_the_place_of_another() -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    put_in_txn(log, 7, 0, (b"a", b"2"))
    put_in_txn(log, 8, 0, (b"b", b"2"))
    end_txn(log, 7, ControlType.ABORT)
    end_txn(log, 8, ControlType.COMMIT)
    sealed(log)
    compact(log)
    assert [value for _, _, value in pairs(log)] == [b"1", b"2"]


def test_a_transaction_that_ended_before_the_dirty_part_is_over() -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    put_in_txn(log, 7, 0, (b"x", b"2"))
    end_txn(log, 7, ControlType.ABORT)
    put_in_txn(log, 7, 1, (b"a", b"3"))
    end_txn(log, 7, ControlType.COMMIT)
    sealed(log)
    compact(log, 3)
    assert pairs(log) == [(3, b"a", b"3")]


def test_a_transaction_that_ends_above_what_is_cleaned() -> None:
    log = new_log(segment_bytes=1 << 20)
    put_in_txn(log, 7, 0, (b"a", b"1"))
    put_in_txn(log, 8, 0, (b"b", b"1"))
    sealed(log)
    put(log, (b"c", b"1"))
    end_txn(log, 7, ControlType.ABORT)
    end_txn(log, 8, ControlType.COMMIT)
    log.update_high_watermark(log.log_end_offset)
    compact(log)
    assert [key for _, key, _ in pairs(log)] == [b"b", b"c"]
    assert transactions(log) == [AbortedTxn(7, 0, 3, 1)]
    sealed(log)
    # As long as it is the last of its producer, the batch is there, and so are marker and index.
    compact(log, 0)
    assert transactions(log) == [AbortedTxn(7, 0, 3, 1)]
    log.producers.expire(NOW_MS, 0)
    compact(log, 0)
    compact(log, 0)
    assert transactions(log) == []
    assert [record.key for record in read_committed(log, 0)] == [b"b", b"c"]


def test_an_open_transaction_holds_up_cleaning() -> None:
    log = new_log(segment_bytes=80)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    put_in_txn(log, 7, 0, (b"a", b"3"))
    put(log, (b"a", b"4"))
    put(log, (b"b", b"1"))
    assert compact(log) == 2
    assert [value for _, _, value in pairs(log)] == [b"2", b"3", b"4", b"1"]


# ----------------------------------------------------------------------------------------- producers


def idempotent(log: Log, sequence: int, value: bytes, compression: Compression = Compression.NONE) -> None:
    batch = keyed_batch((b"a", value), (b"a", value), producer_id=7, sequence=sequence, compression=compression)
    log.append_as_leader(batch, 0, NOW_MS)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_the_last_batch_of_a_producer_stays_without_records(compression: Compression) -> None:
    log = new_log()
    idempotent(log, 0, b"1", compression)
    idempotent(log, 2, b"2", compression)
    put(log, (b"a", b"3"))
    sealed(log)
    stays = batches(log)[1]
    compact(log)
    empty, last = batches(log)
    assert (empty.base_offset, empty.last_offset, empty.record_count, empty.size) == (2, 3, 0, 61)
    assert (empty.producer_id, empty.base_sequence, empty.last_sequence) == (7, 2, 3)
    assert (empty.max_timestamp, empty.base_timestamp, empty.attributes) == (stays.max_timestamp, -1, 0)
    assert last.base_offset == 4
    # Once more there is nothing to do, until the producer has written something else.
    compact(log, 0)
    assert [batch.record_count for batch in batches(log)] == [0, 1]
    idempotent(log, 4, b"5")
    sealed(log)
    compact(log, 0)
    assert [batch.base_offset for batch in batches(log)] == [5]


def test_a_marker_that_is_all_there_is_of_a_producer_stays() -> None:
    log = new_log()
    put_in_txn(log, 7, 0, (b"a", b"1"))
    end_txn(log, 7, ControlType.ABORT)
    put(log, (b"b", b"1"))
    sealed(log)
    producer = log.producers.get(7)
    assert producer is not None
    # As after a marker with a higher epoch: what was written before no longer counts.
    producer.batches.clear()
    for now_ms in (NOW_MS, NOW_MS, LATER_MS, LATER_MS):
        compact(log, 0, now_ms)
    empty, last = batches(log)
    assert (empty.is_control, empty.record_count, empty.producer_id, empty.base_offset) == (True, 0, 7, 1)
    assert last.base_offset == 2
    log.producers.expire(NOW_MS, 0)
    compact(log, 0, LATER_MS)
    assert [batch.base_offset for batch in batches(log)] == [2]
