"""The real disk, where the simulated one has no counterpart: links, modes, and calls that come back half done."""

import errno
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from minikafka.storage.config import LogConfig
from minikafka.storage.disk import RealDisk
from minikafka.storage.log import Log
from tests.storage.logs import append, contents, open_log


def test_modes(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        RealDisk().mkdir(str(tmp_path / "a" / "b"))
        RealDisk().open(str(tmp_path / "a" / "f"), create=True).close()
    finally:
        os.umask(old)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "a/f")] == [0o700, 0o700, 0o600]


def test_links_are_not_followed(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.mkdir(str(tmp_path / "real"))
    (tmp_path / "real" / "f").write_bytes(b"secret")
    (tmp_path / "dir").symlink_to("real")
    (tmp_path / "file").symlink_to("real/f")
    (tmp_path / "nothing").symlink_to("nowhere")
    assert not disk.is_dir(str(tmp_path / "dir"))
    assert disk.exists(str(tmp_path / "nothing"))
    calls: list[Callable[[], object]] = [
        lambda: disk.open(str(tmp_path / "file")),
        lambda: disk.open(str(tmp_path / "nothing"), create=True),
        lambda: disk.list(str(tmp_path / "dir")),
        lambda: disk.mkdir(str(tmp_path / "dir")),
        lambda: disk.lock(str(tmp_path / "file")),
    ]
    for call in calls:
        with pytest.raises(OSError):
            call()
    assert disk.resolve(str(tmp_path / "dir")) == str((tmp_path / "real").resolve())


def test_only_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read_only in (True, False):
        with pytest.raises(OSError):
            RealDisk().open(str(tmp_path / "pipe"), read_only=read_only)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_short_write_on_a_real_disk(tmp_path: Path) -> None:
    """A limit on the size of files cuts writes short just as a full disk does."""
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.append([b"whole"])
    with file_size_limit(1000), pytest.raises(OSError) as caught:
        file.append([b"x" * 600, b"y" * 600])
    assert caught.value.errno == errno.EFBIG
    assert file.size() == 1000
    file.truncate(5)
    assert file.read(0, 1000) == b"whole"
    file.close()


def test_a_write_that_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = os.write
    monkeypatch.setattr(os, "writev", lambda fd, parts: written(fd, b"".join(parts)[:3]))
    monkeypatch.setattr(os, "write", lambda fd, data: written(fd, bytes(data)[:2]))
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.append([b"ab", b"cdef", b"gh"])
    assert file.read(0, 100) == b"abcdefgh"
    file.close()


def test_a_read_that_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: whole(fd, min(size, 3), position))
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.append([b"abcdefgh"])
    assert file.read(0, 8) == b"abcdefgh"
    assert file.read(6, 8) == b"gh"
    file.close()


@pytest.mark.parametrize("error", [errno.EAGAIN, errno.EOPNOTSUPP, errno.EIO])
def test_reading_without_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    def fails(fd: int, buffers: Sequence[bytearray], position: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        raise OSError(error, os.strerror(error))

    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.append([b"abc"])
    monkeypatch.setattr(os, "preadv", fails)
    if error == errno.EIO:
        with pytest.raises(OSError):
            file.read_nowait(0, 3)
    else:
        assert file.read_nowait(0, 3) == (None if error == errno.EAGAIN else b"abc")
    file.close()


def test_half_in_memory_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, position, flags: min(preadv(fd, buffers, position), 2))
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.append([b"abcd"])
    assert file.read_nowait(0, 4) is None
    assert file.read_nowait(2, 4) == b"cd"
    file.close()


def test_mtime(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    os.utime(tmp_path / "f", ns=(0, 1_234_567_890_123_456_789))
    assert RealDisk().mtime_ms(str(tmp_path / "f")) == 1_234_567_890_123


@pytest.mark.parametrize("number", [errno.EBADF, errno.EOPNOTSUPP, errno.EINVAL])
def test_reserve_writes_zeros_where_fallocate_is_missing(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EBADF is what glibc says of a file opened with O_APPEND, as all of ours are."""

    def refuse(fd: int, position: int, size: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    path = tmp_path / "f"
    file = RealDisk().open(str(path), create=True)
    file.append([b"head"])
    file.truncate(1 << 20)
    file.reserve(4, 200_000)
    assert path.stat().st_blocks * 512 >= 200_000 and path.stat().st_size == 1 << 20
    assert path.read_bytes() == b"head" + bytes((1 << 20) - 4)
    # It still appends.
    file.append([b"tail"])
    assert path.read_bytes()[1 << 20 :] == b"tail"
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.reserve(0, 1)


def test_log_is_written_where_fallocate_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, position: int, size: int) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    log: Log = open_log(RealDisk(), f"{tmp_path}/t-0", LogConfig())
    for number in range(30):
        append(log, b"%d" % number + bytes(1000))
    assert len(contents(log)) == 30
    assert log.segments.active.offset_index.count > 1
    log.close()


def test_file_that_is_held_stays_open_until_its_readers_are_done(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"bytes")
    file = RealDisk().open(str(tmp_path / "f"))
    file.hold()
    file.hold()
    file.close()
    # Another file that is opened now does not get its number.
    other = RealDisk().open(str(tmp_path / "g"), create=True)
    other.append([b"other"])
    assert bytes(file.read(0, 5)) == b"bytes"
    with pytest.raises(OSError, match="closed"):
        file.hold()
    file.release()
    assert bytes(file.read(0, 5)) == b"bytes"
    file.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(0, 5)
    other.close()
