"""What a path of a log directory leads to, for the tools that look at one from outside.

A path may be a whole log directory, the directory of a partition, or one file. Which it is follows from names alone.
The broker may be running: files come and go while one looks, and the segment with the largest base offset is the one
that it may be writing to. Apache Kafka, unlike us, may also shorten other segments in place; that needs a follower
which truncates at this very moment.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.storage.disk import Disk, File, Mapping, join, parent
from minikafka.storage.formats import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_CHECKPOINT,
    DELETE_DIR_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    TIME_INDEX_SUFFIX,
    mark_of,
    parse_marked_dir,
    parse_partition_dir,
    parse_segment_name,
)
from minikafka.storage.scanning import Read, Section
from minikafka.storage.small_files import read_small

OFFSET_CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    LOG_START_CHECKPOINT,
    CLEANER_CHECKPOINT,
)
LOG_DIR_FILES: Final = (META_PROPERTIES_FILE, CLEAN_SHUTDOWN_FILE, *OFFSET_CHECKPOINTS)
PARTITION_FILES: Final = (PARTITION_METADATA_FILE, LEADER_EPOCH_CHECKPOINT)
SMALL_BYTES_MAX: Final = 256 << 20
_INDEX_CHUNK_BYTES: Final = 1 << 14


class NotALog(Exception):
    """The path leads to nothing that these tools know."""


class FoundFile(NamedTuple):
    """One file. Those that belong to no segment have their name as kind and -1 as base offset."""

    path: str
    kind: str
    base_offset: int
    # Whether a running broker may be writing to it.
    is_active: bool

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def content(self) -> str:
        """The kind without the mark of a file that is on its way out or in, as in `.log.deleted`."""
        return self.kind.removesuffix(self.mark)

    @property
    def mark(self) -> str:
        return mark_of(self.kind)


class FoundPartition(NamedTuple):
    """A partition's directory, and its files by segment."""

    path: str
    topic: str | None
    files: list[FoundFile]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Found(NamedTuple):
    """What a path leads to; the files are those of a log directory itself."""

    files: list[FoundFile]
    partitions: list[FoundPartition]


def find(disk: Disk, path: str, *, whole_segments: bool = False) -> Found:
    """What is at a path; NotALog if it is nothing of a log. One file of a segment may stand for all of them."""
    path = disk.resolve(path)
    if not disk.exists(path):
        raise NotALog(f"{path}: there is no such file or directory")
    if not disk.is_dir(path):
        return _find_file(disk, path, whole_segments)
    # By what is in it: a log directory may well be called `broker-1`.
    partition = _partition(disk, path)
    found = Found([], [partition]) if partition.files else _find_log_dir(disk, path)
    # Other programs have directories named like partitions, too.
    if not found.files and not any(partition.files for partition in found.partitions):
        raise NotALog(f"{path}: neither a log directory nor the directory of a partition")
    return found


def _find_log_dir(disk: Disk, path: str) -> Found:
    names = disk.list(path)
    files = [FoundFile(join(path, name), name, -1, False) for name in LOG_DIR_FILES if name in names]
    inside = [join(path, name) for name in names if parse_partition_dir(name) or _is_kept(name)]
    return Found(files, [_partition(disk, each) for each in inside if disk.is_dir(each)])


def _is_kept(name: str) -> bool:
    """Whether a partition's directory is put aside, but not to be deleted."""
    marked = parse_marked_dir(name)
    return marked is not None and marked.suffix != DELETE_DIR_SUFFIX


def _find_file(disk: Disk, path: str, whole_segments: bool) -> Found:
    name = path.rpartition("/")[2]
    if name in LOG_DIR_FILES:
        return Found([FoundFile(path, name, -1, False)], [])
    partition = _partition(disk, parent(path))
    files = [file for file in partition.files if file.path == path]
    if not files:
        raise NotALog(f"{path}: not the name of any file of a log")
    if whole_segments and files[0].base_offset >= 0:
        key = files[0].base_offset, files[0].mark
        files = [file for file in partition.files if (file.base_offset, file.mark) == key]
    return Found([], [partition._replace(files=files)])


def _partition(disk: Disk, path: str) -> FoundPartition:
    name = path.rpartition("/")[2]
    topic = parse_partition_dir(name) or parse_marked_dir(name)
    return FoundPartition(path, topic[0] if topic else None, _partition_files(disk, path))


def _partition_files(disk: Disk, path: str) -> list[FoundFile]:
    """The files that tell something, first those of the partition, then segment by segment."""
    names = _names(disk, path)
    parsed = [(*found, name) for name in names if (found := parse_segment_name(name))]
    active = max((base_offset for base_offset, kind, _ in parsed if kind == LOG_SUFFIX), default=-1)
    files = [FoundFile(join(path, name), name, -1, False) for name in PARTITION_FILES if name in names]
    for base_offset, kind, name in sorted(parsed):
        files.append(FoundFile(join(path, name), kind, base_offset, base_offset >= active))
    return files


def _names(disk: Disk, path: str) -> list[str]:
    try:
        return disk.list(path)
    except FileNotFoundError:
        return []  # deleted since its name was read


def read_found(disk: Disk, found: FoundFile) -> bytes | None:
    """The contents of a file, None if it is gone; of an index that is being written, up to the hole at its end."""
    if not found.is_active or found.content not in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        return read_small(disk, found.path, SMALL_BYTES_MAX)
    # Such a file has 10 MB, nearly all of it zeros, and there may be thousands.
    try:
        file = disk.open(found.path, read_only=True)
    except FileNotFoundError:
        return None
    try:
        data = b""
        while any(chunk := bytes(file.read(len(data), _INDEX_CHUNK_BYTES))):
            data += chunk
        return data + chunk
    finally:
        file.close()


class OpenSegment:
    """The batches of a segment's file as they are now: mapped, or read where the broker may cut off what it wrote."""

    def __init__(self, disk: Disk, found: FoundFile) -> None:
        self.path = found.path
        self._file: File = disk.open(found.path, read_only=True)
        self._mapping: Mapping | None = None
        self.size = self._file.size()
        if not found.is_active:
            self._mapping = self._file.map(self.size, writable=False)

    @property
    def section(self) -> Section:
        return Section(self.path, self._file, 0, self.size)

    @property
    def read(self) -> Read:
        if self._mapping is None:
            return self._file.read
        view = self._mapping.view
        return lambda position, size: view[position : position + size]

    def close(self) -> None:
        if self._mapping is not None:
            self._mapping.close()
        self._file.close()
