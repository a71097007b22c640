"""One log directory from its first start on: what it keeps, what it believes, and what it leaves on disk."""

import pytest

from minikafka.storage.config import LogConfig
from minikafka.storage.disk import join
from minikafka.storage.formats import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    parse_offsets,
)
from minikafka.storage.log_dir import LogDir
from minikafka.storage.trimming import truncate_to
from tests.sim.memory_disk import MemoryDisk
from tests.storage.dirs import (
    IDENTITY,
    ROOT,
    TOPIC_ID,
    all_files,
    checkpoint,
    created,
    is_marked_clean,
    read_file,
    restart,
    start,
)
from tests.storage.logs import NOW_MS, SMALL, append, contents, drop_below, flush
from tests.storage.recorded import lay_out, recorded_files

ORDERS = ("orders", 0)
OTHERS = ("orders", 1)
# The defaults but for mapped files, of which this disk keeps copies.
BIG = LogConfig(segment_index_bytes=40_000)
CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT)


def filled(disk: MemoryDisk, count: int = 30) -> LogDir:
    """A directory with two partitions, one of which has several segments."""
    log_dir = start(disk)
    for number in range(count):
        for log in (created(log_dir, ORDERS), created(log_dir, OTHERS)) if number == 0 else log_dir.logs.values():
            append(log, b"%d" % number)
    log_dir.logs[ORDERS].update_high_watermark(count - 5)
    return log_dir


def values(count: int = 30) -> list[tuple[int, bytes]]:
    return [(number, b"%d" % number) for number in range(count)]


# ---------------------------------------------------------------------------------------- a real Kafka's directory


def test_a_directory_that_kafka_left_behind_means_the_same_to_us() -> None:
    disk = MemoryDisk()
    lay_out(disk, ROOT)
    log_dir = start(disk, config=BIG)
    recovery_points = parse_offsets(recorded_files()[RECOVERY_POINT_CHECKPOINT])
    high_watermarks = parse_offsets(recorded_files()[REPLICATION_CHECKPOINT])
    assert log_dir.was_clean and not log_dir.corrupt and not log_dir.notes
    assert {partition: log.recovery_point for partition, log in log_dir.logs.items()} == recovery_points
    assert {partition: log.high_watermark for partition, log in log_dir.logs.items()} == high_watermarks
    assert all(log.log_start_offset == 0 for log in log_dir.logs.values())
    assert log_dir.checkpoints.first_dirty == {("compacted", 0): 1000}
    assert {*log_dir.topic_ids} == {*log_dir.logs}
    assert sum(len(contents(log)) for log in log_dir.logs.values()) == 3821


def test_opening_and_closing_it_changes_nothing() -> None:
    disk = MemoryDisk()
    lay_out(disk, ROOT)
    # Nothing was written in the epoch of these, and an epoch that starts where the log ends is dropped by loading.
    empty = ("__consumer_offsets-0/leader-epoch-checkpoint", "__transaction_state-1/leader-epoch-checkpoint")
    for _ in range(2):
        start(disk, config=BIG).close()
        assert all_files(disk) == {**recorded_files(), **dict.fromkeys(empty, b"0\n0\n"), ".lock": b""}


def test_it_has_the_same_contents_if_everything_has_to_be_recovered() -> None:
    clean, lost = MemoryDisk(), MemoryDisk()
    lay_out(clean, ROOT)
    lay_out(lost, ROOT)
    for name in (CLEAN_SHUTDOWN_FILE, *CHECKPOINTS):
        lost.unlink(join(ROOT, name))
    ours, theirs = start(lost, config=BIG), start(clean, config=BIG)
    assert not ours.was_clean and not ours.corrupt
    for partition, log in theirs.logs.items():
        again = ours.logs[partition]
        assert (again.log_end_offset, again.recovery_point) == (log.log_end_offset, 0)
        assert contents(again) == contents(log)
        assert again.aborted_transactions(0, again.log_end_offset) == log.aborted_transactions(0, log.log_end_offset)
        assert sorted(again.producers.snapshot()) == sorted(log.producers.snapshot())


def test_recovery_writes_what_kafka_wrote() -> None:
    """Indexes, producers and leader epochs, from nothing but the batches; the intervals are those of the recording."""
    disk = MemoryDisk()
    kept = {name: data for name, data in recorded_files().items() if name.endswith((".log", ".metadata"))}
    lay_out(disk, ROOT, kept)
    start(disk, config=BIG._replace(index_interval_bytes=512)).close()
    written = all_files(disk)
    # Of the compacted log the first batches are gone, and with them the offset that the epoch started at.
    del written["compacted-0/leader-epoch-checkpoint"]
    for name, data in written.items():
        assert "/" not in name or data == recorded_files()[name], name
    suffixes = [name.rpartition(".")[2] for name in written]
    assert [suffixes.count(suffix) for suffix in ("index", "timeindex", "txnindex", "snapshot")] == [28, 28, 2, 11]
    assert len([name for name in written if name.endswith("leader-epoch-checkpoint")]) == 10


# ---------------------------------------------------------------------------------------- starting and stopping


def test_a_new_directory_is_made_ours() -> None:
    disk = MemoryDisk()
    start(disk, "/new/data").close()
    files = all_files(disk, "/new/data")
    assert files.pop("meta.properties").splitlines()[2:] == [
        b"broker.id=0",
        b"version=0",
        b"cluster.id=sH7gnb5IQTqIGQveoWctog",
    ]
    assert files == {
        ".lock": b"",
        ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":-1}',
        **dict.fromkeys(CHECKPOINTS[:3], b"0\n0\n"),
    }


def test_everything_is_there_after_a_clean_stop_and_nothing_is_read_through() -> None:
    disk = MemoryDisk()
    filled(disk).close(broker_epoch=7)
    assert read_file(disk, join(ROOT, CLEAN_SHUTDOWN_FILE)) == b'{"version":0,"brokerEpoch":7}'
    log_dir = start(disk)
    assert log_dir.was_clean and not is_marked_clean(disk)
    assert log_dir.topic_ids == {ORDERS: TOPIC_ID, OTHERS: TOPIC_ID}
    for log in log_dir.logs.values():
        assert contents(log) == values()
        assert (log.recovery_point, log.log_end_offset) == (30, 30)
    assert log_dir.logs[ORDERS].high_watermark == 25
    assert log_dir.logs[OTHERS].high_watermark == 0


def test_everything_is_there_after_kill_9() -> None:
    disk = MemoryDisk()
    filled(disk)
    log_dir = restart(disk)
    assert not log_dir.was_clean
    for log in log_dir.logs.values():
        assert contents(log) == values()
        assert log.recovery_point == 0


def test_checkpoints_say_how_far_the_logs_are() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    orders = log_dir.logs[ORDERS]
    flush(orders)
    drop_below(orders, 3)
    checkpoint(log_dir)
    assert log_dir.checkpoint() is None
    read = [parse_offsets(read_file(disk, join(ROOT, name))) for name in CHECKPOINTS[:3]]
    assert read == [{ORDERS: 30, OTHERS: 0}, {ORDERS: 25, OTHERS: 0}, {ORDERS: 3}]
    assert not disk.exists(join(ROOT, CLEANER_CHECKPOINT))
    again = restart(disk).logs[ORDERS]
    assert (again.log_start_offset, again.high_watermark, again.recovery_point) == (3, 25, 30)


def test_a_log_start_that_the_first_segment_tells_is_not_written() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    orders = log_dir.logs[ORDERS]
    drop_below(orders, [*orders.segments][1].base_offset)
    assert orders.log_start_offset == orders.segments.first.base_offset > 0
    checkpoint(log_dir)
    assert parse_offsets(read_file(disk, join(ROOT, LOG_START_CHECKPOINT))) == {}
    assert restart(disk).logs[ORDERS].log_start_offset == orders.log_start_offset


def test_the_cleaner_goes_on_where_it_was() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    log_dir.checkpoints.first_dirty |= {ORDERS: 20, OTHERS: 25}
    log_dir.close()
    log_dir = start(disk)
    assert log_dir.checkpoints.first_dirty == {ORDERS: 20, OTHERS: 25}
    truncate_to(log_dir.logs[ORDERS], 11, NOW_MS)
    job = log_dir.after_truncation([ORDERS])
    assert job is not None
    log_dir.do(job)
    assert restart(disk).checkpoints.first_dirty == {ORDERS: log_dir.logs[ORDERS].log_end_offset, OTHERS: 25}


def test_the_recovery_point_on_disk_goes_back_before_the_log_does() -> None:
    """Or a power cut between the two would look like a loss of what was synced."""
    disk = MemoryDisk()
    log_dir = filled(disk)
    for log in log_dir.logs.values():
        flush(log)
    checkpoint(log_dir)
    assert log_dir.before_truncation({ORDERS: 1000}) is None
    job = log_dir.before_truncation({ORDERS: 10})
    assert job is not None
    log_dir.do(job)
    assert parse_offsets(read_file(disk, join(ROOT, RECOVERY_POINT_CHECKPOINT))) == {ORDERS: 10, OTHERS: 30}
    assert log_dir.logs[ORDERS].log_end_offset == 30
    truncate_to(log_dir.logs[ORDERS], 10, NOW_MS)
    assert restart(disk).logs[ORDERS].log_end_offset == 10


def test_loading_may_be_stopped_in_between() -> None:
    disk = MemoryDisk()
    filled(disk).close()
    before = all_files(disk)
    for steps in range(3):
        log_dir = LogDir(disk, ROOT)
        log_dir.open(IDENTITY, NOW_MS)
        loading = log_dir.loading(lambda topic: SMALL, NOW_MS)
        for _ in range(steps):
            next(loading)
        log_dir.close()
        assert all_files(disk) == before


def test_an_unclean_directory_that_was_not_loaded_to_the_end_stays_unclean() -> None:
    disk = MemoryDisk()
    log_dir = filled(disk)
    flush(log_dir.logs[OTHERS])
    checkpoint(log_dir)
    disk.process_died()
    again = LogDir(disk, ROOT)
    again.open(IDENTITY, NOW_MS)
    next(again.loading(lambda topic: SMALL, NOW_MS))
    again.close()
    assert not is_marked_clean(disk)
    # What is known of the partition that was not loaded is still known.
    assert parse_offsets(read_file(disk, join(ROOT, RECOVERY_POINT_CHECKPOINT))) == {ORDERS: 30, OTHERS: 30}


@pytest.mark.parametrize("batch_count", [60, 600])
def test_loading_a_clean_log_takes_as_long_as_it_has_segments(batch_count: int) -> None:
    """Not as long as it has batches: these are ten times as many, in segments ten times as large."""
    disk = MemoryDisk()
    config = LogConfig(segment_bytes=100 * batch_count, segment_index_bytes=4000, index_interval_bytes=1000)
    log_dir = start(disk, config=config)
    log = created(log_dir, ORDERS, config=config)
    for _ in range(batch_count):
        append(log, bytes(500))
    assert len(log.segments) in (6, 7)
    log_dir.close()
    disk.ops.clear()
    start(disk, config=config)
    assert len(disk.ops) < 70
    assert sum(op.size for op in disk.ops if op.kind == "read" and op.path.endswith(".log")) < 40_000
