"""Sparse indexes over a segment, in a memory map.

The offset index maps the last offset of a batch to the position of that batch; the time index maps
the largest timestamp so far to the last offset of the batch that has it.  Both hold an entry for
about every `index.interval.bytes` of log, in growing order, so a lookup bisects and the reader walks on
from there.  Offsets are relative to the segment's base offset, as they take four bytes.

The file of a segment that is being written is grown to its full size, which is a hole without disk
space, and trimmed when the segment is sealed.  Space is reserved page by page before it is written to:
a full disk is then an OSError and not a signal.  An index only ever speeds things up: whoever uses an entry
checks it against the batch it points at, and whatever is wrong here is rebuilt from the log.

The one thing that is believed is which timestamp is the largest, by the last entry.  So a file must not
come back from a power cut as it was when its segment had fewer batches: before it is written to again,
its new size gets to disk (`has_grown`), and from then on lost entries show as zeros at the end.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from minikafka.storage.disk import Disk, Mapping
from minikafka.storage.formats import OFFSET_ENTRY, TIME_ENTRY, BadFile

RELATIVE_OFFSET_MAX: Final = 2**31 - 1

_RESERVED_BYTES: Final = 4096


class OffsetPosition(NamedTuple):
    offset: int
    position: int


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class _Index:
    """Fixed-size entries in a map: what both kinds have in common."""

    _entry: Struct

    def __init__(self, disk: Disk, path: str, base_offset: int, bytes_max: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.count = 0
        self._disk = disk
        self._count_max = bytes_max // self._entry.size
        self._mapping: Mapping | None = None
        self._is_writable = False
        self._writable_count = 0
        """Up to how many entries there may be before more space has to be reserved."""
        self._unflushed: list[Mapping] = []
        self.has_grown = False
        """Whether a file that had entries was made longer since the last flush."""

    @property
    def is_full(self) -> bool:
        return self.count >= self._count_max

    @property
    def size_bytes(self) -> int:
        return self.count * self._entry.size

    def load(self) -> None:
        """Take over what is on disk; BadFile if it cannot be an index of this segment."""
        self.close()
        size = self._disk.size(self.path) if self._disk.exists(self.path) else 0
        if size % self._entry.size:
            raise BadFile(f"{self.path}: {size} bytes are not a whole number of entries")
        self.count = size // self._entry.size
        # Without a map: most indexes are loaded for their last entry only, and there may be thousands.
        self._set_last(self._read_entry(self.count - 1) if self.count else None)

    def _read_entry(self, number: int) -> tuple[int, int]:
        file = self._disk.open(self.path, read_only=True)
        try:
            data = file.read(number * self._entry.size, self._entry.size)
        finally:
            file.close()
        if len(data) != self._entry.size:
            raise BadFile(f"{self.path}: shorter than a moment ago")
        first, second = self._entry.unpack(data)
        return first, second

    def seal(self) -> None:
        """Trim the file to its entries; from now on it is only read."""
        mapping, self._mapping = self._mapping, None
        if mapping is not None:
            if self._is_writable:
                # Flushing waits for the disk, so that is for `sync` to do.
                self._unflushed.append(mapping)
            else:
                mapping.close()
        self._is_writable = False
        file = self._disk.open(self.path, create=True)
        try:
            if file.size() != self.size_bytes:
                file.truncate(self.size_bytes)
        finally:
            file.close()

    def sync(self) -> None:
        """Have the file on disk, on any thread; what is in a map that is being written, only as far as Linux does."""
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            return  # without entries, or renamed since by whoever retired the segment
        try:
            file.sync()
        finally:
            file.close()
        # In this order, since Python keeps all threads waiting while a map is flushed: there is nothing left to do now.
        while self._unflushed:
            mapping = self._unflushed.pop()
            mapping.flush()
            mapping.close()

    def close(self) -> None:
        if self._mapping is not None:
            self._mapping.close()
        self._mapping = None
        self._is_writable = False
        while self._unflushed:
            self._unflushed.pop().close()

    def clear(self) -> None:
        self.count = 0
        self._set_last(None)

    def _view(self) -> memoryview:
        if self._mapping is None:
            self._map(self.size_bytes, writable=False)
            assert self._mapping is not None
        return self._mapping.view

    def _put(self, first: int, second: int) -> None:
        if self.count >= self._writable_count or not self._is_writable:
            self._make_room()
        assert self._mapping is not None
        self._entry.pack_into(self._mapping.view, self.count * self._entry.size, first, second)
        self.count += 1

    def _put_last(self, first: int, second: int) -> None:
        """The entry after which the file is only read: for a single one a map would cost more than all the rest."""
        if self._is_writable:
            self._put(first, second)
            return
        if self._mapping is not None:
            self._mapping.close()
            self._mapping = None
        file = self._disk.open(self.path, create=True)
        try:
            file.truncate(self.size_bytes)
            file.append((self._entry.pack(first, second),))
        finally:
            file.close()
        self.count += 1

    def _make_room(self) -> None:
        if not self._is_writable:
            if self._mapping is not None:
                self._mapping.close()
                self._mapping = None
            self._map(self._count_max * self._entry.size, writable=True)
            self._writable_count = 0
            self.has_grown = self.count > 0
        if self.count >= self._writable_count:
            count = min(self._count_max, self.count + _RESERVED_BYTES // self._entry.size)
            file = self._disk.open(self.path)
            try:
                file.reserve(self.size_bytes, count * self._entry.size - self.size_bytes)
            finally:
                file.close()
            self._writable_count = count

    def _map(self, size: int, *, writable: bool) -> None:
        file = self._disk.open(self.path, create=writable)
        try:
            self._mapping = file.map(size, writable=writable)
        finally:
            file.close()
        self._is_writable = writable

    def _get(self, number: int) -> tuple[int, int]:
        first, second = self._entry.unpack_from(self._view(), number * self._entry.size)
        return first, second

    def _count_to(self, value: int, field: int) -> int:
        """How many entries come before the first with more than the value in a field; by bisecting."""
        low, high = 0, self.count
        if high:
            unpack, size, view = self._entry.unpack_from, self._entry.size, self._view()
            while low < high:
                middle = (low + high) // 2
                if unpack(view, middle * size)[field] > value:
                    high = middle
                else:
                    low = middle + 1
        return low

    def _cut(self, count: int) -> None:
        self.count = count
        self._set_last(self._get(count - 1) if count else None)

    def _set_last(self, last: tuple[int, int] | None) -> None:
        """Refresh what is derived from the last entry."""


class OffsetIndex(_Index):
    """Offset to position."""

    _entry = OFFSET_ENTRY

    def __init__(self, disk: Disk, path: str, base_offset: int, bytes_max: int) -> None:
        super().__init__(disk, path, base_offset, bytes_max)
        self.last_offset = base_offset - 1
        self.last_position = 0

    def append(self, offset: int, position: int) -> None:
        assert offset > self.last_offset, "index entries grow"
        self._put(offset - self.base_offset, position)
        self.last_offset = offset
        self.last_position = position

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or below the offset; before the first one, the start of the segment."""
        relative = offset - self.base_offset
        number = self._count_to(relative, field=0) - 1
        if number < 0:
            return OffsetPosition(self.base_offset - 1, 0)
        found, position = self._get(number)
        # Growing order is all that bisecting relies on, and a flipped bit may have broken it.
        if found > relative or position < 0:
            return OffsetPosition(self.base_offset - 1, 0)
        return OffsetPosition(self.base_offset + found, position)

    def lookup_position(self, position: int) -> OffsetPosition:
        """The last entry at or before a position; before the first one, the start of the segment."""
        number = self._count_to(position, field=1) - 1
        found, at = self._get(number) if number >= 0 else (-1, 0)
        return OffsetPosition(self.base_offset + found, at)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches that end at or after the offset."""
        self._cut(self._count_to(offset - self.base_offset - 1, field=0))

    def entries(self) -> list[OffsetPosition]:
        return [OffsetPosition(self.base_offset + o, p) for o, p in map(self._get, range(self.count))]

    def _set_last(self, last: tuple[int, int] | None) -> None:
        relative, self.last_position = (-1, 0) if last is None else last
        self.last_offset = self.base_offset + relative
        if last is not None and (relative < 0 or self.last_position < 0):
            raise BadFile(f"{self.path}: last entry {relative}, {self.last_position}")


class TimeIndex(_Index):
    """Timestamp to offset."""

    _entry = TIME_ENTRY

    def __init__(self, disk: Disk, path: str, base_offset: int, bytes_max: int) -> None:
        super().__init__(disk, path, base_offset, bytes_max)
        self.last = TimestampOffset(-1, base_offset)

    @property
    def is_full(self) -> bool:
        return self.count >= self._count_max - 1

    def maybe_append(self, timestamp: int, offset: int, *, is_last: bool = False) -> None:
        """Add an entry unless it tells nothing new; the last one has a place kept free for it."""
        places = self._count_max if is_last else self._count_max - 1
        if timestamp > self.last.timestamp and offset >= self.last.offset and self.count < places:
            put = self._put_last if is_last else self._put
            put(timestamp, offset - self.base_offset)
            self.last = TimestampOffset(timestamp, offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry with at most this timestamp; before the first one, the start of the segment."""
        number = self._count_to(timestamp, field=0) - 1
        if number < 0:
            return TimestampOffset(-1, self.base_offset)
        found, relative = self._get(number)
        if found > timestamp or relative < 0:
            return TimestampOffset(-1, self.base_offset)
        return TimestampOffset(found, self.base_offset + relative)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries that point at or past the offset."""
        self._cut(self._count_to(offset - self.base_offset - 1, field=1))

    def entries(self) -> list[TimestampOffset]:
        return [TimestampOffset(t, self.base_offset + o) for t, o in map(self._get, range(self.count))]

    def _set_last(self, last: tuple[int, int] | None) -> None:
        timestamp, relative = (-1, 0) if last is None else last
        self.last = TimestampOffset(timestamp, self.base_offset + relative)
        if last is not None and (relative < 0 or timestamp < 0):
            raise BadFile(f"{self.path}: last entry {timestamp}, {relative}")
