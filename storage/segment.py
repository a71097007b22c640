"""One segment: a file of batches, its indexes, and how far they go.

The last segment of a log is written to, all others are sealed: their files never change again but by
being replaced or deleted whole.  Files of sealed segments are opened when first needed, so opening a
log costs no more than listing its directory.

The ends of indexes are checked against the batches when they are loaded, every other entry when it is
used; an index that is wrong is rebuilt from the log.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.varint import Buffer
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, File, join
from minikafka.storage.errors import CorruptLog
from minikafka.storage.formats import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    AbortedTxn,
    BadFile,
    deleted_suffix,
    segment_name,
)
from minikafka.storage.index import RELATIVE_OFFSET_MAX, OffsetIndex, TimeIndex, TimestampOffset
from minikafka.storage.scanning import BatchAt, Section, scan
from minikafka.storage.tail import Tail
from minikafka.storage.txn_index import TransactionIndex

FILE_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


class RollLimits(NamedTuple):
    """How large, and how old, a segment may become."""

    bytes_max: int
    age_ms_max: int


class Segment:
    """Batches from `base_offset` on; `size` bytes of them."""

    def __init__(self, disk: Disk, directory: str, base_offset: int, config: LogConfig, *, size: int) -> None:
        self.base_offset = base_offset
        self.size = size
        self.is_sealed = True
        self._disk = disk
        self._directory = directory
        self.log_path = self.path(LOG_SUFFIX)
        self._interval_bytes = config.index_interval_bytes
        self._since_index_bytes = 0
        self._is_index_full = False
        self._file: File | None = None
        self._largest: TimestampOffset | None = None
        self._first_timestamp: int | None = None
        self._indexes_loaded = False
        self._is_txn_index_checked = False
        self._deleted_suffix: str | None = None
        self.offset_index = OffsetIndex(disk, self.path(INDEX_SUFFIX), base_offset, config.segment_index_bytes)
        self.time_index = TimeIndex(disk, self.path(TIME_INDEX_SUFFIX), base_offset, config.segment_index_bytes)
        self.txn_index = TransactionIndex(disk, self.path(TXN_INDEX_SUFFIX), base_offset)
        self.tail = Tail(base_offset, 0)

    @classmethod
    def create(cls, disk: Disk, directory: str, base_offset: int, config: LogConfig) -> Segment:
        """A new segment to write to."""
        made = cls(disk, directory, base_offset, config, size=0)
        made._file = disk.open(made.log_path, create=True)
        made.is_sealed = False
        made._indexes_loaded = True
        made._largest = TimestampOffset(-1, base_offset)
        return made

    def path(self, suffix: str) -> str:
        return join(self._directory, segment_name(self.base_offset) + suffix)

    def written_ms(self) -> int:
        """When its file was last written to, by the wall clock."""
        return self._disk.mtime_ms(self.log_path)

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.log_path)
        return self._file

    def section(self, start: int = 0, limit: int | None = None) -> Section:
        return Section(self.log_path, self.file, start, self.size if limit is None else limit)

    def batches(self, start: int = 0) -> Iterator[BatchAt]:
        section = self.section(start)
        return scan(section, section.file.read)

    # ---------------------------------------------------------------------------------- writing

    def append(self, data: Buffer, batches: Sequence[BatchAt]) -> None:
        """Write batches in one go; their positions count from the start of the data."""
        start = self._write(data)
        for batch in batches:
            self.note(start + batch.position, batch.size, batch.last_offset, batch.max_timestamp)
            self.tail.add(batch.last_offset + 1, start + batch.end)

    def append_batch(self, batch: BatchView, last_offset: int) -> None:
        """Write one batch, without a detour."""
        size, max_timestamp = batch.size, batch.max_timestamp
        start = self._write(batch.data)
        assert self._largest is not None
        if max_timestamp > self._largest.timestamp or self._since_index_bytes > self._interval_bytes or not start:
            self.note(start, size, last_offset, max_timestamp)
        else:
            self._since_index_bytes += size
        self.tail.add(last_offset + 1, start + size)

    def _write(self, data: Buffer) -> int:
        """Put data at the end of the file; where that was."""
        assert not self.is_sealed
        file, start = self._file or self.file, self.size
        try:
            file.append((data,))
        except OSError:
            file.truncate(start)
            raise
        self.size = start + len(data)
        return start

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Take a batch into account that is in the file now: timestamps, and now and then an index entry."""
        assert self._largest is not None
        if max_timestamp > self._largest.timestamp:
            self._largest = TimestampOffset(max_timestamp, last_offset)
        if position == 0:
            self._first_timestamp = max_timestamp
        if self._since_index_bytes > self._interval_bytes and not self.offset_index.is_full:
            self._index(position, last_offset)
        self._since_index_bytes += size

    def _index(self, position: int, last_offset: int) -> None:
        assert self._largest is not None
        try:
            # In this order, so that no batch before the last offset entry has a time that is not known.
            self.time_index.maybe_append(*self._largest)
            self.offset_index.append(last_offset, position)
        except OSError as error:
            # The log has the batch and an index can do without an entry; the next batch will tell
            # its producer that the disk is full.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        self._since_index_bytes = 0
        self._is_index_full = self.offset_index.is_full or self.time_index.is_full

    def is_full(self, limits: RollLimits, size: int, last_offset: int, timestamp: int) -> bool:
        """Whether a batch of this size and time, which is not negative, belongs in a new segment."""
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        bytes_max, age_ms_max = limits
        first = self._first_timestamp
        return self.size > 0 and (
            self.size + size > bytes_max
            or self._is_index_full
            or (first is not None and timestamp - first > age_ms_max and first >= 0)
        )

    def seal(self) -> None:
        """No more writing: the time index gets its last entry, both indexes are trimmed."""
        self.time_index.maybe_append(*self.largest, is_last=True)
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
        """Have the indexes of a sealed segment at hand, rebuilding them if they cannot be right."""
        if self._indexes_loaded:
            return
        try:
            self.offset_index.load()
            self.time_index.load()
            if not self.time_index.count and not self._may_be_without_times():
                raise BadFile(f"{self.time_index.path}: has no entries")
            self._check_last_entries()
            self._indexes_loaded = True
        except BadFile:
            self.rebuild_indexes()

    def _may_be_without_times(self) -> bool:
        """Sealing adds an entry at least, unless no record has a timestamp; then a file without entries is right.

        One that has lost its entries to a crash is not met here, since recovery rebuilds what was not synced.
        """
        if not self.size:
            return True
        return self._disk.exists(self.time_index.path) and self.first_timestamp < 0

    def _check_last_entries(self) -> None:
        """BadFile unless the batches that the last entries are about are there."""
        if self.offset_index.count and not self._is_batch(
            self.offset_index.last_position, self.offset_index.last_offset
        ):
            raise BadFile(f"{self.offset_index.path}: the last entry points at no batch")
        if self.time_index.count and not self._has_timestamp(self.time_index.last):
            raise BadFile(f"{self.time_index.path}: the last entry is about no batch")

    def _is_batch(self, position: int, offset: int) -> bool:
        """Whether a batch begins there, and not after the offset.

        Of several batches that came together Kafka notes the position of the first and the last offset of the last.
        """
        try:
            first = next(self.batches(position), None) if position < self.size else None
        except CorruptLog:
            return False
        return first is not None and self.base_offset <= first.base_offset <= offset

    def _has_timestamp(self, largest: TimestampOffset) -> bool:
        try:
            for batch in self.batches(self.position_before(largest.offset)):
                if batch.last_offset >= largest.offset:
                    return batch.max_timestamp == largest.timestamp and batch.base_offset <= largest.offset
        except CorruptLog:
            pass
        return False

    def position_before(self, offset: int) -> int:
        """Where a batch begins that is not after the offset, mostly near it."""
        entry = self.offset_index.lookup(offset)
        return entry.position if self._is_batch(entry.position, offset) else 0

    def position_near(self, position: int) -> int:
        """Where a batch begins at or before a position, mostly near it."""
        entry = self.offset_index.lookup_position(position)
        return entry.position if 0 <= entry.position <= position and self._is_batch(entry.position, entry.offset) else 0

    def aborted(self, from_offset: int, to_offset: int) -> tuple[list[AbortedTxn], bool]:
        """As `TransactionIndex.collect`; BadFile if the index cannot be right."""
        if not self._is_txn_index_checked:
            self.txn_index.sanity_check()
            self._is_txn_index_checked = True
        return self.txn_index.collect(from_offset, to_offset)

    def rebuild_indexes(self) -> None:
        """Both indexes from the batches, up to the first that is bad."""
        self._clear_indexes()
        try:
            for batch in self.batches():
                if (
                    not self.base_offset
                    <= batch.base_offset
                    <= batch.last_offset
                    <= self.base_offset + RELATIVE_OFFSET_MAX
                ):
                    break
                self.note(batch.position, batch.size, batch.last_offset, batch.max_timestamp)
        except CorruptLog:
            pass  # whoever reads the bad batch is told; the index only has to be right up to it
        self._finish_indexes()

    def _finish_indexes(self) -> None:
        if self.is_sealed:
            self.seal()
            self.offset_index.sync()
            self.time_index.sync()

    def _clear_indexes(self) -> None:
        self._indexes_loaded = True
        self._largest = TimestampOffset(-1, self.base_offset)
        self._since_index_bytes = 0
        for index in (self.offset_index, self.time_index):
            index.close()
            index.clear()
            if self._disk.exists(index.path):
                self._disk.unlink(index.path)

    # ---------------------------------------------------------------------------------- shortening

    def reopen(self) -> int:
        """Make the last segment of a log writable again; the offset after its last batch."""
        self.load_indexes()
        # The time index may end before the last batches.
        largest, next_offset = self.time_index.last, self.offset_index.last_offset + 1
        self._since_index_bytes = self.size - self.offset_index.last_position
        for batch in self.batches(self.offset_index.last_position):
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
            next_offset = batch.last_offset + 1
        if self.offset_index.last_offset >= next_offset:
            # An entry about batches that are not there; new ones would have to come before it.
            self.rebuild_indexes()
            return self.reopen()
        self._largest = largest
        self._is_index_full = self.offset_index.is_full or self.time_index.is_full
        assert self.first_timestamp is not None
        self.is_sealed = False
        self.tail = Tail(next_offset, self.size)
        return next_offset

    def truncate(self, size: int, next_offset: int) -> None:
        """Keep the first `size` bytes, which end before `next_offset`, and go on writing from there.

        The transaction index is left to the caller, who can have a bad one restored.
        """
        self.load_indexes()
        self._shorten(size)
        self._first_timestamp = None
        try:
            self.offset_index.truncate_to(next_offset)
            self.time_index.truncate_to(next_offset)
            self._check_last_entries()
        except BadFile:
            self.rebuild_indexes()
        self.reopen()
        # Compaction may have left offsets without records before it.
        self.tail = Tail(next_offset, self.size)

    def begin_recovery(self) -> None:
        """After a crash: all batches will be noted, and the caller fills the transaction index."""
        self.txn_index.reset()
        self._clear_indexes()

    def end_recovery(self, size: int, *, is_last: bool) -> None:
        """The first `size` bytes were good; the rest goes."""
        if size < self.size:
            self._shorten(size)
        self.is_sealed = not is_last
        self._finish_indexes()

    def _shorten(self, size: int) -> None:
        """On return this is on disk: what was cut off must not come back behind, or between, what is written next."""
        self.file.truncate(size)
        self.file.sync()
        self.size = size

    # ---------------------------------------------------------------------------------- files

    def sync(self) -> None:
        self.file.sync()
        self.offset_index.sync()
        self.time_index.sync()
        self.txn_index.sync()

    def rename_deleted(self, number: int) -> None:
        """Out of the way of a new segment with the same name; what is in them stays readable.

        The number sets the files apart from those of an earlier segment with the same name, which may be there still.
        """
        mark = self._deleted_suffix = deleted_suffix(number)
        for suffix in FILE_SUFFIXES:
            if self._disk.exists(self.path(suffix)):
                self._disk.rename(self.path(suffix), self.path(suffix) + mark)
        self.log_path = self.path(LOG_SUFFIX) + mark
        self.offset_index.path = self.path(INDEX_SUFFIX) + mark
        self.time_index.path = self.path(TIME_INDEX_SUFFIX) + mark
        self.txn_index.path = self.path(TXN_INDEX_SUFFIX) + mark

    def unlink_deleted(self) -> None:
        """Unlink the files of a segment that has left the log; one whose name another has taken over has none."""
        self.close()
        if self._deleted_suffix is None:
            return
        for suffix in FILE_SUFFIXES:
            path = self.path(suffix) + self._deleted_suffix
            if self._disk.exists(path):
                self._disk.unlink(path)

    def close(self) -> None:
        self.offset_index.close()
        self.time_index.close()
        self.txn_index.close()
        if self._file is not None:
            self._file.close()
        self._file = None
        self._indexes_loaded = False
        self._is_txn_index_checked = False
