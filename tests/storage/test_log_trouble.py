"""A log in trouble: crashes at bad moments, disks that fail, peers that send nonsense."""

import errno
from pathlib import Path
from random import Random

import pytest

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.control import ControlType
from minikafka.storage.disk import RealDisk
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.trimming import truncate_fully, truncate_to
from tests.sim.memory_disk import MemoryDisk
from tests.storage.batches import make_batch
from tests.storage.logs import (
    COMPACTED,
    NOW_MS,
    append,
    append_in_txn,
    batches_from,
    contents,
    edit,
    end_txn,
    filled,
    flush,
    follow,
    open_log,
)

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


def test_starting_over_forgets_epochs_for_good(folder: str) -> None:
    """There is no batch that could tell that the file is out of date."""
    log = filled(folder)
    flush(log)
    truncate_fully(log, 100)
    assert open_log(RealDisk(), folder, recovery_point=60, log_start_offset=100).epochs.entries() == []


def test_stops_do_not_leave_more_and_more_snapshots() -> None:
    disk = MemoryDisk()
    log = open_log(disk, "t-0")
    for number in range(5):
        append(log, b"%d" % number)
        log.close()
        log = open_log(disk, "t-0", is_clean=True)
        assert [name for name in disk.list("t-0") if name.endswith(".snapshot")] == [f"{number + 1:020}.snapshot"]
    log.roll()
    append(log, b"x")
    log.close()
    open_log(disk, "t-0", is_clean=True)
    assert [name[18:20] for name in disk.list("t-0") if name.endswith(".snapshot")] == ["05", "06"]


def test_no_snapshot_of_what_was_cut_off_is_used() -> None:
    disk = MemoryDisk()
    log = open_log(disk, "p-0")
    append_in_txn(log, 7, 0, b"one")
    append_in_txn(log, 7, 1, b"two")
    log.close()
    disk.settle()
    log = open_log(disk, "p-0", is_clean=True)
    truncate_to(log, 1, NOW_MS)
    for image in disk.power_cut_images(Random(1), 10):
        assert not [name for name in image.list("p-0") if name.endswith(".snapshot")]
    append_in_txn(log, 8, 0, b"other")
    append(log, b"last")
    truncate_to(log, 2, NOW_MS)
    assert [(each.producer_id, each.last_sequence) for each in log.producers.snapshot()] == [(7, 0), (8, 0)]


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
    assert disk.size(log.segments.active.path(".log")) == log.segments.active.size
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
