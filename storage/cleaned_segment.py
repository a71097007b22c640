"""A segment that compaction writes: named `.cleaned` until it takes the place of others."""

from __future__ import annotations

from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.varint import INT32_MAX, Buffer
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, join
from minikafka.storage.formats import CLEANED_SUFFIX, AbortedTxn, parse_segment_name
from minikafka.storage.scanning import BatchAt
from minikafka.storage.segment import FILE_SUFFIXES, Segment

_WRITE_BYTES = 1 << 20


class CleanedSegment:
    """Batches are collected and written in large pieces."""

    def __init__(self, disk: Disk, directory: str, base_offset: int, config: LogConfig) -> None:
        self.base_offset = base_offset
        self._disk = disk
        self._segment = _Segment.create(disk, directory, base_offset, config)
        self._parts: list[Buffer] = []
        self._batches: list[BatchAt] = []
        self._unwritten_bytes = 0

    @property
    def size(self) -> int:
        return self._segment.size + self._unwritten_bytes

    def has_room_for(self, batch: BatchView) -> bool:
        """Positions in an index have 31 bits."""
        return self.size + batch.size <= INT32_MAX

    def add(self, batch: BatchView, aborted: AbortedTxn | None) -> None:
        """Take a batch, and the transaction that ends with it if it was aborted."""
        at = self._unwritten_bytes
        self._batches.append(
            BatchAt(at, batch.size, batch.base_offset, batch.last_offset, batch.max_timestamp, batch.leader_epoch)
        )
        self._parts.append(batch.data)
        self._unwritten_bytes += batch.size
        if aborted is not None:
            self._segment.txn_index.append(aborted)
        if self._unwritten_bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._parts:
            self._segment.append(b"".join(self._parts), self._batches)
        self._parts, self._batches, self._unwritten_bytes = [], [], 0

    def finish(self) -> None:
        """Have everything on disk, but for the names."""
        self._write()
        self._segment.seal()
        self._segment.sync()
        self._segment.close()

    def discard(self) -> None:
        self._segment.close()
        for suffix in FILE_SUFFIXES:
            path = self._segment.path(suffix)
            if self._disk.exists(path):
                self._disk.unlink(path)


class _Segment(Segment):
    """A segment with other names."""

    def path(self, suffix: str) -> str:
        return super().path(suffix) + CLEANED_SUFFIX


def discard_cleaned(disk: Disk, directory: str) -> None:
    """Remove whatever an earlier compaction left behind before it came to be used."""
    for name in disk.list(directory):
        if name.endswith(CLEANED_SUFFIX) and parse_segment_name(name) is not None:
            disk.unlink(join(directory, name))
