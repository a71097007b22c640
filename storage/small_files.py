"""Small files: read whole, replaced whole.

A small file is never changed in place. Its next contents are written beside it, brought to disk, and then take its
name; whoever looks at any moment, also after a crash, finds the old contents or the new and nothing between.
"""

from __future__ import annotations

from minikafka.storage.disk import Disk, parent
from minikafka.storage.formats import TMP_SUFFIX, BadFile


def read_small(disk: Disk, path: str, max_bytes: int) -> bytes | None:
    """The contents, or None if there is no such file; BadFile if it is larger than such a file can be."""
    try:
        file = disk.open(path, read_only=True)
    except FileNotFoundError:
        return None
    try:
        data = bytes(file.read(0, max_bytes + 1))
    finally:
        file.close()
    if len(data) > max_bytes:
        raise BadFile(f"{path} has more than {max_bytes} bytes", max_bytes)
    return data


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Write a file anew; on return its contents and its name are on disk."""
    _write(disk, path, data, is_synced=True)
    disk.fsync_dir(parent(path))


def write_unsynced(disk: Disk, path: str, data: bytes) -> None:
    """Write a file anew without waiting for the disk; after a crash it may hold anything, so its readers check it."""
    _write(disk, path, data, is_synced=False)


def _write(disk: Disk, path: str, data: bytes, *, is_synced: bool) -> None:
    tmp = path + TMP_SUFFIX
    file = disk.open(tmp, create=True)
    try:
        # What an earlier attempt left behind.
        file.truncate(0)
        file.append([data])
        if is_synced:
            file.sync()
    finally:
        file.close()
    disk.rename(tmp, path)
