"""Partitions that come and go: made, deleted, moved aside, cut; and what is on disk at every step of it."""

from random import Random

import pytest

from minikafka.protocol.errors import KafkaError
from minikafka.storage.dir_jobs import Job
from minikafka.storage.disk import join
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.formats import LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, parse_offsets
from minikafka.storage.log_dir import LogDir
from minikafka.storage.trimming import truncate_fully, truncate_to
from tests.sim.memory_disk import MemoryDisk
from tests.storage.dirs import (
    ROOT,
    TOPIC_ID,
    all_files,
    checkpoint,
    created,
    discard,
    is_marked_clean,
    read_file,
    restart,
    start,
    write_file,
)
from tests.storage.logs import NOW_MS, SMALL, append, contents, drop_below, flush, read

ORDERS = ("orders", 0)
OTHERS = ("orders", 1)
DELAY_MS = SMALL.file_delete_delay_ms
OTHER_ID = bytes(range(16, 32))


def filled(disk: MemoryDisk, count: int = 30) -> LogDir:
    log_dir = start(disk)
    for partition in (ORDERS, OTHERS):
        log = created(log_dir, partition)
        for number in range(count):
            append(log, b"%d" % number)
        flush(log)
    checkpoint(log_dir)
    return log_dir


def names(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.list(ROOT) if disk.is_dir(join(ROOT, name))]


def run_all(log_dir: LogDir, *jobs: Job) -> None:
    """As the broker does it: made together, run in order on another thread, finished together."""
    for job in jobs:
        job.run()
    for job in jobs:
        log_dir.finish(job)


# ---------------------------------------------------------------------------------------- made


def test_a_new_partition_is_on_disk_with_its_topic_id() -> None:
    disk = MemoryDisk()
    log_dir = start(disk)
    created(log_dir, ORDERS)
    (survivor, *_) = disk.power_cut_images(Random(1), 1)
    again = start(survivor)
    assert again.topic_ids == {ORDERS: TOPIC_ID}
    assert again.logs[ORDERS].log_end_offset == 0


def test_a_topic_id_may_come_later() -> None:
    disk = MemoryDisk()
    log_dir = start(disk)
    log_dir.do(log_dir.create(ORDERS, None, SMALL, NOW_MS))
    assert restart(disk).topic_ids == {}
    log_dir = restart(disk)
    log_dir.do(log_dir.assign_topic_id(ORDERS, OTHER_ID))
    log_dir.close()
    assert start(disk).topic_ids == {ORDERS: OTHER_ID}


@pytest.mark.parametrize("data", [b"", b"version: 0\n", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", bytes(5000)])
def test_a_partition_with_a_bad_topic_id_is_kept_apart(data: bytes) -> None:
    disk = MemoryDisk()
    filled(disk).close()
    write_file(disk, join(ROOT, "orders-0", "partition.metadata"), data)
    log_dir = start(disk)
    assert {*log_dir.logs} == {OTHERS}
    assert "partition.metadata" in str(log_dir.corrupt[ORDERS])


# ---------------------------------------------------------------------------------------- deleted


def test_a_deleted_partition_is_gone_at_once_and_its_files_later() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    log = log_dir.logs[ORDERS]
    plan = log.plan_read(0, 1 << 20, 30)
    log_dir.do(log_dir.delete(ORDERS, NOW_MS))
    assert {*log_dir.logs} == {OTHERS} == {*log_dir.topic_ids}
    (moved, kept) = names(disk)
    assert kept == "orders-1"
    assert moved.startswith("orders-0.") and moved.endswith("-delete") and len(moved) == len("orders-0.-delete") + 32
    assert discard(log_dir, NOW_MS + DELAY_MS - 1) == 0
    # Who was reading reads on.
    assert len(plan.run()) > 0
    assert discard(log_dir, NOW_MS + DELAY_MS) == 1
    assert names(disk) == ["orders-1"]
    assert discard(log_dir, NOW_MS + 2 * DELAY_MS) == 0
    log_dir.close()
    assert is_marked_clean(disk)


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_partition_that_went_does_not_come_back_after_a_power_cut(is_kept: bool) -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    log_dir.do(log_dir.set_aside(ORDERS, NOW_MS) if is_kept else log_dir.delete(ORDERS, NOW_MS))
    for image in disk.power_cut_images(Random(1), 5):
        assert {*start(image).logs} == {OTHERS}


def test_files_stay_for_a_moment_whatever_is_configured() -> None:
    """A thread that reads must not find another file under the number of the one it had."""
    disk = MemoryDisk()
    config = SMALL._replace(file_delete_delay_ms=0)
    log_dir = start(disk, config=config)
    for partition in (ORDERS, OTHERS):
        log = created(log_dir, partition, config=config)
        for number in range(30):
            append(log, b"%d" % number)
    drop_below(log_dir.logs[OTHERS], 29)
    log_dir.do(log_dir.delete(ORDERS, NOW_MS))
    assert [discard(log_dir, NOW_MS + ms) for ms in (0, 999, 1000)] == [0, 0, 2]


def test_a_partition_is_deleted_to_the_end_after_a_restart_however_it_looks() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    log_dir.do(log_dir.delete(ORDERS, NOW_MS))
    (moved, _) = names(disk)
    disk.mkdir(join(ROOT, moved, "a", "b"))
    write_file(disk, join(ROOT, moved, "a", "b", "c"), b"x")
    log_dir = restart(disk)
    assert {*log_dir.logs} == {OTHERS}
    assert discard(log_dir, NOW_MS) == 1
    assert names(disk) == ["orders-1"]


def test_deleted_and_made_again_within_one_millisecond() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    jobs: list[Job] = []
    for _ in range(3):
        jobs.append(log_dir.delete(ORDERS, NOW_MS))
        create = log_dir.create(ORDERS, OTHER_ID, SMALL, NOW_MS)
        run_all(log_dir, *jobs, create)
        jobs.clear()
        assert log_dir.logs[ORDERS].log_end_offset == 0
    assert len(names(disk)) == 5
    assert log_dir.topic_ids[ORDERS] == OTHER_ID
    assert discard(log_dir, NOW_MS + DELAY_MS) == 3
    append(log_dir.logs[ORDERS], b"new")
    log_dir.close()
    assert contents(start(disk).logs[ORDERS]) == [(0, b"new")]


def test_jobs_may_be_made_while_others_are_under_way() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    delete = log_dir.delete(ORDERS, NOW_MS)
    create = log_dir.create(ORDERS, OTHER_ID, SMALL, NOW_MS)
    assert log_dir.partition_count == 2
    other = log_dir.create(("more", 0), OTHER_ID, SMALL, NOW_MS)
    run_all(log_dir, delete, create, other)
    assert {*log_dir.logs} == {ORDERS, OTHERS, ("more", 0)}
    assert log_dir.logs[ORDERS].log_end_offset == 0


def test_what_checkpoints_say_of_a_deleted_partition_is_not_said_of_the_next_one() -> None:
    """The old one was on disk up to offset 30; the new one is torn at offset 2, which is then no corruption."""
    disk = MemoryDisk()
    log_dir = filled(disk)
    orders = log_dir.logs[ORDERS]
    orders.update_high_watermark(30)
    drop_below(orders, 20)
    checkpoint(log_dir)
    log_dir.do(log_dir.delete(ORDERS, NOW_MS))
    # Until there is a new one, the entry does no harm, and deleting many partitions costs no more writing.
    assert ORDERS in parse_offsets(read_file(disk, join(ROOT, RECOVERY_POINT_CHECKPOINT)))
    # A restart before anything was written must not bring it back either.
    log_dir = restart(disk)
    log = created(log_dir, ORDERS, OTHER_ID)
    assert ORDERS not in parse_offsets(read_file(disk, join(ROOT, RECOVERY_POINT_CHECKPOINT)))
    for number in range(3):
        append(log, b"%d" % number)
    path = join(ROOT, "orders-0", "00000000000000000000.log")
    write_file(disk, path, read_file(disk, path)[:-1])
    log_dir = restart(disk)
    assert not log_dir.corrupt
    again = log_dir.logs[ORDERS]
    assert contents(again) == [(0, b"0"), (1, b"1")]
    assert (again.log_start_offset, again.high_watermark) == (0, 0)


def test_segments_that_left_a_log_are_unlinked_later() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    log = log_dir.logs[ORDERS]
    before = read(log, 0, 100)
    plan = log.plan_read(0, 100, 30)
    retired = drop_below(log, 20)
    assert retired
    assert discard(log_dir, NOW_MS) == 0 and not log.retired
    assert discard(log_dir, NOW_MS + DELAY_MS - 1) == 0
    assert plan.run() == before
    assert len([name for name in all_files(disk) if name.endswith(".deleted")]) > 0
    assert discard(log_dir, NOW_MS + DELAY_MS) == 1
    assert not [name for name in all_files(disk) if name.endswith(".deleted")]


def test_retired_segments_of_a_deleted_partition_do_not_touch_the_next_one() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    drop_below(log_dir.logs[ORDERS], 20)
    assert discard(log_dir, NOW_MS) == 0
    log_dir.do(log_dir.delete(ORDERS, NOW_MS + 10))
    log = created(log_dir, ORDERS, OTHER_ID)
    for number in range(30):
        append(log, b"%d" % number)
    drop_below(log, 20)
    assert discard(log_dir, NOW_MS + 20) == 0
    assert discard(log_dir, NOW_MS + 10 + DELAY_MS) == 1
    deleted = [name for name in all_files(disk) if name.endswith(".deleted")]
    assert deleted and all(name.startswith("orders-0/") for name in deleted)


# ---------------------------------------------------------------------------------------- kept apart


def harm(disk: MemoryDisk) -> None:
    path = join(ROOT, "orders-0", "00000000000000000000.log")
    data = bytearray(read_file(disk, path))
    data[-1] ^= 1
    write_file(disk, path, bytes(data))


def test_a_corrupt_partition_does_no_harm_to_others_and_is_not_forgotten() -> None:
    disk = MemoryDisk()
    log_dir = start(disk)
    for partition in (ORDERS, OTHERS):
        append(created(log_dir, partition), b"0")
    flush(log_dir.logs[ORDERS])
    checkpoint(log_dir)
    disk.process_died()
    harm(disk)
    for _ in range(3):
        log_dir = start(disk)
        assert {*log_dir.logs} == {OTHERS}
        assert "offsets below 1 were on disk" in str(log_dir.corrupt[ORDERS])
        append(log_dir.logs[OTHERS], b"x")
        log_dir.close()
        # With a marker, the next start would believe the bad log.
        assert not is_marked_clean(disk)
    assert len(contents(restart(disk).logs[OTHERS])) == 4


@pytest.mark.parametrize("known", [None, b"0\n1\norders 1 30\n", b"0\n2\norders 0 30\norders 1 30\n"])
def test_a_partition_that_was_harmed_after_a_clean_stop_stays_corrupt(known: bytes | None) -> None:
    """The marker says that all was on disk; without it, and without the checkpoint, this would be a torn end."""
    disk = MemoryDisk()
    filled(disk).close()
    disk.unlink(join(ROOT, RECOVERY_POINT_CHECKPOINT))
    if known is not None:
        write_file(disk, join(ROOT, RECOVERY_POINT_CHECKPOINT), known)
    path = join(ROOT, "orders-0", "00000000000000000000.log")
    write_file(disk, path, read_file(disk, path)[:100])
    for name in disk.list(join(ROOT, "orders-0")):
        if name.startswith("0000000000000000001"):
            disk.unlink(join(ROOT, "orders-0", name))
    for _ in range(3):
        log_dir = start(disk)
        assert {*log_dir.corrupt} == {ORDERS} and {*log_dir.logs} == {OTHERS}
        log_dir.close()
        assert not is_marked_clean(disk)


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_corrupt_partition_is_replaced_by_a_new_one(is_kept: bool) -> None:
    disk = MemoryDisk()
    log_dir = start(disk)
    append(created(log_dir, ORDERS), b"0")
    flush(log_dir.logs[ORDERS])
    checkpoint(log_dir)
    disk.process_died()
    harm(disk)
    log_dir = start(disk)
    with pytest.raises(CorruptLog):
        log_dir.create(ORDERS, TOPIC_ID, SMALL, NOW_MS)
    log_dir.do(log_dir.set_aside(ORDERS, NOW_MS) if is_kept else log_dir.delete(ORDERS, NOW_MS))
    append(created(log_dir, ORDERS), b"again")
    discard(log_dir, NOW_MS)
    log_dir.close()
    assert is_marked_clean(disk)
    assert [name.rpartition("-")[2] for name in names(disk)] == (["0", "stray"] if is_kept else ["0"])
    assert contents(start(disk).logs[ORDERS]) == [(0, b"again")]


# ---------------------------------------------------------------------------------------- cut


def test_after_a_truncation_the_recovery_point_on_disk_goes_back_first() -> None:
    """Cut to 10 and written anew to 30, then the last half is torn: nothing of that was promised to be on disk."""
    disk = MemoryDisk()
    log_dir = filled(disk)
    log = log_dir.logs[ORDERS]
    truncate_to(log, 10, NOW_MS)
    job = log_dir.after_truncation([ORDERS])
    assert job is not None
    log_dir.do(job)
    assert log_dir.after_truncation([ORDERS, OTHERS]) is None
    assert parse_offsets(read_file(disk, join(ROOT, RECOVERY_POINT_CHECKPOINT))) == {ORDERS: 10, OTHERS: 30}
    for number in range(10, 30):
        append(log, b"new %d" % number, epoch=1)
    for segment in [*log.segments][1:]:
        path = segment.path(".log")
        write_file(disk, path, read_file(disk, path)[:-1])
    log_dir = restart(disk)
    assert not log_dir.corrupt
    kept = contents(log_dir.logs[ORDERS])
    assert kept[:10] == [(number, b"%d" % number) for number in range(10)]
    assert all(value == b"new %d" % offset for offset, value in kept[10:])


def test_a_log_that_starts_anew_at_a_lower_offset() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    log = log_dir.logs[ORDERS]
    drop_below(log, 29)
    checkpoint(log_dir)
    assert parse_offsets(read_file(disk, join(ROOT, LOG_START_CHECKPOINT))) == {ORDERS: 29}
    truncate_fully(log, 5)
    job = log_dir.after_truncation([ORDERS])
    assert job is not None
    log_dir.do(job)
    for number in range(5, 50):
        append(log, b"%d" % number)
    flush(log)
    again = restart(disk).logs[ORDERS]
    assert (again.log_start_offset, again.log_end_offset) == (5, 50)


def test_a_checkpoint_that_is_ahead_after_a_crash_is_put_right_before_anything_is_written() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    truncate_to(log_dir.logs[ORDERS], 10, NOW_MS)
    log_dir = restart(disk)
    assert log_dir.logs[ORDERS].log_end_offset == 10
    assert parse_offsets(read_file(disk, join(ROOT, RECOVERY_POINT_CHECKPOINT))) == {ORDERS: 10, OTHERS: 30}


# ---------------------------------------------------------------------------------------- offline


def test_a_directory_that_is_offline_does_nothing_any_more() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    delete = log_dir.delete(OTHERS, NOW_MS)
    log_dir.fail("somebody said so")
    log_dir.fail("and somebody else")
    delete.run()
    count = len(disk.ops)
    with pytest.raises(StorageError, match="said so"):
        log_dir.finish(delete)
    for act in (
        lambda: log_dir.create(("new", 0), TOPIC_ID, SMALL, NOW_MS),
        lambda: log_dir.delete(ORDERS, NOW_MS),
        lambda: log_dir.set_aside(ORDERS, NOW_MS),
        lambda: log_dir.assign_topic_id(ORDERS, TOPIC_ID),
        lambda: log_dir.checkpoint(),
        lambda: log_dir.after_truncation([ORDERS]),
        lambda: log_dir.discards(NOW_MS),
    ):
        with pytest.raises(StorageError, match="offline: somebody said so"):
            act()
    log_dir.close()
    assert len(disk.ops) == count
    assert not is_marked_clean(disk)


def test_the_faults_of_peers_do_not_take_it_offline() -> None:
    log_dir = start(MemoryDisk())
    with pytest.raises(KafkaError):
        log_dir.create(("../x", 0), TOPIC_ID, SMALL, NOW_MS)
    assert not log_dir.is_offline and log_dir.partition_count == 0
