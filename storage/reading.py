"""Reads of whole batches that can be carried out on any thread.

The loop decides what to read (`Log.plan_read`): which files, from which known batch boundary, up to
which position.  Carrying it out needs nothing but the files, so a plan runs on the loop as long as the
pages are in memory (`run_nowait`) and in a worker otherwise (`run`).  The log may be truncated in
between: whoever ran a plan elsewhere compares `Log.generation` before using what came of it.

A result may end in the middle of a batch, as Kafka's do: clients ignore the rest and ask for it
again.  The first batch is always whole, however long it is.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from minikafka.protocol.records.layout import HEADER_BYTES, LENGTH_OVERHEAD_BYTES
from minikafka.protocol.varint import Buffer
from minikafka.storage.disk import File
from minikafka.storage.errors import CorruptLog
from minikafka.storage.scanning import Read, Section, nowait, scan, waiting

_offset_and_length: Final = Struct(">qi")


class ReadPlan(NamedTuple):
    """Batches from the one that holds `offset`, below `bound_offset`, about `max_bytes` of them."""

    offset: int
    bound_offset: int
    max_bytes: int
    sections: tuple[Section, ...]
    """The first is where the offset should be; compaction may have left nothing there or after it."""
    is_exact: bool
    """Whether the only section starts at the very batch and ends at the bound."""
    index_offset: int
    """The last offset, by the index, of the batch that the first section starts with; -1: none."""

    def run(self) -> Buffer:
        return self._run(waiting)

    def run_nowait(self) -> Buffer:
        """Raises ColdRead instead of waiting for the disk."""
        return self._run(nowait)

    def _run(self, reading: Callable[[File], Read]) -> Buffer:
        for number, section in enumerate(self.sections):
            read = reading(section.file)
            if not self.is_exact:
                checked = self._checked(section, read) if number == 0 else section
                section = self._narrowed(checked, read)
            if not section.is_empty:
                return _read_batches(section, self.max_bytes, read)
        return b""

    def _narrowed(self, section: Section, read: Read) -> Section:
        """What may be returned of a section: from the offset, to the bound or the most bytes."""
        start = -1
        for batch in scan(section, read):
            if batch.base_offset >= self.bound_offset:
                return section._replace(start=batch.position if start < 0 else start, limit=batch.position)
            if start < 0 and batch.last_offset >= self.offset:
                start = batch.position
            if start >= 0 and batch.end - start >= self.max_bytes:
                return section._replace(start=start, limit=batch.end)
        return section._replace(start=section.limit if start < 0 else start)

    def _checked(self, section: Section, read: Read) -> Section:
        """The section, or the whole of its segment when the index pointed at something else."""
        if section.start == 0:
            return section
        try:
            first = next(scan(section, read), None)
        except CorruptLog:
            first = None
        is_right = first is not None and first.last_offset == self.index_offset
        return section if is_right else section._replace(start=0)


def _read_batches(section: Section, max_bytes: int, read: Read) -> Buffer:
    left = section.limit - section.start
    data = read(section.start, min(left, max(max_bytes, HEADER_BYTES)))
    if len(data) < min(left, HEADER_BYTES):
        raise CorruptLog(section.path, section.start, f"{len(data)} bytes are too few for a batch")
    size = _offset_and_length.unpack_from(data)[1] + LENGTH_OVERHEAD_BYTES
    if size <= len(data):
        return data
    if not HEADER_BYTES <= size <= left:
        raise CorruptLog(section.path, section.start, f"no batch of {size} bytes fits here")
    return read(section.start, size)
