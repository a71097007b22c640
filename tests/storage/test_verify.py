"""Verifying: Kafka's own log directory is good, and so is ours; whatever is changed in them is found, and where."""

import errno

import pytest

from minikafka.storage.disk import join
from minikafka.storage.errors import CorruptLog
from minikafka.storage.finding import NotALog, find
from minikafka.storage.formats import segment_name
from minikafka.storage.verify import Summary, verify_file, verify_partition
from tests.sim.memory_disk import MemoryDisk, Op
from tests.storage.batches import make_batch
from tests.storage.recorded import lay_out, recorded_files
from tests.storage.verifying import FIRST, edit, flaw, flip, kafka_disk, our_log, put, verify

# What is good


def test_kafkas_log_directory() -> None:
    disk = kafka_disk()
    found = find(disk, "data")
    assert len(found.partitions) == 13 and len(found.files) == 6
    for file in found.files:
        verify_file(disk, file)
    summaries = {each.name: verify_partition(disk, each, records=True) for each in found.partitions}
    assert {name: summary.records for name, summary in summaries.items()} == {
        **{f"codec-{codec}-0": 600 for codec in ("none", "gzip", "snappy", "lz4", "zstd")},
        **{f"txn-{number}": 132 for number in (0, 1)},
        "compacted-0": 240,
        "appendtime-0": 300,
        "__consumer_offsets-0": 0,
        "__consumer_offsets-1": 4,
        "__transaction_state-0": 37,
        "__transaction_state-1": 0,
    }
    assert summaries["codec-lz4-0"] == Summary(4, 30, 600, 49792, 0, 599, None)
    assert summaries["__consumer_offsets-0"] == Summary(1, 0, 0, 0, None, None, None)


def test_our_own_log_while_it_is_open() -> None:
    disk = MemoryDisk()
    our_log(disk)
    summary = verify(disk, "data/ours-0")
    assert summary.segments > 2
    assert summary.torn is None
    assert summary.records == 12 * 2 + 12 * 2 + 12 + 12
    assert any(name.endswith(".txnindex") for name in disk.list("data/ours-0"))


def test_nothing_is_written_or_locked() -> None:
    disk = kafka_disk("txn-0")
    before = disk.op_count
    verify(disk, "data/txn-0")
    kinds = {op.kind for op in disk.ops[before:]}
    assert kinds <= {"exists", "is_dir", "list", "open", "read", "map", "file_size", "size"}


def test_one_file_stands_for_its_segment() -> None:
    disk = kafka_disk("codec-lz4-0")
    for suffix in (".log", ".index", ".timeindex"):
        assert verify(disk, f"data/codec-lz4-0/{segment_name(180)}{suffix}").records == 180
    assert verify(disk, f"data/codec-lz4-0/{segment_name(600)}.snapshot").segments == 0
    for base_offset in (0, 180):
        edit(disk, f"data/codec-lz4-0/{segment_name(base_offset)}.index", flip(3))
    assert flaw(disk, f"data/codec-lz4-0/{FIRST}.log")[0] == f"{FIRST}.index"
    assert flaw(disk, f"data/codec-lz4-0/{segment_name(180)}.log")[0].endswith(".index")
    assert verify(disk, f"data/codec-lz4-0/{segment_name(360)}.log").records == 180


def test_files_on_their_way_out() -> None:
    disk = kafka_disk("codec-lz4-0")
    for name in disk.list("data/codec-lz4-0"):
        if name.startswith(segment_name(0)):
            disk.rename(f"data/codec-lz4-0/{name}", f"data/codec-lz4-0/{name}.deleted")
    edit(disk, f"data/codec-lz4-0/{FIRST}.log.deleted", flip(100))
    assert verify(disk, "data/codec-lz4-0").records == 420
    assert flaw(disk, f"data/codec-lz4-0/{FIRST}.log.deleted") == (f"{FIRST}.log.deleted", 0)


# What is not


def test_any_changed_byte_of_a_sealed_segment_is_found() -> None:
    disk = MemoryDisk()
    our_log(disk)
    name = f"{FIRST}.log"
    file = disk.open(f"data/ours-0/{name}")
    size = file.size()
    assert size < 2000
    partition = find(disk, "data/ours-0").partitions[0]
    for position in range(size):
        edit(disk, f"data/ours-0/{name}", flip(position))
        with pytest.raises(CorruptLog):
            verify_partition(disk, partition)
        edit(disk, f"data/ours-0/{name}", flip(position))
    assert verify_partition(disk, partition).torn is None


@pytest.mark.parametrize(
    ("batches", "bad"),
    [
        ([make_batch(2), make_batch(2, base_offset=1)], 1),
        ([make_batch(2), make_batch(2)], 1),
        ([make_batch(2, base_offset=5), make_batch(2)], 1),
        ([make_batch(1, base_offset=-1)], 0),
        ([make_batch(1, base_offset=2**31)], 0),
        ([make_batch(1, last_offset_delta=-1)], 0),
        ([make_batch(2, record_count=3)], 0),
        ([make_batch(2, record_count=-1)], 0),
        ([make_batch(2, record_count=1)], 0),
        ([make_batch(2, offset_deltas=[1, 0])], 0),
        ([make_batch(2, offset_deltas=[0, 2])], 0),
        ([make_batch(1), make_batch(1, base_offset=1, crc_xor=1)], 1),
        ([make_batch(1, attributes=7)], 0),
        ([make_batch(1, attributes=3)], 0),
        ([make_batch(1, leader_epoch=3), make_batch(1, base_offset=1, leader_epoch=2)], 1),
        ([make_batch(1, attributes=0x30)], 0),
        ([make_batch(1), make_batch(1, base_offset=1, magic=1)], 1),
        ([make_batch(1), make_batch(1, base_offset=1, length=40)], 1),
    ],
)
def test_bad_batches(batches: list[bytearray], bad: int) -> None:
    disk = MemoryDisk()
    # The last segment: nothing of this may pass for an unfinished end.
    lay_out(disk, "data", {f"t-0/{FIRST}.log": b"".join([*batches, make_batch(1, base_offset=2**31 - 1)])})
    assert flaw(disk, "data/t-0") == (f"{FIRST}.log", sum(map(len, batches[:bad])))


def test_the_farthest_offset_of_a_segment() -> None:
    disk = MemoryDisk()
    lay_out(disk, "data", {f"t-0/{segment_name(5)}.log": bytes(make_batch(1, base_offset=5 + 2**31 - 1))})
    assert verify(disk, "data/t-0").last_offset == 5 + 2**31 - 1
    edit(disk, f"data/t-0/{segment_name(5)}.log", put(make_batch(1, base_offset=5 + 2**31)))
    assert flaw(disk, "data/t-0") == (f"{segment_name(5)}.log", 0)


def test_segments_that_overlap() -> None:
    disk = MemoryDisk()
    second = f"{segment_name(3)}.log"
    lay_out(
        disk, "data", {f"t-0/{FIRST}.log": bytes(make_batch(4)), f"t-0/{second}": bytes(make_batch(1, base_offset=3))}
    )
    assert flaw(disk, "data/t-0") == (second, 0)
    edit(disk, f"data/t-0/{second}", put(make_batch(1, base_offset=2)))
    edit(disk, f"data/t-0/{FIRST}.log", put(make_batch(1)))
    assert flaw(disk, "data/t-0") == (second, 0)


@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint", f"{segment_name(132)}.snapshot"])
def test_bad_small_files(name: str) -> None:
    disk = kafka_disk("txn-0")
    edit(disk, f"data/txn-0/{name}", put(b"nonsense"))
    assert flaw(disk, "data/txn-0")[0] == name


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "cleaner-offset-checkpoint", ".kafka_cleanshutdown", "meta.properties"]
)
def test_bad_files_of_the_log_directory(name: str) -> None:
    disk = kafka_disk()
    edit(disk, f"data/{name}", put(b"1\\u\n"))
    (file,) = [file for file in find(disk, "data").files if file.name == name]
    with pytest.raises(CorruptLog):
        verify_file(disk, file)


# An unfinished end


def test_any_cut_of_the_newest_segment() -> None:
    disk = kafka_disk("txn-0")
    whole = recorded_files()[f"txn-0/{FIRST}.log"]
    starts = [0, 176, 254]
    for size in range(300):
        edit(disk, f"data/txn-0/{FIRST}.log", put(whole[:size]))
        for kind in ("index", "timeindex", "txnindex"):
            edit(disk, f"data/txn-0/{FIRST}.{kind}", put(b""))
        start = max(start for start in starts if start <= size)
        torn = (f"/data/txn-0/{FIRST}.log", start, size - start) if size > start else None
        assert verify(disk, "data/txn-0").torn == torn
    lay_out(disk, "data", {f"txn-0/{segment_name(132)}.log": b""})
    assert flaw(disk, "data/txn-0") == (f"{FIRST}.log", 254)


@pytest.mark.parametrize("zeros", [1, 60, 61, 4096, 3_000_000])
def test_zeros_at_the_end(zeros: int) -> None:
    disk = kafka_disk("txn-0")
    edit(disk, f"data/txn-0/{FIRST}.log", lambda data: data.extend(bytes(zeros)))
    assert verify(disk, "data/txn-0").torn == (f"/data/txn-0/{FIRST}.log", 3068, zeros)


def test_garbage_at_the_end() -> None:
    disk = kafka_disk("txn-0")
    edit(disk, f"data/txn-0/{FIRST}.log", lambda data: data.extend(bytes(100) + b"x"))
    assert flaw(disk, "data/txn-0") == (f"{FIRST}.log", 3068)


def test_files_that_go_while_one_looks() -> None:
    disk = kafka_disk("codec-lz4-0")
    (partition,) = find(disk, "data/codec-lz4-0").partitions
    for name in disk.list("data/codec-lz4-0"):
        if name.startswith(segment_name(0)):
            disk.unlink(f"data/codec-lz4-0/{name}")
    assert verify_partition(disk, partition).records == 420


def test_a_file_that_is_being_written_in_place() -> None:
    disk = kafka_disk("txn-0")
    name = f"{segment_name(132)}.snapshot"
    edit(disk, f"data/txn-0/{name}", put(recorded_files()[f"txn-0/{name}"][:20]))
    opened: list[Op] = []

    def finish(op: Op) -> bool:
        """As soon as it was read once, whoever writes it has finished."""
        if op.kind == "open" and op.path.endswith(name):
            opened.append(op)
            if len(opened) == 2:
                edit(disk, f"data/txn-0/{name}", put(recorded_files()[f"txn-0/{name}"]))
        return False

    disk.fail(finish, is_lasting=True)
    assert verify(disk, "data/txn-0").records == 132
    assert len(opened) == 3


# What a path may be


@pytest.mark.parametrize("path", ["data/none", "data/txn-0/notes.txt", "other", "other/dbus-1", "data/txn-0/x.log"])
def test_no_log(path: str) -> None:
    disk = kafka_disk("txn-0")
    lay_out(disk, "", {"other/dbus-1/socket": b"", "data/txn-0/notes.txt": b"", "data/txn-0/x.log": b""})
    with pytest.raises(NotALog, match=path):
        find(disk, path)


def test_deleted_partitions_are_left_out() -> None:
    disk = kafka_disk()
    unique = "0123456789abcdef0123456789abcdef"
    disk.rename("data/txn-0", f"data/txn-0.{unique}-delete")
    disk.rename("data/txn-1", f"data/txn-1.{unique}-stray")
    names = [partition.name for partition in find(disk, "data").partitions]
    assert f"txn-1.{unique}-stray" in names and len(names) == 12
    (partition,) = find(disk, f"data/txn-0.{unique}-delete").partitions
    assert partition.topic == "txn"
    assert verify_partition(disk, partition).records == 132


def test_disk_errors_come_through() -> None:
    disk = kafka_disk("txn-0")
    (partition,) = find(disk, "data/txn-0").partitions
    disk.fail(lambda op: op.kind == "read" and op.path.endswith(".log"))
    with pytest.raises(OSError) as caught:
        verify_partition(disk, partition)
    assert caught.value.errno == errno.EIO
    assert caught.value.filename == join("/data/txn-0", f"{FIRST}.log")
