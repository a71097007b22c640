"""One segment: a file of batches, its indexes, and how far they go.

The last segment of a log is written to, all others are sealed: their files never change again but by
being replaced or deleted whole.  Files of sealed segments are opened when first needed, so opening a
log costs no more than listing its directory.

Indexes are checked when they are loaded and rebuilt from the log when something is wrong with them.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Final

from minikafka.protocol.varint import Buffer
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, File, join
from minikafka.storage.errors import CorruptLog
from minikafka.storage.formats import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    BadFile,
    segment_name,
)
from minikafka.storage.index import RELATIVE_OFFSET_MAX, OffsetIndex, TimeIndex, TimestampOffset
from minikafka.storage.scanning import BatchAt, Section, scan
from minikafka.storage.tail import Tail
from minikafka.storage.txn_index import TransactionIndex

FILE_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


class Segment:
    """Batches from `base_offset` on; `size` bytes of them."""

    def __init__(self, disk: Disk, directory: str, base_offset: int, config: LogConfig, *, size: int) -> None:
        self.base_offset = base_offset
        self.size = size
        self.is_sealed = True
        self._disk = disk
        self._directory = directory
        self._interval_bytes = config.index_interval_bytes
        self._since_index_bytes = 0
        self._file: File | None = None
        self._largest: TimestampOffset | None = None
        self._first_timestamp: int | None = None
        self._indexes_loaded = False
        self.offset_index = OffsetIndex(disk, self.path(INDEX_SUFFIX), base_offset, config.segment_index_bytes)
        self.time_index = TimeIndex(disk, self.path(TIME_INDEX_SUFFIX), base_offset, config.segment_index_bytes)
        self.txn_index = TransactionIndex(disk, self.path(TXN_INDEX_SUFFIX), base_offset)
        self.tail = Tail(base_offset, 0)

    @classmethod
    def create(cls, disk: Disk, directory: str, base_offset: int, config: LogConfig) -> Segment:
        """A new segment to write to."""
        made = cls(disk, directory, base_offset, config, size=0)
        made._file = disk.open(made.path(LOG_SUFFIX), create=True)
        made.is_sealed = False
        made._indexes_loaded = True
        made._largest = TimestampOffset(-1, base_offset)
        return made

    def path(self, suffix: str) -> str:
        return join(self._directory, segment_name(self.base_offset) + suffix)

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path(LOG_SUFFIX))
        return self._file

    def section(self, start: int = 0, limit: int | None = None) -> Section:
        return Section(self.path(LOG_SUFFIX), self.file, start, self.size if limit is None else limit)

    def batches(self, start: int = 0) -> Iterator[BatchAt]:
        section = self.section(start)
        return scan(section, section.file.read)

    # ---------------------------------------------------------------------------------- writing

    def append(self, data: Buffer, batches: Sequence[BatchAt]) -> None:
        """Write batches in one go; their positions count from the start of the data."""
        assert not self.is_sealed
        try:
            self.file.append((data,))
        except OSError:
            self.file.truncate(self.size)
            raise
        for batch in batches:
            self.note(batch._replace(position=self.size + batch.position))
            self.tail.add(batch.last_offset + 1, self.size + batch.end)
        self.size += len(data)

    def note(self, batch: BatchAt) -> None:
        """Take a batch into account that is in the file now: timestamps, and now and then an index entry."""
        assert self._largest is not None
        if batch.max_timestamp > self._largest.timestamp:
            self._largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
        if batch.position == 0:
            self._first_timestamp = batch.max_timestamp
        if self._since_index_bytes > self._interval_bytes and not self.offset_index.is_full:
            self._index(batch)
        self._since_index_bytes += batch.size

    def _index(self, batch: BatchAt) -> None:
        assert self._largest is not None
        try:
            self.offset_index.append(batch.last_offset, batch.position)
            self.time_index.maybe_append(*self._largest)
        except OSError as error:
            # The log has the batch and an index can do without an entry; the next batch will tell
            # its producer that the disk is full.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        self._since_index_bytes = 0

    def is_due_to_roll(self, config: LogConfig, size: int, last_offset: int, timestamp: int) -> bool:
        """Whether a batch of this size and time belongs in a new segment."""
        if self.size == 0:
            return False
        first = self._first_timestamp
        waited_ms = timestamp - first if first is not None and first >= 0 <= timestamp else 0
        return (
            self.size > config.segment_bytes - size
            or waited_ms > config.segment_ms
            or self.offset_index.is_full
            or self.time_index.is_full
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        )

    def seal(self) -> None:
        """No more writing: the time index gets its last entry, both indexes are trimmed."""
        self.time_index.maybe_append(*self.largest)
        self.offset_index.seal()
        self.time_index.seal()
        self.is_sealed = True

    # ---------------------------------------------------------------------------------- looking up

    @property
    def largest(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the batch that has it; -1 without any."""
        if self._largest is None:
            self.load_indexes()
            self._largest = self.time_index.last
        return self._largest

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, from which the age of a segment counts."""
        if self._first_timestamp is None:
            first = next(self.batches(), None)
            self._first_timestamp = -1 if first is None else first.max_timestamp
        return self._first_timestamp

    def load_indexes(self) -> None:
        """Map the indexes of a sealed segment, rebuilding them if they cannot be right."""
        if self._indexes_loaded:
            return
        self._indexes_loaded = True
        try:
            self.offset_index.load()
            self.time_index.load()
            self._check_last_entries()
        except BadFile:
            self.rebuild_indexes()

    def _check_last_entries(self) -> None:
        if self.offset_index.count and self.offset_index.lookup(self.offset_index.last_offset).position >= self.size:
            raise BadFile(f"{self.offset_index.path}: points past the end of the log")
        if self.size and not self._disk.exists(self.time_index.path):
            raise BadFile(f"{self.time_index.path}: is missing")

    def rebuild_indexes(self) -> list[BatchAt]:
        """Both indexes from the batches, up to the first that is bad; returns the batches."""
        self._reset_indexes()
        self._indexes_loaded = True
        self._largest = TimestampOffset(-1, self.base_offset)
        self._since_index_bytes = 0
        found = []
        try:
            for batch in self.batches():
                self.note(batch)
                found.append(batch)
        except CorruptLog:
            pass  # whoever reads the bad batch is told; the index only has to be right up to it
        if self.is_sealed:
            self.seal()
        return found

    def _reset_indexes(self) -> None:
        for index in (self.offset_index, self.time_index):
            index.close()
            index.clear()
            if self._disk.exists(index.path):
                self._disk.unlink(index.path)

    # ---------------------------------------------------------------------------------- shortening

    def reopen(self, next_offset: int) -> None:
        """Make the last segment of a log writable again."""
        self.load_indexes()
        self._largest = self._largest_of_tail()
        assert self.first_timestamp is not None
        self.is_sealed = False
        self.tail = Tail(next_offset, self.size)

    def _largest_of_tail(self) -> TimestampOffset:
        """The time index may end before the last batches: walk those."""
        largest = self.time_index.last
        last_entry = self.offset_index.lookup(self.offset_index.last_offset)
        self._since_index_bytes = self.size - last_entry.position
        for batch in self.batches(last_entry.position):
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
        return largest

    def truncate(self, size: int, next_offset: int) -> None:
        """Keep the first `size` bytes, which end before `next_offset`, and go on writing from there."""
        self.load_indexes()
        self.offset_index.truncate_to(next_offset)
        self.time_index.truncate_to(next_offset)
        self.txn_index.truncate_to(next_offset)
        self.file.truncate(size)
        self.size = size
        self._first_timestamp = None
        self.reopen(next_offset)

    def recover(self, size: int) -> None:
        """After a crash: keep the first `size` bytes, all of them good, and build the indexes from them."""
        if size < self.size:
            self.file.truncate(size)
            self.size = size
        self.txn_index.reset()
        self.rebuild_indexes()

    # ---------------------------------------------------------------------------------- files

    def sync(self) -> None:
        self.file.sync()
        self.offset_index.sync()
        self.time_index.sync()
        self.txn_index.sync()

    def rename_deleted(self) -> None:
        """Out of the way of a new segment with the same name; open files stay readable."""
        for suffix in FILE_SUFFIXES:
            if self._disk.exists(self.path(suffix)):
                self._disk.rename(self.path(suffix), self.path(suffix) + DELETED_SUFFIX)

    def unlink_deleted(self) -> None:
        self.close()
        for suffix in FILE_SUFFIXES:
            if self._disk.exists(self.path(suffix) + DELETED_SUFFIX):
                self._disk.unlink(self.path(suffix) + DELETED_SUFFIX)

    def close(self) -> None:
        self.offset_index.close()
        self.time_index.close()
        self.txn_index.close()
        if self._file is not None:
            self._file.close()
        self._file = None
        self._indexes_loaded = False
