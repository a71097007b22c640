"""One log directory from its first start on: what it keeps, what it believes, and what it leaves on disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minikafka.protocol.errors import InvalidTopicError
from minikafka.storage.config import LogConfig
from minikafka.storage.dir_identity import Identity, NotOurs
from minikafka.storage.disk import RealDisk, join
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.formats import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    parse_offsets,
)
from minikafka.storage.log_dir import LogDir
from minikafka.storage.trimming import advance_log_start, truncate_to
from tests.sim.memory_disk import MemoryDisk
from tests.storage.dirs import (
    IDENTITY,
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
from tests.storage.logs import NOW_MS, SMALL, append, contents, flush
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
        **{name: b"0\n0\n" for name in CHECKPOINTS[:3]},
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
    advance_log_start(orders, 3)
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
    advance_log_start(orders, [*orders.segments][1].base_offset)
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


# ---------------------------------------------------------------------------------------- whose it is


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"broker.id=1\nversion=0\ncluster.id=sH7gnb5IQTqIGQveoWctog\n", "belongs to broker 1 of"),
        (b"broker.id=0\nversion=0\ncluster.id=other\n", "of cluster other, and this is broker 0 of cluster sH7gnb"),
        (b"node.id=3\nversion=1\ncluster.id=sH7gnb5IQTqIGQveoWctog\n", "belongs to broker 3"),
        (b"", "version ''"),
        (b"broker.id=0\ncluster.id=sH7gnb5IQTqIGQveoWctog\n", "version ''"),
        (b"broker.id=0\nversion=2\ncluster.id=sH7gnb5IQTqIGQveoWctog\n", "version '2'"),
        (b"broker.id=x\nversion=0\ncluster.id=sH7gnb5IQTqIGQveoWctog\n", "broker.id=x"),
        (b"broker.id=-1\nversion=0\ncluster.id=sH7gnb5IQTqIGQveoWctog\n", "broker.id=-1"),
        (b"broker.id=%s\nversion=0\ncluster.id=c\n" % (b"9" * 5000), "no identity"),
        (b"broker.id=0\nversion=0\n", "no identity"),
        (b"broker.id=0\nversion=0\ncluster.id=\\uXX\n", "cannot be read"),
        (b"\xff" * 2_000_000, "cannot be read"),
    ],
)
def test_the_directory_of_somebody_else_is_refused_and_left_alone(text: bytes, complaint: str) -> None:
    disk = MemoryDisk()
    filled(disk).close()
    write_file(disk, join(ROOT, "meta.properties"), text)
    before = all_files(disk)
    log_dir = LogDir(disk, ROOT)
    with pytest.raises(NotOurs, match=complaint):
        log_dir.open(IDENTITY, NOW_MS)
    assert not log_dir.is_offline
    log_dir.close()
    assert all_files(disk) == before


def test_a_directory_written_by_kafka_without_zookeeper_is_ours_if_the_ids_are() -> None:
    disk = MemoryDisk()
    disk.mkdir(ROOT)
    text = b"#\n#Mon Nov 16 06:24:32 UTC 2026\nnode.id=4\nversion=1\ncluster.id=c\ndirectory.id=x\n"
    write_file(disk, join(ROOT, "meta.properties"), text)
    start(disk, identity=Identity(4, "c")).close()
    assert read_file(disk, join(ROOT, "meta.properties")) == text


def test_a_second_user_is_kept_out(tmp_path: Path) -> None:
    disk, root = RealDisk(), str(tmp_path / "data")
    log_dir = start(disk, root)
    with pytest.raises(NotOurs, match="in use by another process"):
        LogDir(disk, root).open(IDENTITY, NOW_MS)
    program = "import sys; from minikafka.storage.disk import RealDisk; RealDisk().lock(sys.argv[1])"
    command = [sys.executable, "-c", program, join(root, ".lock")]
    assert b"BlockingIOError" in subprocess.run(command, capture_output=True).stderr
    log_dir.close()
    assert subprocess.run(command, capture_output=True).returncode == 0
    start(disk, root).close()


def test_a_link_to_the_directory_will_do(tmp_path: Path) -> None:
    disk = RealDisk()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").symlink_to("elsewhere")
    log_dir = start(disk, str(tmp_path / "data"))
    append(created(log_dir, ORDERS), b"a")
    log_dir.close()
    assert sorted(os.listdir(tmp_path / "elsewhere" / "orders-0"))[0] == "00000000000000000000.index"


# ---------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "partition",
    [
        ("", 0),
        (".", 0),
        ("..", 0),
        ("../orders", 0),
        ("/etc/orders", 0),
        ("a/b", 0),
        ("a\0b", 0),
        ("a\nb", 0),
        ("\u00e4", 0),
        ("orders", -1),
        ("orders", 2**31),
        ("a" * 250, 0),
        ("a" * 249, 100_000),
    ],
)
def test_no_name_becomes_a_path_unchecked(partition: tuple[str, int]) -> None:
    disk = MemoryDisk()
    log_dir = start(disk)
    ops = len(disk.ops)
    with pytest.raises(InvalidTopicError):
        log_dir.create(partition, TOPIC_ID, SMALL, NOW_MS)
    assert len(disk.ops) == ops and not log_dir.is_offline


def test_the_longest_names(tmp_path: Path) -> None:
    log_dir = start(RealDisk(), str(tmp_path))
    for topic in ("a" * 249, "-".join("1" * 60), "a.-delete"):
        partition = (topic, 99_999)
        append(created(log_dir, partition), b"x")
        log_dir.close()
        log_dir = start(RealDisk(), str(tmp_path))
        assert [*log_dir.logs] == [partition]
        log_dir.do(log_dir.delete(partition, NOW_MS))
        assert discard(log_dir, NOW_MS + SMALL.file_delete_delay_ms) == 1
        assert not [name for name in os.listdir(tmp_path) if name.startswith(topic[:9])]


def test_foreign_names_are_left_alone(tmp_path: Path) -> None:
    foreign = ["lost+found", "orders-00", "orders-+1", "orders", "-0", "orders-0.x-stray", "orders-0.y-future"]
    for name in foreign:
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(b"?")
    (tmp_path / "notes.txt").write_text("do not touch")
    log_dir = start(RealDisk(), str(tmp_path))
    assert not log_dir.logs and not log_dir.corrupt
    assert len(log_dir.notes) == len(foreign)
    log_dir.close()
    assert is_marked_clean(RealDisk(), str(tmp_path))
    assert all((tmp_path / name / "00000000000000000000.log").read_bytes() == b"?" for name in foreign)


def test_what_is_named_like_a_partition_and_is_none(tmp_path: Path) -> None:
    target = tmp_path / "target-0"
    target.mkdir()
    root = tmp_path / "data"
    root.mkdir()
    (root / "file-0").write_bytes(b"x")
    (root / "link-0").symlink_to(target)
    (root / "nowhere-0").symlink_to("nowhere")
    (root / "gone-0.x-delete").symlink_to(target)
    log_dir = start(RealDisk(), str(root))
    append(created(log_dir, ORDERS), b"a")
    assert {*log_dir.corrupt} == {("file", 0), ("link", 0), ("nowhere", 0)}
    assert {*log_dir.logs} == {ORDERS}
    with pytest.raises(CorruptLog, match="not a directory"):
        log_dir.create(("link", 0), TOPIC_ID, SMALL, NOW_MS)
    log_dir.do(log_dir.delete(("link", 0), NOW_MS))
    log_dir.do(log_dir.delete(("file", 0), NOW_MS))
    log_dir.do(log_dir.set_aside(("nowhere", 0), NOW_MS))
    assert discard(log_dir, NOW_MS) == 4
    append(created(log_dir, ("link", 0)), b"a")
    log_dir.close()
    assert target.is_dir() and not list(target.iterdir())
    assert not [name for name in os.listdir(root) if name.endswith("-delete")]
    assert [name for name in os.listdir(root) if name.endswith("-stray")] != []


@pytest.mark.parametrize("place", ["meta.properties", RECOVERY_POINT_CHECKPOINT, CLEAN_SHUTDOWN_FILE, ".lock"])
@pytest.mark.parametrize("is_link", [False, True])
def test_a_directory_or_link_in_the_place_of_a_file(tmp_path: Path, place: str, is_link: bool) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"")
    root = tmp_path / "data"
    root.mkdir()
    if is_link:
        (root / place).symlink_to(secret)
    else:
        (root / place).mkdir()
    with pytest.raises(StorageError, match="data"):
        start(RealDisk(), str(root))
    assert secret.read_bytes() == b""


def test_a_partition_that_somebody_puts_there_while_we_run() -> None:
    disk = MemoryDisk()
    log_dir = start(disk)
    disk.mkdir(join(ROOT, "orders-0"))
    with pytest.raises(CorruptLog, match="while the broker was running"):
        created(log_dir, ORDERS)
    assert not log_dir.is_offline and {*log_dir.corrupt} == {ORDERS}
    append(created(log_dir, OTHERS), b"a")
    log_dir.close()
    assert not is_marked_clean(disk)
