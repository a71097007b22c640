"""What is done with a log directory before its partitions are loaded: made, told clean from unclean, looked through."""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.protocol.errors import InvalidTopicError
from minikafka.storage.checkpoints import Partition
from minikafka.storage.disk import Disk, join, parent
from minikafka.storage.errors import CorruptLog
from minikafka.storage.formats import (
    CLEAN_SHUTDOWN_FILE,
    DELETE_DIR_SUFFIX,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    BadFile,
    check_topic_name,
    parse_clean_shutdown,
    parse_marked_dir,
    parse_partition_dir,
    parse_partition_metadata,
    partition_dir,
)
from minikafka.storage.small_files import read_small

_SMALL_BYTES_MAX: Final = 4096
_NAME_BYTES_MAX: Final = 255


class Contents(NamedTuple):
    """What is in a log directory."""

    partitions: list[Partition]
    to_delete: list[str]
    """Paths of partitions that were deleted and whose files are still there."""
    notes: list[str]


def make_dir(disk: Disk, path: str) -> None:
    """Make a directory and those above it, so that they are there after a power cut too."""
    missing: list[str] = []
    above = path
    while not disk.exists(above) and above != parent(above):
        missing.append(above)
        above = parent(above)
    disk.mkdir(path)
    for made in reversed(missing):
        disk.fsync_dir(parent(made))


def last_written_ms(disk: Disk, path: str) -> int | None:
    """When a broker was last at work in a directory, as far as its checkpoints tell; None if there are none.

    A file system without times, where all files are from the beginning of time, tells nothing.
    """
    names = (CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT)
    found = [disk.mtime_ms(join(path, name)) for name in names if disk.exists(join(path, name))]
    return max(found, default=0) or None


def take_clean_marker(disk: Disk, path: str, notes: list[str]) -> int | None:
    """The broker epoch with which the directory was stopped in good order, None if it was not.

    From now on, also after a power cut, it does not look so.
    """
    marker = join(path, CLEAN_SHUTDOWN_FILE)
    if not disk.exists(marker):
        return None
    epoch: int | None = None
    try:
        # For Kafka it counts that there is a file.  But one that nobody wrote like that is nothing to rely on.
        epoch = parse_clean_shutdown(read_small(disk, marker, _SMALL_BYTES_MAX) or b"")
    except BadFile as error:
        notes.append(f"{marker} is bad and does not count: {error}")
    disk.unlink(marker)
    disk.fsync_dir(path)
    return epoch


def look_through(disk: Disk, path: str) -> Contents:
    """All names in a log directory; those that are not ours are left alone."""
    found = Contents([], [], [])
    for name in disk.list(path):
        partition, marked = parse_partition_dir(name), parse_marked_dir(name)
        if marked is not None and marked.suffix == DELETE_DIR_SUFFIX:
            found.to_delete.append(join(path, name))
        elif marked is not None:
            found.notes.append(f"{join(path, name)} is no longer in use, and kept")
        elif partition is not None:
            found.partitions.append(partition)
        elif disk.is_dir(join(path, name)):
            found.notes.append(f"{join(path, name)} is not a partition, and left alone")
    return found


def read_topic_id(disk: Disk, directory: str) -> bytes | None:
    """Of a partition; None if it has none, CorruptLog if what is there is bad."""
    path = join(directory, PARTITION_METADATA_FILE)
    try:
        data = read_small(disk, path, _SMALL_BYTES_MAX)
        return None if data is None else parse_partition_metadata(data)
    except BadFile as error:
        # Without the id there is no telling this from the data of an earlier topic of the same name.
        raise CorruptLog(path, error.position, error.reason) from None


def checked_dir_name(partition: Partition) -> str:
    """The name of a partition's directory; InvalidTopicError if no partition can have it."""
    check_topic_name(partition[0])
    name = partition_dir(*partition)
    # A topic's name may take 249 characters, which leaves room for five digits.
    if parse_partition_dir(name) != partition or len(name) > _NAME_BYTES_MAX:
        raise InvalidTopicError(f"{name[:300]!r} cannot be the name of a partition's directory")
    return name
