"""Reads of whole batches that can be carried out on any thread.

The loop decides what to read (`Log.plan_read`): which files, from which known batch boundary, up to
which position.  Carrying it out needs nothing but the files, so a plan runs on the loop as long as the
pages are in memory (`run_nowait`) and in a worker otherwise (`run`).  The log may be truncated in
between: whoever ran a plan elsewhere compares `Log.generation` before using what came of it, be it
bytes or a CorruptLog.

A result may end in the middle of a batch, as Kafka's do: clients ignore the rest and ask for it
again.  The first batch is always whole, however long it is.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from minikafka.protocol.records.layout import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MAGIC
from minikafka.protocol.varint import INT64_MAX, Buffer
from minikafka.storage.disk import File
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.scanning import ColdRead, Read, Section, held, nowait, waiting
from minikafka.storage.segments import Segments

# Base offset, length and magic.
_unpack_head: Final = Struct(">qi4xb").unpack_from
# The same, and after CRC and attributes the last offset delta.
_unpack_chained: Final = Struct(">qi4xb6xi").unpack_from
_CHAINED_BYTES: Final = 27

_SCAN_BYTES: Final = 8192
"""Twice the default index interval: mostly one read finds the batch after an index entry."""


class ReadPlan(NamedTuple):
    """Batches from the one that holds `offset`, below `bound_offset`, about `max_bytes` of them."""

    offset: int
    bound_offset: int
    max_bytes: int
    sections: tuple[Section, ...]
    """The first is where the offset should be, the second where it is if compaction has left nothing there."""
    base_offset: int
    """Of the segment that the first section is in."""
    is_exact: bool
    """Whether the first section starts with the very batch, so that nothing has to be searched."""
    unbounded: int
    """How many of the sections lie below the bound as a whole."""

    def run(self) -> Buffer:
        """On any thread; ReadOvertaken if the segments have left the log, and their files are closed."""
        with held(self.sections):
            return self._run(waiting)

    def run_nowait(self) -> Buffer:
        """Raises ColdRead instead of waiting for the disk."""
        if self.is_exact and self.unbounded:
            data = self._read_at_once(self.sections[0])
            if data is not None:
                return data
        return self._run(nowait)

    def _read_at_once(self, section: Section) -> Buffer | None:
        """Nearly all reads: the right batches by one call; None if there is more to it."""
        size = min(section.limit - section.start, self.max_bytes)
        if size < HEADER_BYTES:
            return None
        try:
            data = section.file.read_nowait(section.start, size)
        except OSError as error:
            raise _failure(section, error) from error
        if data is None:
            raise ColdRead
        if len(data) < HEADER_BYTES:
            return None
        _, length, magic = _unpack_head(data)
        is_whole = HEADER_BYTES <= length + LENGTH_OVERHEAD_BYTES <= len(data) and magic == MAGIC
        return data if is_whole else None

    def _run(self, reading: Callable[[File], Read]) -> Buffer:
        for number, section in enumerate(self.sections):
            try:
                data = self._read(section, number, reading(section.file))
            except OSError as error:
                raise _failure(section, error) from error
            if data is not None:
                return data
        return b""

    def _read(self, section: Section, number: int, read: Read) -> Buffer | None:
        """None if nothing from the offset on is there."""
        if not self.is_exact:
            section = self._narrowed(section, number, read)
        if section.is_empty:
            return None
        data = _read_batches(section, self.max_bytes, read)
        if self.is_exact and number < self.unbounded:
            return data
        return _chained(section, data, INT64_MAX if number < self.unbounded else self.bound_offset)

    def _narrowed(self, section: Section, number: int, read: Read) -> Section:
        """The section from the batch with the offset on."""
        position = None
        if number == 0 and 0 < section.start < section.limit:
            position = _find(section, section.start, self.offset, read, base_min=self.base_offset)
        if position is None:
            position = _find(section, 0, self.offset, read) or 0
        return Section(section.path, section.file, position, section.limit)


def _find(section: Section, start: int, offset: int, read: Read, base_min: int | None = None) -> int | None:
    """The position of the batch with the offset or after it, the limit of the section if there is none.

    With `base_min` the start is only what an index says: None if no batch is there, or one that is after the offset.
    """
    chunk: Buffer = b""
    chunk_at = position = start
    last_offset = -1
    while position < section.limit:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_at, at = read(position, min(_SCAN_BYTES, section.limit - position)), position, 0
        base, size, magic, delta = -1, 0, -1, -1
        if len(chunk) - at >= HEADER_BYTES:
            base, length, magic, delta = _unpack_chained(chunk, at)
            size = length + LENGTH_OVERHEAD_BYTES
        is_batch = magic == MAGIC and HEADER_BYTES <= size <= section.limit - position and delta >= 0
        if position == start and base_min is not None and not (is_batch and base_min <= base <= offset):
            return None
        if not is_batch or base <= last_offset:
            raise CorruptLog(section.path, position, f"no batch: magic {magic}, size {size}, offset {base}")
        last_offset = base + delta
        if last_offset >= offset:
            return position
        position += size
    return section.limit


def plan_search(segments: Segments, offset: int, max_bytes: int, bound_offset: int, limit: int | None) -> ReadPlan:
    """A plan by the index; `limit` is where the bound is in the active segment, if that is known."""
    holding, following = segments.holding_and_following(offset)
    holding.load_indexes()
    start = min(holding.offset_index.lookup(offset).position, holding.size)
    sections, unbounded = [], 0
    for segment in [holding] if following is None else [holding, following]:
        next_base = segments.next_base(segment)
        sections.append(segment.section(start, limit if next_base is None else None))
        unbounded += limit is not None if next_base is None else next_base <= bound_offset
        start = 0
    return ReadPlan(offset, bound_offset, max_bytes, tuple(sections), holding.base_offset, False, unbounded)


def _read_batches(section: Section, max_bytes: int, read: Read) -> Buffer:
    left = section.limit - section.start
    data = read(section.start, min(left, max(max_bytes, HEADER_BYTES)))
    if len(data) < HEADER_BYTES:
        raise CorruptLog(section.path, section.start, f"{len(data)} bytes are too few for a batch")
    _, length, magic = _unpack_head(data)
    size = length + LENGTH_OVERHEAD_BYTES
    if magic != MAGIC or not HEADER_BYTES <= size <= left:
        raise CorruptLog(section.path, section.start, f"no batch of {size} bytes and magic {magic} fits here")
    if size > len(data):
        data = read(section.start, size)
        if len(data) < size:
            raise CorruptLog(section.path, section.start, f"{len(data)} of {size} bytes of a batch are there")
    return data


def _chained(section: Section, data: Buffer, bound_offset: int) -> Buffer:
    """The batches that begin before the bound, the last of them maybe cut; CorruptLog unless offsets grow.

    A base offset is not under the CRC.  What was found by the index may have lain on the disk for long, and nobody
    else would notice a flipped bit there: a reader would go back and forth.
    """
    at, next_offset = 0, 0
    while at + _CHAINED_BYTES <= len(data):
        base_offset, length, magic, delta = _unpack_chained(data, at)
        if base_offset >= bound_offset:
            return memoryview(data)[:at]
        size = length + LENGTH_OVERHEAD_BYTES
        if base_offset < next_offset or magic != MAGIC or size < HEADER_BYTES or delta < 0:
            raise CorruptLog(
                section.path, section.start + at, f"no batch: offset {base_offset} where {next_offset} is next"
            )
        next_offset = base_offset + delta + 1
        at += size
    # Too little is left to tell what it is the start of.
    return memoryview(data)[:at]


def _failure(section: Section, error: OSError) -> StorageError:
    return StorageError(f"{section.path}: cannot be read: {error}")
