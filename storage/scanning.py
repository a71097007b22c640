"""Walking the batches of a segment's file by their headers.

Works on a file and two positions, on any thread, and on any file: the loop's, a worker's, a tool's.
How bytes are read is an argument, so that a walk on the loop can refuse to wait for the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Final, NamedTuple

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.layout import HEADER, HEADER_BYTES, LENGTH_AT, LENGTH_OVERHEAD_BYTES, MAGIC
from minikafka.protocol.varint import Buffer
from minikafka.storage.disk import File
from minikafka.storage.errors import CorruptLog, ReadOvertaken

_SCAN_BYTES: Final = 8192
"""Twice the default index interval: mostly one read finds the batch after an index entry."""

_CHUNK_BYTES: Final = 1 << 20

_batch_length: Final = Struct(">i").unpack_from

Read = Callable[[int, int], Buffer]


class ColdRead(Exception):
    """Not all of it is in memory: read it where waiting for the disk does no harm."""


class BatchAt(NamedTuple):
    """The header of a batch in a file, as far as finding a batch needs it."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int

    @property
    def end(self) -> int:
        return self.position + self.size


class Section(NamedTuple):
    """A stretch of one segment's file; `start` and `limit` are batch boundaries."""

    path: str
    file: File
    start: int
    limit: int

    @property
    def is_empty(self) -> bool:
        return self.start >= self.limit


@contextmanager
def held(sections: Iterable[Section]) -> Iterator[None]:
    """Read sections in a thread while the loop may retire and close their segments; ReadOvertaken if it has done so."""
    files: list[File] = []
    try:
        for section in sections:
            try:
                section.file.hold()
            except OSError as error:
                raise ReadOvertaken(f"{section.path}: {error}") from error
            files.append(section.file)
        yield
    finally:
        for file in files:
            file.release()


def waiting(file: File) -> Read:
    return file.read


def nowait(file: File) -> Read:
    """Reading that raises ColdRead instead of waiting for the disk."""

    def read(position: int, size: int) -> Buffer:
        data = file.read_nowait(position, size)
        if data is None:
            raise ColdRead
        return data

    return read


def scan(section: Section, read: Read) -> Iterator[BatchAt]:
    """The headers of a section's batches, one after the other; CorruptLog where none can be.

    Offsets have to grow: the base offset is not under the CRC, so nothing else shows a flipped bit there.
    """
    last_offset = -1
    chunk: Buffer = b""
    chunk_at = position = section.start
    while position < section.limit:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk = read(position, min(_SCAN_BYTES, section.limit - position))
            chunk_at, at = position, 0
            if len(chunk) < HEADER_BYTES:
                raise CorruptLog(section.path, position, f"{len(chunk)} bytes are too few for a batch")
        base, length, epoch, magic, _crc, _attributes, delta, _base_ts, max_ts, *_ = HEADER.unpack_from(chunk, at)
        size = length + LENGTH_OVERHEAD_BYTES
        if magic != MAGIC or size < HEADER_BYTES or size > section.limit - position or delta < 0:
            raise CorruptLog(section.path, position, f"no batch: magic {magic}, size {size}, offset delta {delta}")
        if base <= last_offset:
            raise CorruptLog(section.path, position, f"offset {base} after {last_offset}")
        last_offset = base + delta
        yield BatchAt(position, size, base, last_offset, max_ts, epoch)
        position += size


def read_batches(section: Section, read: Read) -> Iterator[tuple[int, BatchView]]:
    """All batches of a section with their positions; CRCs are not checked; CorruptLog where no batch can be."""
    chunk: Buffer = b""
    chunk_at = position = section.start
    while position < section.limit:
        try:
            batch = BatchView(chunk, position - chunk_at)
        except CorruptRecord:
            # Most likely the chunk is at its end.
            chunk, chunk_at = _chunk_with_batch(section, position, read), position
            try:
                batch = BatchView(chunk)
            except CorruptRecord as error:
                raise CorruptLog(section.path, position, str(error)) from error
        yield position, batch
        position += batch.size


def _chunk_with_batch(section: Section, position: int, read: Read) -> Buffer:
    """A chunk of the file that holds the whole batch at the position, if there is one."""
    left = section.limit - position
    chunk = read(position, min(_CHUNK_BYTES, left))
    if len(chunk) >= HEADER_BYTES and len(chunk) < _size_at(chunk, 0) <= left:
        return read(position, _size_at(chunk, 0))
    return chunk


def _size_at(chunk: Buffer, at: int) -> int:
    (length,) = _batch_length(chunk, at + LENGTH_AT)
    return int(length) + LENGTH_OVERHEAD_BYTES


def read_batch(section: Section, batch: BatchAt, read: Read) -> BatchView:
    """The whole batch; CorruptLog unless its CRC is right."""
    try:
        view = BatchView(read(batch.position, batch.size))
        view.check_crc()
    except CorruptRecord as error:
        raise CorruptLog(section.path, batch.position, str(error)) from error
    return view
