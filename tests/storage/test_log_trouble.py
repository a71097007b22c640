"""A log in trouble: crashes at bad moments, files that lie, disks that fail, peers that send nonsense."""

import errno
import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random
from struct import Struct
from typing import Any

import pytest

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import RealDisk
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.log import Log
from minikafka.storage.timestamps import FoundRecord
from minikafka.storage.trimming import advance_log_start, truncate_to
from tests.sim.memory_disk import MemoryDisk
from tests.storage.batches import make_batch
from tests.storage.logs import (
    NOW_MS,
    SMALL,
    append,
    append_in_txn,
    batches_from,
    contents,
    end_txn,
    flush,
    open_log,
    read,
)

COMPACTED = SMALL._replace(cleanup_compact=True)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "orders-0")


def filled(folder: str, count: int = 60, config: LogConfig = SMALL) -> Log:
    log = open_log(RealDisk(), folder, config)
    for number in range(count):
        append(log, b"%d" % number, timestamp_ms=NOW_MS + number)
    return log


def follow(log: Log, *bases: int, epoch: int = 0, **fields: Any) -> None:
    """Append one-record batches at the offsets given, as a leader sends them."""
    records = b"".join(make_batch(1, base_offset=base, leader_epoch=epoch, **fields) for base in bases)
    log.append_as_follower(bytearray(records), NOW_MS)


def record_at(log: Log, timestamp: int) -> FoundRecord | None:
    return next((found for plan in log.plan_timestamp(timestamp) if (found := plan.run()) is not None), None)


def largest(log: Log) -> FoundRecord | None:
    plan = log.plan_largest_timestamp()
    return None if plan is None else plan.run()


def edit(path: str | Path, at: int, data: bytes) -> None:
    whole = bytearray(Path(path).read_bytes())
    whole[at : at + len(data)] = data
    Path(path).write_bytes(whole)


# -------------------------------------------------------------------------------------------- epochs


def test_epochs_after_a_crash_are_those_of_the_batches(folder: str) -> None:
    """The file says that an epoch starts where a truncation has put batches of an earlier epoch."""
    log = open_log(RealDisk(), folder)
    follow(log, *range(20), epoch=4)
    follow(log, *range(20, 30), epoch=5)
    log.write_epochs()
    truncate_to(log, 20, NOW_MS)
    follow(log, *range(20, 40), epoch=4)
    again = open_log(RealDisk(), folder)
    assert again.epochs.entries() == [(4, 0)]


def test_epochs_found_in_the_batches_get_into_the_file(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    follow(log, *range(5), epoch=3)
    log.write_epochs()
    follow(log, *range(5, 10), epoch=7)
    again = open_log(RealDisk(), folder)
    follow(again, *range(10, 60), epoch=7)
    flush(again)
    third = open_log(RealDisk(), folder, recovery_point=again.recovery_point)
    assert third.epochs.entries() == [(3, 0), (7, 5)]


@pytest.mark.parametrize("data", [b"", b"0\n", b"0\n3\n", b"1" * (65 << 20)])
def test_a_bad_file_of_epochs_is_not_believed(folder: str, data: bytes) -> None:
    log = open_log(RealDisk(), folder)
    follow(log, *range(30), epoch=3)
    follow(log, *range(30, 60), epoch=7)
    flush(log)
    (Path(folder) / "leader-epoch-checkpoint").write_bytes(data)
    again = open_log(RealDisk(), folder, recovery_point=log.recovery_point)
    assert again.epochs.entries() == [(3, 0), (7, 30)]


# ---------------------------------------------------------------------------------------- recovering


def test_no_hole_where_a_segment_was_lost(folder: str) -> None:
    """A file system may have brought a later file to disk before an earlier one."""
    log = filled(folder)
    second, third = list(log.segments)[1:3]
    Path(second.path(".log")).write_bytes(b"")
    again = open_log(RealDisk(), folder)
    assert again.log_end_offset == second.base_offset
    assert contents(again) == [(number, b"%d" % number) for number in range(second.base_offset)]
    assert not Path(third.path(".log")).exists()


def test_a_segment_file_that_is_missing_altogether(folder: str) -> None:
    log = filled(folder)
    second = list(log.segments)[1]
    Path(second.path(".log")).unlink()
    assert open_log(RealDisk(), folder).log_end_offset == second.base_offset


def test_holes_of_compaction_stay(folder: str) -> None:
    log = open_log(RealDisk(), folder, COMPACTED)
    offsets = [base * 3 for base in range(60)]
    follow(log, *offsets)
    assert len(log.segments) > 2
    again = open_log(RealDisk(), folder, COMPACTED)
    assert [batch.base_offset for batch in batches_from(again, 0)] == offsets
    assert again.log_end_offset == log.log_end_offset


def test_holes_below_the_recovery_point_stay(folder: str) -> None:
    """Compaction may have been switched off since."""
    log = open_log(RealDisk(), folder, COMPACTED)
    follow(log, *[base * 3 for base in range(10)])
    flush(log)
    follow(log, *range(28, 33))
    again = open_log(RealDisk(), folder, recovery_point=log.recovery_point)
    assert again.log_end_offset == 33


def test_a_torn_tail_is_gone_for_good_before_anything_is_written_in_its_place() -> None:
    disk = MemoryDisk()
    log = open_log(disk, "p-0")
    for number in range(40):
        append(log, b"%d" % number)
    victim = list(log.segments)[1]
    victim.file.truncate(victim.size - 3)
    disk.process_died()
    at = disk.op_count
    open_log(disk, "p-0")
    kinds = [op.kind for op in disk.ops[at:] if op.path == victim.path(".log") or op.kind == "fsync_dir"]
    assert kinds.index("fsync_dir") < kinds.index("truncate") < kinds.index("sync")


def test_a_marker_without_its_record(folder: str) -> None:
    """Compaction leaves such batches."""
    log = open_log(RealDisk(), folder, COMPACTED)
    empty = make_batch([], attributes=0x30, last_offset_delta=0, producer_id=5, producer_epoch=0)
    log.append_as_follower(empty, NOW_MS)
    assert open_log(RealDisk(), folder, COMPACTED).log_end_offset == 1


def test_a_marker_that_is_none(folder: str) -> None:
    log = open_log(RealDisk(), folder, COMPACTED)
    with pytest.raises(CorruptRecord):
        follow(log, 0, attributes=0x30, producer_id=5, producer_epoch=0)
    assert log.log_end_offset == 0
    path = log.segments.active.path(".log")
    log.close()
    Path(path).write_bytes(make_batch(1, attributes=0x30, producer_id=5, producer_epoch=0))
    with pytest.raises(CorruptLog):
        open_log(RealDisk(), folder, COMPACTED)


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
    advance_log_start(log, 2)
    assert largest(log) == (NOW_MS + 7, 3, 0)
    log.roll()
    append(log, b"6", timestamp_ms=NOW_MS + 6)
    assert largest(log) == (NOW_MS + 7, 3, 0)
    advance_log_start(log, 4)
    assert largest(log) == (NOW_MS + 6, 5, 0)
    advance_log_start(log, 6)
    assert largest(log) is None


def test_an_open_transaction_whose_start_was_deleted(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    append_in_txn(log, 5, 0, b"one")
    append(log, b"two")
    append(log, b"three")
    log.update_high_watermark(3)
    advance_log_start(log, 2)
    assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark
    assert log.last_stable_offset == 2


# ------------------------------------------------------------------------------------------- cutting


@pytest.mark.parametrize("flaw", [b"\x01" * 34, b"\x00" * 33, b"\xff" * 68])
def test_cutting_with_a_bad_index_of_transactions(folder: str, flaw: bytes) -> None:
    log = open_log(RealDisk(), folder)
    for number in range(12):
        append_in_txn(log, number, 0, b"value")
        end_txn(log, number, ControlType.ABORT)
    before = log.aborted_transactions(0, 8)
    assert len(before) == 4
    Path(log.segments.holding(8).path(".txnindex")).write_bytes(flaw)
    for segment in log.segments:
        segment.txn_index.close()
    truncate_to(log, 8, NOW_MS)
    assert log.aborted_transactions(0, 8) == before


def test_names_are_on_disk_before_a_cut_log_goes_on() -> None:
    """Else a later segment may come back, with records of another leader."""
    disk = MemoryDisk()
    log = open_log(disk, "p-0")
    disk.settle()
    for number in range(60):
        append(log, b"%d" % number)
    flush(log)
    assert len(log.segments) > 3
    truncate_to(log, log.segments.first.base_offset + 3, NOW_MS)
    for image in disk.power_cut_images(Random(1), 20):
        assert not [name for name in image.list("p-0") if name.endswith(".log") and int(name[:20]) > 3]


def test_a_log_that_failed_takes_nothing_more() -> None:
    disk = MemoryDisk()
    log = open_log(disk, "p-0")
    append(log, b"one")
    disk.fail(lambda op: op.kind == "append", errno.ENOSPC, written=10)
    with pytest.raises(StorageError, match="append"):
        append(log, b"two")
    with pytest.raises(StorageError, match="failed before"):
        append(log, b"three")
    with pytest.raises(StorageError, match="failed before"):
        flush(log)
    assert contents(log) == [(0, b"one")]
    assert contents(open_log(disk, "p-0")) == [(0, b"one")]


# ----------------------------------------------------------------------------------------- followers


def test_a_leader_that_sends_a_batch_with_less_than_no_offsets(folder: str) -> None:
    log = open_log(RealDisk(), folder)
    follow(log, 0, 1, 2)
    with pytest.raises(CorruptRecord, match="offset"):
        follow(log, 3, last_offset_delta=-2)
    assert log.log_end_offset == 3


def test_a_flipped_bit_is_told_from_a_crash(folder: str) -> None:
    log = filled(folder)
    flush(log)
    for at in (0, 21, 60):
        path = log.segments.active.path(".log")
        good = Path(path).read_bytes()
        edit(path, at, bytes([good[at] ^ 1]))
        with pytest.raises(CorruptLog, match="were on disk already"):
            open_log(RealDisk(), folder, recovery_point=log.recovery_point)
        Path(path).write_bytes(good)
