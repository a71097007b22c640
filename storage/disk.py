"""The seam to the file system: everything the storage asks of it, and nothing else of the room opens a file.

A simulated disk stands behind the same protocols, so that every call can be made to fail and power can be cut
between any two of them. What is promised is therefore only what a file system promises: bytes are safe after `sync`,
names after `fsync_dir` of their directory, and a rename happens wholly or not at all.

Paths are strings with "/" between the parts. The last part of a path is never followed if it is a symbolic link: a
log directory may be one (`resolve` it first), a partition or a segment may not. Files are made with mode 0600 and
directories with 0700.

All calls may block, save `read_nowait`. A file may be read from several threads, and it may be closed only when no
thread is inside a call: the number of a closed file is soon that of another file. Who reads a file in a thread
that others may close meanwhile holds it.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
import sys
import threading
from collections.abc import Sequence
from struct import Struct
from typing import Protocol, TypeAlias

from minikafka.protocol.uncleared import uncleared
from minikafka.protocol.varint import Buffer
from minikafka.storage.allocation import allocate

Names: TypeAlias = list[str]

# As many parts as one writev takes (IOV_MAX of Linux).
_PARTS_MAX = 1024
# struct flock of a 64-bit Linux: type, whence, start, length (0: to the end), pid.
_flock = Struct("hhqqi")
# No file has this number, so that any call on a closed file is EBADF; of a negative one Python makes a ValueError.
_CLOSED = 2**31 - 1
# Of all files: it is taken for a moment and rarely, and a lock for each file would cost more memory than that.
_holding = threading.Lock()


def join(*parts: str) -> str:
    """One path out of several parts."""
    return "/".join(parts)


def parent(path: str) -> str:
    """The directory that a path leads to the inside of."""
    above, slash, _ = path.rpartition("/")
    return above or slash or "."


class Mapping(Protocol):
    """A file as memory; touching what another call has cut off the file kills the process."""

    @property
    def view(self) -> memoryview: ...

    def flush(self) -> None:
        """Bring what was written to the view to disk, and wait for it."""

    def close(self) -> None:
        """Give the memory up; slices of the view that are still in use keep it until they are gone."""


class File(Protocol):
    """An open file."""

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write all parts at the end of the file; after an OSError any part of them may be there."""

    def read(self, position: int, size: int) -> Buffer:
        """So many bytes, fewer only at the end of the file."""

    def read_nowait(self, position: int, size: int) -> Buffer | None:
        """The same, or None if that means waiting for the disk."""

    def map(self, size: int, *, writable: bool) -> Mapping:
        """The first `size` bytes as memory; a shorter file is extended by a hole if it is to be written."""

    def reserve(self, position: int, size: int) -> None:
        """Have the disk set space aside: writing to a mapped hole on a full disk would kill the process.

        Only for bytes that have not been written yet, since a file system without fallocate gets zeros there.
        """

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Bring bytes and size to disk. After a failure there is no telling what is there, whatever a retry says."""

    def size(self) -> int: ...

    def hold(self) -> None:
        """Keep the file open for a reader, though others close it; EBADF if it is closed."""

    def release(self) -> None:
        """The reader is done; a file that was closed meanwhile is closed now."""

    def close(self) -> None: ...


class Lock(Protocol):
    """A lock that is held until released, or until the process ends."""

    def release(self) -> None: ...


class Disk(Protocol):
    """Files and directories by their paths."""

    def resolve(self, path: str) -> str:
        """The absolute path without symbolic links."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File: ...

    def list(self, path: str) -> Names:
        """The names in a directory, sorted."""

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def mkdir(self, path: str) -> None:
        """Make a directory and those above it; it may be there already."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name; a file of that name is replaced."""

    def unlink(self, path: str) -> None: ...

    def rmdir(self, path: str) -> None: ...

    def size(self, path: str) -> int: ...

    def mtime_ms(self, path: str) -> int: ...

    def fsync_dir(self, path: str) -> None:
        """Bring the names in a directory to disk."""

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def lock(self, path: str) -> Lock:
        """Lock a file, which is made if need be; BlockingIOError if it is locked already."""


class RealMapping:
    """A part of a file that the kernel has mapped into memory."""

    def __init__(self, mapped: mmap.mmap | None) -> None:
        # An empty file cannot be mapped, and need not be.
        self._mapped = mapped
        self.view = memoryview(b"" if mapped is None else mapped)

    def flush(self) -> None:
        if self._mapped is not None:
            self._mapped.flush()

    def close(self) -> None:
        self.view.release()
        if self._mapped is not None:
            try:
                self._mapped.close()
            except BufferError:
                # Somebody still looks at a slice: the memory goes with the last of them.
                self._mapped = None


class RealFile:
    """An open file of the operating system."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._has_nowait = True
        self._holders = 0
        self._is_closing = False

    def append(self, parts: Sequence[Buffer]) -> None:
        if len(parts) == 1:
            # What every produced batch takes: half the time of the general way.
            written = os.write(self._fd, parts[0])
            if written < len(parts[0]):
                self._append_rest(memoryview(parts[0])[written:])
            return
        for start in range(0, len(parts), _PARTS_MAX):
            some = parts[start : start + _PARTS_MAX]
            written = os.writev(self._fd, some)
            if written < (size := sum(map(len, some))):
                # Rare: more than 2 GB at once, or a disk that is filling up, which the next call will say.
                self._append_rest(memoryview(b"".join(some))[written:size])

    def _append_rest(self, rest: memoryview) -> None:
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def read(self, position: int, size: int) -> Buffer:
        data = os.pread(self._fd, size, position)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def read_nowait(self, position: int, size: int) -> Buffer | None:
        if not self._has_nowait:
            return self.read(position, size)
        data = uncleared(size)
        try:
            count = os.preadv(self._fd, (data,), position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            # tmpfs, which has no disk to wait for, and file systems that never learned it.
            if error.errno != errno.EOPNOTSUPP:
                raise
            self._has_nowait = False
            return self.read(position, size)
        if count < size:
            # The end of the file, or of what is in memory.
            if position + count < self.size():
                return None
            del data[count:]
        return data

    def map(self, size: int, *, writable: bool) -> Mapping:
        if writable and self.size() < size:
            os.ftruncate(self._fd, size)
        if not size:
            return RealMapping(None)
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        try:
            if sys.version_info >= (3, 13):
                # Else the mapping keeps a file descriptor of its own, and a broker has an index or three per segment.
                return RealMapping(mmap.mmap(self._fd, size, access=access, trackfd=False))
            return RealMapping(mmap.mmap(self._fd, size, access=access))
        except ValueError as error:
            raise OSError(errno.EINVAL, f"{size} bytes cannot be mapped: {error}") from None

    def reserve(self, position: int, size: int) -> None:
        allocate(self._fd, position, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def hold(self) -> None:
        with _holding:
            if self._fd == _CLOSED or self._is_closing:
                raise OSError(errno.EBADF, "the file is closed")
            self._holders += 1

    def release(self) -> None:
        with _holding:
            self._holders -= 1
            is_last = self._is_closing and not self._holders
        if is_last:
            self._close()

    def close(self) -> None:
        with _holding:
            self._is_closing = True
            is_held = self._holders > 0
        if not is_held:
            self._close()

    def _close(self) -> None:
        if self._fd != _CLOSED:
            fd, self._fd = self._fd, _CLOSED
            os.close(fd)


class RealLock:
    """A lock on an open file, given back when the file is closed."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd != _CLOSED:
            fd, self._fd = self._fd, _CLOSED
            os.close(fd)


class RealDisk:
    """The file system of this machine."""

    def resolve(self, path: str) -> str:
        return os.path.realpath(path)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        return RealFile(_open_regular(path, create=create, read_only=read_only))

    def list(self, path: str) -> Names:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            return sorted(os.listdir(fd))
        finally:
            os.close(fd)

    def exists(self, path: str) -> bool:
        return _mode(path) is not None

    def is_dir(self, path: str) -> bool:
        mode = _mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def mkdir(self, path: str) -> None:
        if self.is_dir(path):
            return
        above = os.path.dirname(path)
        # Above, a link to a directory will do.
        if above and not os.path.isdir(above):
            self.mkdir(above)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not self.is_dir(path):
                raise

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def size(self, path: str) -> int:
        return os.lstat(path).st_size

    def mtime_ms(self, path: str) -> int:
        return os.lstat(path).st_mtime_ns // 1_000_000

    def fsync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self, path: str) -> int:
        # What is kept back for root does not count as free.
        info = os.statvfs(path)
        return info.f_bavail * info.f_frsize

    def total_bytes(self, path: str) -> int:
        info = os.statvfs(path)
        return info.f_blocks * info.f_frsize

    def lock(self, path: str) -> Lock:
        fd = _open_regular(path, create=True, read_only=False)
        # Bound to the open file, so that two brokers in one process keep each other out, and at the same time in
        # conflict with the locks of Java, so that Apache Kafka and we do too. flock() would be the first without
        # the second, lockf() the second without the first.
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _flock.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise BlockingIOError(errno.EAGAIN, "locked by another process", path) from None
            raise
        return RealLock(fd)


def _mode(path: str) -> int | None:
    """The type and permissions of what is there, None if nothing is; a disk that cannot tell is an OSError."""
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _open_regular(path: str, *, create: bool, read_only: bool) -> int:
    # Not to wait at a pipe for its other end; regular files take no notice.
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    flags |= os.O_RDONLY if read_only else os.O_RDWR | os.O_APPEND
    fd = os.open(path, flags | (os.O_CREAT if create else 0), 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return fd
