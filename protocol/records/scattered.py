"""Records of all shapes, their fields read for all of them at once with numpy.

Only the chain of record lengths has to be followed one by one. After that every field is a column of positions: the
bytes at these positions are gathered, varints are put together from the first bytes of all rows, then from the second
bytes of the rows that have one, and so on, and the position of the next field follows by adding. Positions only grow,
so it is enough to compare them with the ends of the records once, at the end.

This is the only module that needs numpy, which is optional; without it `columns` reads such records one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.runs import Field, Run
from minikafka.protocol.records.walk import (
    Base,
    Column,
    Fields,
    Headers,
    Places,
    Record,
    make_record,
    read_headers,
    skip_headers,
)
from minikafka.protocol.varint import read_varint

Int64s: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

# What the first byte of a record's length adds to the position: itself and its part of the length.
_FIRST_BYTE_STEP = tuple(1 + (byte >> 1) if byte < 0x80 else 2 + (byte - 0x80 >> 1) for byte in range(256))

# Headers are skipped in lockstep, one pass over all rows per header; rows with more than this are finished singly,
# or one record with thousands of headers would cost thousands of passes.
_LOCKSTEP_HEADERS_MAX = 8


class Scattered:
    """Consecutive records at irregular distances, as columns."""

    __slots__ = (
        "_base",
        "_headers_at",
        "_key_at",
        "_key_size",
        "_offset_deltas",
        "_payload",
        "_timestamp_deltas",
        "_value_at",
        "_value_size",
        "rows",
        "stop",
    )

    def __init__(self, payload: bytes, pos: int, rows: int, base: Base) -> None:
        self._payload = payload
        self._base = base
        self.rows = rows
        starts, self.stop = _record_starts(payload, pos, rows)
        if self.stop > len(payload):
            raise CorruptRecord(f"record runs past the {len(payload)} bytes of the batch")
        data: Bytes = np.frombuffer(payload, np.uint8)
        lengths, at = _varints(data, np.array(starts, np.int64), 32)
        if (lengths & 1).any():
            raise CorruptRecord("record of a negative length")
        stops = at + (lengths >> 1)
        raw, at = _varints(data, at + 1, 64)
        self._timestamp_deltas = _zigzag(raw)
        raw, at = _varints(data, at, 32)
        self._offset_deltas = _zigzag(raw)
        self._key_size, self._key_at, at = _fields(data, at)
        self._value_size, self._value_at, self._headers_at = _fields(data, at)
        at = _skip_headers(payload, data, self._headers_at, stops)
        if at.tobytes() != stops.tobytes():
            raise CorruptRecord("record whose fields end elsewhere than the record")

    def offsets(self) -> Int64s:
        return self._offset_deltas + self._base.offset

    def timestamps(self) -> Column:
        if self._base.is_append_time:
            return self._base.timestamp_ms
        # Arrays wrap around, as they should.
        return self._timestamp_deltas + self._base.timestamp_ms

    def keys(self) -> Sequence[bytes | None]:
        return _slices(self._payload, self._key_at, self._key_size)

    def values(self) -> Sequence[bytes | None]:
        return _slices(self._payload, self._value_at, self._value_size)

    def headers(self) -> Iterator[Headers]:
        """The headers of every record."""
        payload = self._payload
        for pos in self._headers_at.tolist():
            # That they end in their record is known by now.
            yield read_headers(payload, pos, len(payload))[0] if payload[pos] else ()

    def fields(self) -> Fields:
        stamps = int64_column([(self.timestamps(), self.rows)]).tolist()
        return Fields(self.offsets().tolist(), stamps, self.keys(), self.values(), self.headers())

    def records(self) -> Iterator[Record]:
        return map(make_record, zip(*self.fields(), strict=True))

    def places(self) -> Places:
        return Places(self._key_at, self._key_size, self._value_at, self._value_size, self._headers_at)


def _slices(payload: bytes, at: Int64s, sizes: Int64s) -> list[bytes | None]:
    starts, stops = at.tolist(), (at + sizes).tolist()
    if sizes.min() < 0:
        return [payload[start:stop] if start <= stop else None for start, stop in zip(starts, stops, strict=True)]
    return [payload[start:stop] for start, stop in zip(starts, stops, strict=True)]


def _record_starts(payload: bytes, pos: int, rows: int) -> tuple[list[int], int]:
    """Where the records start, and where the last one ends, by lengths whose sign is not looked at."""
    starts: list[int] = []
    add, step = starts.append, _FIRST_BYTE_STEP
    for _ in range(rows):
        add(pos)
        first = payload[pos]
        if first < 0x80:
            pos += step[first]
        elif (second := payload[pos + 1]) < 0x80:
            pos += step[first] + (second << 6)
        else:
            size, pos = read_varint(payload, pos)
            if size < 0:
                raise CorruptRecord(f"record at {pos} of {len(payload)} bytes states a length of {size}")
            pos += size
    return starts, pos


def _varints(data: Bytes, at: Int64s, bits: int) -> tuple[Int64s, Int64s]:
    """The numbers at these positions, their zigzag not yet undone, and the positions after them."""
    first = data.take(at)
    if first.tobytes().isascii():
        return first.astype(np.int64), at + 1
    has_second = first >> 7
    # Past the end of the data this takes the last byte once more, for rows without a second byte or for rows that end
    # past the end of their record.
    second = data.take(at + 1, mode="clip") * has_second
    raw = (first & 0x7F).astype(np.int64)
    raw |= (second & 0x7F).astype(np.int64) << 7
    at = at + 1 + has_second
    rows = np.flatnonzero(second > 0x7F)
    shift = 14
    while rows.size:
        byte = data.take(at[rows])
        # Of the last byte that a number may have, only the bits that fit; this includes the one for "more".
        if shift + 7 > bits and (byte >> bits - shift).any():
            raise CorruptRecord(f"varint of more than {bits} bits")
        raw[rows] |= (byte & 0x7F).astype(np.int64) << shift
        at[rows] += 1
        rows = rows[byte > 0x7F]
        shift += 7
    return raw, at


def _zigzag(raw: Int64s) -> Int64s:
    # The shift must not drag the sign along.
    return (raw.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(raw & 1)


def _fields(data: Bytes, at: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Sizes (-1 for null), starts and ends of the nullable fields whose sizes are at these positions."""
    raw, at = _varints(data, at, 32)
    if not (raw & 1).any():
        sizes = raw >> 1
        return sizes, at, at + sizes
    sizes = _zigzag(raw)
    if (sizes < -1).any():
        raise CorruptRecord("field of a negative size")
    return sizes, at, at + np.maximum(sizes, 0)


def _skip_headers(payload: bytes, data: Bytes, headers_at: Int64s, stops: Int64s) -> Int64s:
    """Where the headers of each row end."""
    raw, at = _varints(data, headers_at, 32)
    if not raw.any():
        return at
    counts = _zigzag(raw)
    if (counts < 0).any() or (2 * counts > stops - at).any():
        raise CorruptRecord("more or fewer headers than a record can hold")
    for skipped in range(_LOCKSTEP_HEADERS_MAX):
        rows = np.flatnonzero(counts > skipped)
        if not rows.size:
            return at
        sizes, _, ends = _fields(data, at[rows])
        if (sizes < 0).any():
            raise CorruptRecord("header without a key")
        at[rows] = _fields(data, ends)[2]
    for row in np.flatnonzero(counts > _LOCKSTEP_HEADERS_MAX).tolist():
        at[row] = skip_headers(payload, int(headers_at[row]), int(stops[row]))
    return at


def cut_with_numpy(run: Run, field: Field) -> list[bytes]:
    """A field, not null, of all records of a run; four times as fast as `struct` but for short runs."""
    at, size = field
    if not size:
        return [b""] * run.rows
    cells = np.ndarray((run.rows,), f"V{size}", run.payload, run.start + at, (run.record_bytes,))
    fields: list[bytes] = cells.tolist()
    return fields


def int64_column(pieces: Sequence[tuple[Column, int]]) -> Int64s:
    """Columns one after the other, each with the number of its rows."""
    arrays: list[Int64s] = []
    for column, rows in pieces:
        if isinstance(column, int):
            arrays.append(np.full(rows, column, np.int64))
        elif isinstance(column, range):
            arrays.append(np.arange(column.start, column.stop, column.step, dtype=np.int64))
        else:
            arrays.append(np.asarray(column, np.int64))
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays or [np.empty(0, np.int64)])
