"""Disk space for a part of a file that has not been written yet, on any file system."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Final

# What a file system without fallocate answers. EBADF is glibc's: it writes to the blocks itself then, but not with
# O_APPEND.
_NO_FALLOCATE: Final = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV, errno.EBADF)
_ZEROS: Final = bytes(1 << 16)


def allocate(fd: int, position: int, size: int) -> None:
    """Set space aside; a file system that cannot gets zeros written. Nobody else may be writing through `fd`."""
    try:
        os.posix_fallocate(fd, position, size)
    except OSError as error:
        if error.errno not in _NO_FALLOCATE:
            raise
        _write_zeros(fd, position, size)


def _write_zeros(fd: int, position: int, size: int) -> None:
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    # With O_APPEND, Linux writes at the end of the file whatever the position.
    fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_APPEND)
    try:
        end = position + size
        while position < end:
            position += os.pwrite(fd, _ZEROS[: end - position], position)
    finally:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)
