"""Taking possession of a log directory: whose it is, who else uses it, and what else is lying in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minikafka.protocol.errors import InvalidTopicError
from minikafka.storage.dir_identity import Identity, NotOurs
from minikafka.storage.disk import RealDisk, join
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.formats import CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_CHECKPOINT
from minikafka.storage.log_dir import LogDir
from tests.sim.memory_disk import MemoryDisk
from tests.storage.dirs import (
    IDENTITY,
    ROOT,
    TOPIC_ID,
    all_files,
    created,
    discard,
    is_marked_clean,
    read_file,
    restart,
    start,
    write_file,
)
from tests.storage.logs import NOW_MS, SMALL, append

ORDERS = ("orders", 0)
OTHERS = ("orders", 1)


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
    log_dir = start(disk)
    append(created(log_dir, ORDERS), b"a")
    log_dir.close()
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


def test_last_written_is_when_a_broker_was_last_at_work() -> None:
    disk = MemoryDisk()
    assert start(disk).last_written_ms is None
    disk.now_ms = NOW_MS
    log_dir = restart(disk)
    log_dir.close()
    disk.now_ms = NOW_MS + 1
    assert restart(disk).last_written_ms == NOW_MS
