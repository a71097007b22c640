"""The seam to the file system: the same tests for the real disk and for the simulated one."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka.storage.disk import Disk, RealDisk, join, parent
from tests.sim.memory_disk import MemoryDisk


@pytest.fixture(params=["real", "memory"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else MemoryDisk()


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> str:
    path = join(str(tmp_path), "data")
    disk.mkdir(path)
    return path


def write(disk: Disk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.append([data])
    file.close()


def read(disk: Disk, path: str) -> bytes:
    file = disk.open(path, read_only=True)
    try:
        return bytes(file.read(0, disk.size(path)))
    finally:
        file.close()


def test_paths() -> None:
    assert join("a", "b", "c") == "a/b/c"
    assert (parent("/a/b"), parent("/a"), parent("a"), parent("a/b")) == ("/a", "/", ".", "a")


# Files


def test_append_and_read(disk: Disk, root: str) -> None:
    file = disk.open(join(root, "f"), create=True)
    file.append([b"ab", bytearray(b"cd"), memoryview(b"xefx")[1:3]])
    file.append([])
    file.append([b""])
    file.append([b"gh"])
    assert file.size() == 8
    assert file.read(0, 8) == b"abcdefgh"
    assert file.read(3, 2) == b"de"
    assert file.read_nowait(3, 2) == b"de"
    file.close()


def test_reads_end_at_the_end(disk: Disk, root: str) -> None:
    file = disk.open(join(root, "f"), create=True)
    file.append([b"abcdefgh"])
    for reading in (file.read, file.read_nowait):
        assert reading(6, 100) == b"gh"
        assert reading(8, 100) == b""
        assert reading(1000, 100) == b""
        assert reading(2, 0) == b""
    file.close()


def test_large_reads(disk: Disk, root: str) -> None:
    data = bytes(range(256)) * 1024
    file = disk.open(join(root, "f"), create=True)
    file.append([data])
    file.sync()
    assert file.read_nowait(1, 1 << 17) == data[1 : 1 + (1 << 17)]
    assert file.read_nowait(1, 1 << 19) == data[1:]
    file.close()


def test_many_parts(disk: Disk, root: str) -> None:
    parts = [b"%d" % number for number in range(3000)]
    file = disk.open(join(root, "f"), create=True)
    file.append(parts)
    assert file.read(0, 1 << 20) == b"".join(parts)
    file.close()


def test_truncate_and_append_again(disk: Disk, root: str) -> None:
    file = disk.open(join(root, "f"), create=True)
    file.append([b"abcdef"])
    file.truncate(2)
    assert file.size() == 2
    file.append([b"XY"])
    assert file.read(0, 10) == b"abXY"
    file.truncate(0)
    file.truncate(3)
    assert file.read(0, 10) == bytes(3)
    file.close()


def test_two_openings_see_one_file(disk: Disk, root: str) -> None:
    one, two = disk.open(join(root, "f"), create=True), disk.open(join(root, "f"))
    one.append([b"ab"])
    two.append([b"cd"])
    assert one.read(0, 9) == two.read(0, 9) == b"abcd"
    disk.unlink(join(root, "f"))
    assert one.read(0, 9) == b"abcd"
    one.close()
    assert two.size() == 4
    two.close()


def test_renamed_while_open(disk: Disk, root: str) -> None:
    file = disk.open(join(root, "f"), create=True)
    disk.rename(join(root, "f"), join(root, "g"))
    file.append([b"ab"])
    file.close()
    assert read(disk, join(root, "g")) == b"ab"


def test_a_closed_file_is_no_longer_there(disk: Disk, root: str) -> None:
    file = disk.open(join(root, "f"), create=True)
    file.close()
    file.close()
    calls: list[Callable[[], object]] = [file.size, file.sync, lambda: file.read(0, 1), lambda: file.append([b"x"])]
    for call in calls:
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.EBADF


def test_read_only(disk: Disk, root: str) -> None:
    write(disk, join(root, "f"), b"abc")
    file = disk.open(join(root, "f"), read_only=True)
    assert file.read(0, 3) == b"abc"
    assert bytes(file.map(3, writable=False).view) == b"abc"
    calls: list[Callable[[], object]] = [
        lambda: file.append([b"x"]),
        lambda: file.truncate(1),
        lambda: file.map(3, writable=True),
        lambda: file.reserve(0, 10),
    ]
    for call in calls:
        with pytest.raises(OSError):
            call()
    file.close()
    assert read(disk, join(root, "f")) == b"abc"


# Mappings


def test_mapped_writes_are_read(disk: Disk, root: str) -> None:
    file = disk.open(join(root, "f"), create=True)
    file.append([b"abcdef"])
    mapping = file.map(8192, writable=True)
    assert file.size() == 8192
    assert bytes(mapping.view[:8]) == b"abcdef\0\0"
    mapping.view[2:4] = b"XY"
    mapping.view[8000] = 7
    assert file.read(0, 6) == b"abXYef"
    file.close()
    mapping.view[0:1] = b"Z"
    mapping.flush()
    mapping.close()
    assert read(disk, join(root, "f"))[:7] == b"ZbXYef\0"
    assert read(disk, join(root, "f"))[8000] == 7


def test_mapped_for_reading(disk: Disk, root: str) -> None:
    write(disk, join(root, "f"), b"abcdef")
    file = disk.open(join(root, "f"))
    mapping = file.map(4, writable=False)
    assert bytes(mapping.view) == b"abcd"
    with pytest.raises(TypeError):
        mapping.view[0] = 1
    with pytest.raises(OSError):
        file.map(7, writable=False)
    file.close()
    mapping.close()


def test_nothing_mapped(disk: Disk, root: str) -> None:
    file = disk.open(join(root, "f"), create=True)
    for writable in (False, True):
        mapping = file.map(0, writable=writable)
        assert len(mapping.view) == 0
        mapping.flush()
        mapping.close()
    file.close()


def test_slices_outlive_the_mapping(disk: Disk, root: str) -> None:
    write(disk, join(root, "f"), b"abcdef")
    file = disk.open(join(root, "f"))
    mapping = file.map(6, writable=False)
    piece = mapping.view[2:4]
    mapping.close()
    file.close()
    assert bytes(piece) == b"cd"


def test_reserved_space_is_zeros(disk: Disk, root: str) -> None:
    file = disk.open(join(root, "f"), create=True)
    file.append([b"abc"])
    file.reserve(0, 2)
    assert file.size() == 3
    file.reserve(2, 4)
    assert file.read(0, 10) == b"abc\0\0\0"
    file.close()


# Directories


def test_make_list_and_remove(disk: Disk, root: str) -> None:
    disk.mkdir(join(root, "a", "b", "c"))
    disk.mkdir(join(root, "a", "b"))
    write(disk, join(root, "a", "z"), b"")
    write(disk, join(root, "a", "B"), b"12")
    assert disk.list(join(root, "a")) == ["B", "b", "z"]
    assert disk.is_dir(join(root, "a", "b")) and not disk.is_dir(join(root, "a", "z"))
    assert not disk.is_dir(join(root, "x")) and not disk.is_dir(join(root, "a", "z", "x"))
    assert disk.exists(join(root, "a", "z")) and not disk.exists(join(root, "a", "y"))
    assert disk.size(join(root, "a", "B")) == 2
    disk.unlink(join(root, "a", "z"))
    disk.rmdir(join(root, "a", "b", "c"))
    assert disk.list(join(root, "a")) == ["B", "b"]
    assert disk.list(join(root, "a", "b")) == []


def test_rename_replaces_files(disk: Disk, root: str) -> None:
    write(disk, join(root, "f"), b"new")
    write(disk, join(root, "g"), b"old")
    disk.rename(join(root, "f"), join(root, "g"))
    disk.fsync_dir(root)
    assert disk.list(root) == ["g"]
    assert read(disk, join(root, "g")) == b"new"


def test_rename_takes_directories_along(disk: Disk, root: str) -> None:
    disk.mkdir(join(root, "a"))
    write(disk, join(root, "a", "f"), b"x")
    disk.rename(join(root, "a"), join(root, "b"))
    assert disk.list(root) == ["b"]
    disk.mkdir(join(root, "c"))
    disk.rename(join(root, "b", "f"), join(root, "c", "g"))
    assert (disk.list(join(root, "b")), disk.list(join(root, "c"))) == ([], ["g"])


def test_what_cannot_be_done(disk: Disk, root: str) -> None:
    disk.mkdir(join(root, "dir", "sub"))
    write(disk, join(root, "file"), b"x")
    at = {name: join(root, name) for name in ("dir", "file", "none")}
    calls: list[tuple[Callable[[], object], int]] = [
        (lambda: disk.open(at["none"]), errno.ENOENT),
        (lambda: disk.open(join(at["none"], "f"), create=True), errno.ENOENT),
        (lambda: disk.open(at["dir"]), errno.EISDIR),
        (lambda: disk.list(at["none"]), errno.ENOENT),
        (lambda: disk.list(at["file"]), errno.ENOTDIR),
        (lambda: disk.size(at["none"]), errno.ENOENT),
        (lambda: disk.mtime_ms(at["none"]), errno.ENOENT),
        (lambda: disk.unlink(at["none"]), errno.ENOENT),
        (lambda: disk.unlink(at["dir"]), errno.EISDIR),
        (lambda: disk.rmdir(at["dir"]), errno.ENOTEMPTY),
        (lambda: disk.rmdir(at["file"]), errno.ENOTDIR),
        (lambda: disk.rename(at["none"], at["file"]), errno.ENOENT),
        (lambda: disk.rename(at["file"], at["dir"]), errno.EISDIR),
        (lambda: disk.rename(at["dir"], at["file"]), errno.ENOTDIR),
        (lambda: disk.mkdir(at["file"]), errno.EEXIST),
        (lambda: disk.fsync_dir(at["none"]), errno.ENOENT),
    ]
    for number, (call, code) in enumerate(calls):
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == code, number
    assert disk.list(root) == ["dir", "file"]


def test_one_lock_at_a_time(disk: Disk, root: str) -> None:
    lock = disk.lock(join(root, ".lock"))
    with pytest.raises(BlockingIOError):
        disk.lock(join(root, ".lock"))
    other = disk.lock(join(root, "other"))
    lock.release()
    lock.release()
    disk.lock(join(root, ".lock")).release()
    other.release()
    assert disk.size(join(root, ".lock")) == 0


def test_space(disk: Disk, root: str) -> None:
    assert 0 < disk.free_bytes(root) <= disk.total_bytes(root)


def test_resolve(disk: Disk, root: str) -> None:
    assert disk.resolve(root + "/./") == disk.resolve(root)
    assert disk.is_dir(disk.resolve(root))
