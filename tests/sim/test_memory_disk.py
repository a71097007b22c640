"""The simulated disk where it has no counterpart: failing on purpose, and what is left when the power goes."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from tests.sim.memory_disk import MemoryDisk, Op, PowerCut

IMAGES = 300


def write(disk: MemoryDisk, path: str, data: bytes, *, sync: bool = False) -> None:
    file = disk.open(path, create=True)
    file.append([data])
    if sync:
        file.sync()
    file.close()


def read(disk: MemoryDisk, path: str) -> bytes:
    file = disk.open(path)
    return bytes(file.read(0, file.size()))


def images(disk: MemoryDisk, count: int = IMAGES) -> list[MemoryDisk]:
    return [*disk.power_cut_images(Random(1), count)]


def found(disk: MemoryDisk, count: int = IMAGES) -> set[bytes | None]:
    """What the file `f` may hold after a power cut, None if it may be gone."""
    return {read(each, "f") if each.exists("f") else None for each in images(disk, count)}


def all_operations(disk: MemoryDisk) -> None:
    disk.mkdir("d")
    file = disk.open("d/f", create=True)
    file.append([b"ab", b"cd"])
    file.reserve(0, 8)
    mapping = file.map(8, writable=True)
    mapping.view[0] = 1
    mapping.flush()
    mapping.close()
    file.read(0, 1)
    file.read_nowait(0, 1)
    file.truncate(4)
    file.sync()
    file.size()
    file.close()
    disk.list("d")
    disk.exists("d/f"), disk.is_dir("d"), disk.size("d/f"), disk.mtime_ms("d/f"), disk.free_bytes("d")
    disk.total_bytes("d")
    disk.rename("d/f", "d/g")
    disk.fsync_dir("d")
    disk.lock("d/.lock").release()
    disk.unlink("d/.lock")
    disk.unlink("d/g")
    disk.rmdir("d")


KINDS = {
    *("mkdir", "open", "append", "reserve", "map", "flush", "read", "truncate", "sync", "file_size", "list", "exists"),
    *("is_dir", "size", "mtime_ms", "free_bytes", "total_bytes", "rename", "fsync_dir", "lock", "unlink", "rmdir"),
}


def test_operations_are_recorded() -> None:
    disk = MemoryDisk()
    all_operations(disk)
    assert {op.kind for op in disk.ops} == KINDS
    assert disk.ops[2] == Op("append", "d/f", 0, 4)
    assert disk.op_count == len(disk.ops)


def test_any_operation_can_fail() -> None:
    whole = MemoryDisk()
    all_operations(whole)
    for number in range(1, whole.op_count + 1):
        disk = MemoryDisk()
        disk.fail(number, errno.EIO)
        with pytest.raises(OSError) as caught:
            all_operations(disk)
        assert caught.value.errno == errno.EIO
        assert disk.op_count == number


def test_power_can_go_at_any_operation() -> None:
    whole = MemoryDisk()
    all_operations(whole)
    for number in range(1, whole.op_count + 1):
        disk = MemoryDisk()
        disk.cut_power(number)
        with pytest.raises(PowerCut):
            all_operations(disk)
        with pytest.raises(PowerCut):
            disk.exists("x")
        for image in images(disk, 10):
            image.list("/")


def test_faults_by_kind_once_or_for_good() -> None:
    disk = MemoryDisk()
    disk.fail(lambda op: op.kind == "append" and op.path == "f")
    write(disk, "g", b"x")
    with pytest.raises(OSError):
        write(disk, "f", b"x")
    write(disk, "f", b"x")
    disk.fail(lambda op: op.kind == "append", is_lasting=True)
    disk.fail(2, is_lasting=True)
    for _ in range(3):
        with pytest.raises(OSError):
            write(disk, "f", b"x")
    disk.heal()
    write(disk, "f", b"x")
    assert read(disk, "f") == b"xx"


def test_short_write() -> None:
    disk = MemoryDisk()
    disk.fail(lambda op: op.kind == "append", errno.ENOSPC, written=3)
    with pytest.raises(OSError) as caught:
        write(disk, "f", b"abcdef")
    assert caught.value.errno == errno.ENOSPC
    assert read(disk, "f") == b"abc"


def test_full_disk() -> None:
    disk = MemoryDisk(capacity_bytes=10)
    write(disk, "f", b"abcdef")
    assert disk.free_bytes("/") == 4
    with pytest.raises(OSError) as caught:
        write(disk, "g", b"ghijkl")
    assert caught.value.errno == errno.ENOSPC
    assert read(disk, "g") == b"ghij"
    file = disk.open("g")
    file.truncate(1)
    # A hole takes no space, until it is asked for.
    file.map(1000, writable=True).close()
    assert disk.free_bytes("/") == 3
    file.reserve(0, 4)
    with pytest.raises(OSError):
        file.reserve(0, 5)


def test_cold_reads() -> None:
    disk = MemoryDisk()
    write(disk, "f", b"abc")
    disk.is_cold = True
    file = disk.open("f")
    assert file.read_nowait(0, 3) is None
    assert file.read(0, 3) == b"abc"


def test_kill() -> None:
    disk = MemoryDisk()
    disk.lock(".lock")
    file = disk.open("f", create=True)
    mapping = file.map(600, writable=True)
    mapping.view[599] = 1
    disk.process_died()
    with pytest.raises(OSError):
        file.append([b"x"])
    mapping.close()
    disk.lock(".lock").release()
    assert read(disk, "f")[599] == 1
    # Nothing of the old mapping is in the way.
    write(disk, "f", bytes(100_000))


# What survives a power cut


def test_images_are_repeatable() -> None:
    disk = MemoryDisk()
    write(disk, "f", bytes(range(256)) * 40)
    first = [read(each, "f") if each.exists("f") else None for each in disk.power_cut_images(Random(7), 20)]
    again = [read(each, "f") if each.exists("f") else None for each in disk.power_cut_images(Random(7), 20)]
    assert first == again
    assert len({*first}) > 5


def test_the_first_two_images() -> None:
    disk = MemoryDisk()
    write(disk, "f", b"old", sync=True)
    disk.fsync_dir("/")
    write(disk, "f", b"new")
    write(disk, "g", b"")
    least, most = images(disk, 2)
    assert (least.list("/"), read(least, "f")) == (["f"], b"old")
    assert (most.list("/"), read(most, "f")) == (["f", "g"], b"oldnew")


def test_synced_bytes_under_a_synced_name_survive() -> None:
    disk = MemoryDisk()
    write(disk, "f", b"abc", sync=True)
    assert found(disk) == {None, b"abc"}
    disk.fsync_dir("/")
    assert found(disk) == {b"abc"}


def test_a_synced_name_says_nothing_of_the_bytes() -> None:
    disk = MemoryDisk()
    write(disk, "f", b"abc")
    disk.fsync_dir("/")
    assert {b"", b"abc", bytes(3)} <= found(disk)


def test_sectors_survive_in_any_order() -> None:
    disk = MemoryDisk()
    sectors = [bytes([65 + number]) * 512 for number in range(4)]
    write(disk, "f", b"".join(sectors))
    disk.fsync_dir("/")
    whole = [contents for contents in found(disk, 2000) if contents and len(contents) == 2048]
    kept = {tuple(letter in contents for letter in b"ABCD") for contents in whole}
    assert len(kept) == 16


def test_a_sector_shows_a_state_that_it_had() -> None:
    disk = MemoryDisk()
    disk.open("f", create=True).close()
    disk.fsync_dir("/")
    for _ in range(3):
        write(disk, "f", b"ab")
    # Later bytes of a sector never come without the earlier ones.
    for contents in found(disk):
        assert contents is not None
        assert contents.rstrip(b"\0") in (b"", b"a", b"ab", b"aba", b"abab", b"ababa", b"ababab")
    assert {b"", b"ab", b"abab", b"ababab", b"ab\0\0"} <= found(disk)


def test_pages_or_sectors() -> None:
    disk = MemoryDisk()
    write(disk, "f", b"x" * 8192)
    disk.fsync_dir("/")
    ends = {contents.count(b"x") for contents in found(disk) if contents}
    assert {4096, 8192} < ends
    assert any(end % 4096 for end in ends)


def test_a_truncation_may_be_lost() -> None:
    disk = MemoryDisk()
    write(disk, "f", b"a" * 1024, sync=True)
    disk.fsync_dir("/")
    file = disk.open("f")
    file.truncate(512)
    assert {b"a" * 1024, b"a" * 512} <= found(disk)
    file.append([b"b" * 512])
    assert {b"a" * 1024, b"a" * 512, b"a" * 512 + b"b" * 512, b"a" * 512 + bytes(512)} <= found(disk)
    file.sync()
    assert found(disk) == {b"a" * 512 + b"b" * 512}


def test_a_sync_covers_what_came_before_it() -> None:
    disk = MemoryDisk()
    file = disk.open("f", create=True)
    disk.fsync_dir("/")
    file.append([b"a" * 600])
    file.sync()
    file.append([b"b" * 600])
    contents = found(disk)
    assert all(each is not None and each.startswith(b"a" * 600) for each in contents)
    assert {b"a" * 600, b"a" * 600 + b"b" * 600} < contents


def test_a_failed_sync_is_never_made_good() -> None:
    disk = MemoryDisk()
    file = disk.open("f", create=True)
    disk.fsync_dir("/")
    file.append([b"a" * 512])
    disk.fail(lambda op: op.kind == "sync")
    with pytest.raises(OSError):
        file.sync()
    assert file.read(0, 512) == b"a" * 512
    file.sync()
    assert {b"", b"a" * 512} <= found(disk)
    file.append([b"b" * 512])
    file.sync()
    assert bytes(512) + b"b" * 512 in found(disk)


def test_mapped_bytes_need_a_flush() -> None:
    disk = MemoryDisk()
    file = disk.open("f", create=True)
    mapping = file.map(2048, writable=True)
    file.sync()
    disk.fsync_dir("/")
    mapping.view[0] = mapping.view[1024] = 1
    file.sync()
    kept = {(contents[0], contents[1024]) for contents in found(disk) if contents}
    assert kept == {(0, 0), (0, 1), (1, 0), (1, 1)}
    mapping.flush()
    mapping.view[0] = 2
    mapping.close()
    assert {(contents[0], contents[1024]) for contents in found(disk) if contents} == {(1, 1), (2, 1)}


def test_renaming_is_atomic() -> None:
    disk = MemoryDisk()
    write(disk, "f", b"old", sync=True)
    write(disk, "f.tmp", b"new", sync=True)
    disk.fsync_dir("/")
    disk.rename("f.tmp", "f")
    assert {(*each.list("/"), read(each, "f")) for each in images(disk)} == {("f", "f.tmp", b"old"), ("f", b"new")}
    disk.fsync_dir("/")
    assert {(*each.list("/"), read(each, "f")) for each in images(disk)} == {("f", b"new")}


def test_a_rename_can_outrun_the_bytes() -> None:
    disk = MemoryDisk()
    write(disk, "f", b"old", sync=True)
    disk.fsync_dir("/")
    write(disk, "f.tmp", b"new")
    disk.rename("f.tmp", "f")
    assert {b"old", b"new", b""} <= found(disk)


def test_independent_names_survive_in_any_order() -> None:
    disk = MemoryDisk()
    for name in "abc":
        write(disk, name, b"", sync=True)
    assert {"".join(each.list("/")) for each in images(disk)} == {"", "a", "b", "c", "ab", "ac", "bc", "abc"}


def test_one_name_changes_in_order() -> None:
    disk = MemoryDisk()
    write(disk, "a", b"1", sync=True)
    disk.fsync_dir("/")
    disk.rename("a", "b")
    disk.rename("b", "c")
    write(disk, "a", b"2", sync=True)
    seen = {tuple((name, read(each, name)) for name in each.list("/")) for each in images(disk)}
    assert seen == {
        (("a", b"1"),),
        (("b", b"1"),),
        (("c", b"1"),),
        (("a", b"2"), ("b", b"1")),
        (("a", b"2"), ("c", b"1")),
    }


def test_unlinked_files_may_come_back() -> None:
    disk = MemoryDisk()
    write(disk, "f", b"abc", sync=True)
    disk.fsync_dir("/")
    disk.unlink("f")
    assert found(disk) == {None, b"abc"}


def test_directories_are_lost_with_all_in_them() -> None:
    disk = MemoryDisk()
    disk.mkdir("a/b")
    write(disk, "a/b/f", b"abc", sync=True)
    disk.fsync_dir("a/b")
    disk.fsync_dir("a")
    assert (
        {each.exists("a/b/f") for each in images(disk)} == {each.exists("a") for each in images(disk)} == {False, True}
    )
    disk.fsync_dir("/")
    disk.rename("a", "c")
    assert {(*each.list("/"), each.exists(each.list("/")[0] + "/b/f")) for each in images(disk)} == {
        ("a", True),
        ("c", True),
    }


def test_moving_between_directories_is_one_step() -> None:
    disk = MemoryDisk()
    disk.mkdir("a")
    disk.mkdir("b")
    write(disk, "a/f", b"abc", sync=True)
    disk.settle()
    disk.rename("a/f", "b/f")
    assert {(*each.list("a"), "-", *each.list("b")) for each in images(disk)} == {("f", "-"), ("-", "f")}
    disk.fsync_dir("a")
    assert {(*each.list("a"), "-", *each.list("b")) for each in images(disk)} == {("-", "f")}


def test_images_stand_for_themselves() -> None:
    disk = MemoryDisk()
    disk.now_ms = 5
    write(disk, "f", b"abc")
    disk.settle()
    (image,) = images(disk, 1)
    assert image.mtime_ms("f") == 5
    write(image, "f", b"def")
    assert (read(disk, "f"), read(image, "f")) == (b"abc", b"abcdef")
    assert found(image) >= {b"abc", b"abcdef"}


@pytest.mark.parametrize("step", [lambda disk: disk.settle(), lambda disk: disk.process_died()], ids=["settle", "kill"])
def test_kill_keeps_and_settle_saves(step: Callable[[MemoryDisk], None]) -> None:
    disk = MemoryDisk()
    write(disk, "f", b"abc")
    step(disk)
    assert read(disk, "f") == b"abc"
