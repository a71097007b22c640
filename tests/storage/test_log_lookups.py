"""Finding things in a log when its files lie, its disk fails, or a producer has sent nonsense."""

import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random
from struct import Struct

import pytest

from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType
from minikafka.storage.disk import RealDisk
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.log import Log
from minikafka.storage.trimming import truncate_to
from tests.sim.memory_disk import MemoryDisk
from tests.storage.batches import make_batch
from tests.storage.logs import (
    COMPACTED,
    NOW_MS,
    SMALL,
    append,
    append_in_txn,
    batches_from,
    contents,
    drop_below,
    edit,
    end_txn,
    filled,
    flush,
    follow,
    largest,
    open_log,
    read,
    record_at,
)

# ------------------------------------------------------------------------------------------- indexes


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("harm", [b"", b"\0" * 96, b"\xa5" * 96, b"\0\0\0\x05" * 24, b"\x01"])
def test_a_clean_start_with_bad_indexes(folder: str, suffix: str, harm: bytes) -> None:
    log = filled(folder)
    expected = contents(log)
    log.close()
    for segment in log.segments:
        Path(segment.path(suffix)).write_bytes(harm)
    again = open_log(RealDisk(), folder, is_clean=True)
    assert contents(again) == expected
    for number in range(60):
        assert record_at(again, NOW_MS + number) == (NOW_MS + number, number, 0)
    assert largest(again) == (NOW_MS + 59, 59, 0)
    append(again, b"more", timestamp_ms=NOW_MS + 60)
    truncate_to(again, 3, NOW_MS)
    assert contents(again) == expected[:3]


def test_the_last_timestamp_has_a_place_in_a_full_index(folder: str) -> None:
    """Batches come from a leader many at a time, and each may want an entry."""
    config = SMALL._replace(segment_bytes=1 << 20, segment_index_bytes=60, index_interval_bytes=1)
    log = open_log(RealDisk(), folder, config)
    records = [make_batch(1, base_offset=at, leader_epoch=0, timestamps=[NOW_MS + at]) for at in range(20)]
    log.append_as_follower(bytearray().join(records), NOW_MS)
    log.roll()
    log.close()
    again = open_log(RealDisk(), folder, config, is_clean=True)
    assert largest(again) == (NOW_MS + 19, 19, 0)
    assert record_at(again, NOW_MS + 19) == (NOW_MS + 19, 19, 0)


def test_an_index_that_is_older_than_its_segment() -> None:
    """Sealed, on disk, written to again, synced, rolled: the entries that came last are not on disk yet."""
    disk = MemoryDisk()
    config = SMALL._replace(segment_bytes=1 << 20)
    log = open_log(disk, "p-0", config)
    for number in range(20):
        append(log, b"%d" % number, timestamp_ms=NOW_MS + number)
    log.close()
    disk.settle()
    log = open_log(disk, "p-0", config, is_clean=True)
    for number in range(20, 40):
        append(log, b"%d" % number, timestamp_ms=NOW_MS + number)
    flush(log)
    log.roll()
    for image in disk.power_cut_images(Random(1), 60):
        again = open_log(image, "p-0", config, recovery_point=log.recovery_point)
        for number in range(40):
            assert record_at(again, NOW_MS + number) == (NOW_MS + number, number, 0)


def test_rolling_does_not_wait_for_the_disk() -> None:
    disk = MemoryDisk()
    log = open_log(disk, "p-0")
    at = disk.op_count
    for number in range(40):
        append(log, b"%d" % number)
    assert len(log.segments) > 2
    assert not {"sync", "flush", "fsync_dir"} & {op.kind for op in disk.ops[at:]}
    flush(log)
    sealed = next(iter(log.segments))
    synced = {(op.kind, op.path) for op in disk.ops[at:]}
    for suffix in (".index", ".timeindex"):
        assert {("sync", sealed.path(suffix)), ("flush", sealed.path(suffix))} <= synced


def test_a_segment_that_is_rolled_when_all_of_it_was_synced() -> None:
    disk = MemoryDisk()
    log = open_log(disk, "p-0", SMALL._replace(segment_bytes=1 << 20))
    for number in range(20):
        append(log, b"%d" % number)
    flush(log)
    log.roll()
    at = disk.op_count
    flush(log)
    sealed = log.segments.first
    assert {sealed.path(".index"), sealed.path(".timeindex")} <= {op.path for op in disk.ops[at:] if op.kind == "sync"}


def test_offsets_that_do_not_grow(folder: str) -> None:
    """The base offset is not under the CRC: a flipped bit there is found by comparing."""
    log = filled(folder)
    log.close()
    victim = log.segments.first
    batches = list(victim.batches())
    victim.close()
    edit(victim.path(".log"), batches[5].position, Struct(">q").pack(2))
    Path(victim.path(".index")).write_bytes(b"")
    Path(victim.path(".timeindex")).write_bytes(b"")
    again = open_log(RealDisk(), folder, is_clean=True)
    with pytest.raises(CorruptLog, match="offset"):
        contents(again)
    edit(victim.path(".log"), batches[5].position, Struct(">q").pack(1 << 40))
    Path(victim.path(".timeindex")).write_bytes(b"")
    assert record_at(open_log(RealDisk(), folder, is_clean=True), NOW_MS + 3) == (NOW_MS + 3, 3, 0)


def test_offsets_too_far_apart_for_one_segment(folder: str) -> None:
    log = open_log(RealDisk(), folder, COMPACTED)
    offsets = [5 << 31, (5 << 31) + 1, 7 << 31, (7 << 31) + 1, 9 << 31]
    follow(log, *offsets)
    follow(log, *[offset + (10 << 31) for offset in offsets])
    found = [batch.base_offset for batch in batches_from(log, 0)]
    assert found == offsets + [offset + (10 << 31) for offset in offsets]
    assert [batch.base_offset for batch in batches_from(open_log(RealDisk(), folder, COMPACTED), 0)] == found


# ------------------------------------------------------------------------------------------- reading


def test_a_read_at_the_start_opens_no_more_than_it_needs() -> None:
    disk = MemoryDisk()
    log = open_log(disk, "p-0")
    for number in range(200):
        append(log, b"%d" % number)
    log.close()
    log = open_log(disk, "p-0", is_clean=True)
    assert len(log.segments) > 10
    at = disk.op_count
    read(log, 0)
    assert len({op.path for op in disk.ops[at:] if op.path.endswith(".log")}) <= 2


READS: list[Callable[[Log], object]] = [
    lambda log: bytes(read(log, 3)),
    lambda log: bytes(log.plan_read(3, 100, 50).run_nowait()),
    lambda log: record_at(log, NOW_MS + 3),
    largest,
    lambda log: log.aborted_transactions(0, 50),
]


@pytest.mark.parametrize("read_it", READS)
def test_failing_reads_are_storage_errors(read_it: Callable[[Log], object]) -> None:
    disk = MemoryDisk()
    log = open_log(disk, "p-0")
    for number in range(30):
        append(log, b"%d" % number, timestamp_ms=NOW_MS + number)
    append_in_txn(log, 7, 0, b"one")
    end_txn(log, 7, ControlType.ABORT)
    right = read_it(log)
    log.close()
    for nth in itertools.count(1):
        log = open_log(disk, "p-0", is_clean=True)
        at = disk.op_count
        disk.fail(nth)
        try:
            assert read_it(log) == right
        except StorageError as error:
            assert "p-0" in str(error)
        disk.heal()
        assert read_it(log) == right
        if disk.op_count - at < nth:
            break
    assert nth > 3


def test_records_that_cannot_be_read_can_be_found_by_time(folder: str) -> None:
    """The CRC is right, so nobody has looked inside; the header has to do."""
    log = open_log(RealDisk(), folder)
    append(log, b"good", timestamp_ms=NOW_MS)
    bad = make_batch(2, payload=b"\xff" * 20, timestamps=[NOW_MS + 5, NOW_MS + 5])
    log.append_as_leader(BatchView(bad), 0, NOW_MS)
    append(log, b"good", timestamp_ms=NOW_MS + 9)
    assert record_at(log, NOW_MS + 5) == (NOW_MS + 5, 1, 0)
    assert record_at(log, NOW_MS + 6) == (NOW_MS + 9, 3, 0)
    truncate_to(log, 3, NOW_MS)
    assert largest(log) == (NOW_MS + 5, 1, 0)


def test_a_header_that_claims_a_later_time_than_its_records(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    append(log, b"good", timestamp_ms=NOW_MS)
    lying = make_batch(2, timestamps=[NOW_MS + 1, NOW_MS + 2], max_timestamp=NOW_MS + 50)
    log.append_as_leader(BatchView(lying), 0, NOW_MS)
    assert largest(log) == (NOW_MS + 2, 2, 0)
    assert record_at(log, NOW_MS + 3) is None


def test_the_largest_timestamp_is_one_that_can_be_read(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    for number, stamp in enumerate((1, 9, 5, 7, 3)):
        append(log, b"%d" % number, timestamp_ms=NOW_MS + stamp)
    assert largest(log) == (NOW_MS + 9, 1, 0)
    drop_below(log, 2)
    assert largest(log) == (NOW_MS + 7, 3, 0)
    log.roll()
    append(log, b"6", timestamp_ms=NOW_MS + 6)
    assert largest(log) == (NOW_MS + 7, 3, 0)
    drop_below(log, 4)
    assert largest(log) == (NOW_MS + 6, 5, 0)
    drop_below(log, 6)
    assert largest(log) is None


def test_an_open_transaction_whose_start_was_deleted(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    append_in_txn(log, 5, 0, b"one")
    append(log, b"two")
    append(log, b"three")
    log.update_high_watermark(3)
    drop_below(log, 2)
    assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark
    assert log.last_stable_offset == 2
