"""Runs of records of one shape, read column by column.

Producers mostly send records that look alike: sizes of keys and values repeat, so whole stretches of a batch hold
records of equal length with every field at the same place. A run is such a stretch. Its first record is read byte by
byte; for the others it is enough that the bytes which decide the shape are the same as in the first: the lengths of
the record, its key, its value and its headers, and which bytes of the two deltas have their top bit set. Slicing the
payload with the record's length as step gives such a byte of all records at once, and looking at that column costs a
few nanoseconds a record. Keys and values are then cut out by one `struct` call.

The shape changes within any long batch where the offset delta grows a byte (at 64, 8192, ...) and where the timestamp
delta does, so a batch has a few runs. Where no two records are alike there are no runs worth having.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from struct import Struct
from typing import TypeAlias

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.layout import VARINTS
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
from minikafka.protocol.varint import read_varint, read_varlong

# How the columns of consecutive offset deltas look, for the deltas of one byte and of two.
_ONE_BYTE_DELTAS = 64
_DELTA = b"".join(VARINTS[:_ONE_BYTE_DELTAS])
_DELTA_LOW = b"".join(VARINTS[_ONE_BYTE_DELTAS:])[0::2]
_DELTA_HIGH = b"".join(VARINTS[_ONE_BYTE_DELTAS:])[1::2]

# A record with more headers is a run of its own: the places of millions would take a hundred times their bytes.
_HEADERS_MAX = 16

_FLIP_TOP_BIT = bytes(byte ^ 0x80 for byte in range(256))

# Place of a field in its record, and its size or -1 for null.
Field: TypeAlias = tuple[int, int]

# Cuts a field that is not null out of all records of a run.
Cut: TypeAlias = "Callable[[Run, Field], list[bytes]]"


class Run:
    """One or more records of the same shape; the places of fields are relative to the start of a record."""

    __slots__ = (
        "_base",
        "_cut",
        "_deciding",
        "_headers",
        "_headers_at",
        "_key",
        "_offset_places",
        "_timestamp_places",
        "_value",
        "payload",
        "record_bytes",
        "rows",
        "start",
    )

    def __init__(self, payload: bytes, start: int, rows_max: int, base: Base, cut: Cut | None = None) -> None:
        self.payload = payload
        self.start = start
        self._base = base
        self._cut = cut or cut_with_struct
        self._read_shape(payload, start)
        self.rows = self._count_rows(payload, start, rows_max)

    @property
    def stop(self) -> int:
        return self.start + self.rows * self.record_bytes

    def _read_shape(self, payload: bytes, start: int) -> None:
        size, pos = read_varint(payload, start)
        stop = pos + size
        if size < 0 or stop > len(payload):
            raise CorruptRecord(f"record at {pos} of {len(payload)} bytes states a length of {size}")
        self.record_bytes = stop - start
        # The bytes that decide the shape, besides the top bits of the deltas.
        self._deciding = [*range(pos - start)]
        _, offset_at = read_varlong(payload, pos + 1)
        self._timestamp_places = range(pos + 1 - start, offset_at - start)
        _, pos = read_varint(payload, offset_at)
        self._offset_places = range(offset_at - start, pos - start)
        self._key, pos = self._read_field(payload, pos, -1)
        self._value, pos = self._read_field(payload, pos, -1)
        self._headers: list[tuple[Field, Field]] = []
        self._headers_at = pos - start
        pos = self._read_headers(payload, pos, stop) if payload[pos] else pos + 1
        if pos != stop:
            raise CorruptRecord(f"record ends at {stop}, its fields at {pos}")

    def _read_field(self, payload: bytes, pos: int, size_min: int) -> tuple[Field, int]:
        size, at = read_varint(payload, pos)
        if size < size_min:
            raise CorruptRecord(f"field at {at} has a size of {size}")
        self._deciding += range(pos - self.start, at - self.start)
        return (at - self.start, size), at + size if size > 0 else at

    def _read_headers(self, payload: bytes, pos: int, stop: int) -> int:
        count, at = read_varint(payload, pos)
        if not 0 <= count <= _HEADERS_MAX:
            return skip_headers(payload, pos, stop)
        self._deciding += range(pos - self.start, at - self.start)
        for _ in range(count):
            key, at = self._read_field(payload, at, 0)
            value, at = self._read_field(payload, at, -1)
            self._headers.append((key, value))
        return at

    @property
    def _has_many_headers(self) -> bool:
        return not self._headers and self._headers_at + 1 < self.record_bytes

    def _count_rows(self, payload: bytes, start: int, rows_max: int) -> int:
        step = self.record_bytes
        rows = min(rows_max, (len(payload) - start) // step)
        # Whether the next record starts like this one decides most cases.
        if rows < 2 or payload[start] != payload[start + step] or self._has_many_headers:
            return 1
        # The last byte of a record without headers is their count, which is 0.
        for place in self._deciding if self._headers else (*self._deciding, step - 1):
            column = payload[start + place : start + rows * step : step]
            first = column[:1]
            if column != first * rows:
                rows -= len(column.lstrip(first))
        for place in chain(self._timestamp_places, self._offset_places):
            column = payload[start + place : start + rows * step : step]
            if column[0] > 0x7F:
                column = column.translate(_FLIP_TOP_BIT)
            if not column.isascii():
                rows = next(row for row, byte in enumerate(column) if byte > 0x7F)
        return rows

    def _columns(self, places: Iterable[int]) -> list[bytes]:
        stop, step = self.stop, self.record_bytes
        return [self.payload[self.start + place : stop : step] for place in places]

    def offsets(self) -> Sequence[int]:
        base, rows = self._base.offset, self.rows
        columns = self._columns(self._offset_places)
        first = _zigzag([column[0] for column in columns])
        if len(columns) == 1:
            consecutive = columns[0] == _DELTA[first : first + rows]
        else:
            at = first - _ONE_BYTE_DELTAS
            consecutive = columns == [_DELTA_LOW[at : at + rows], _DELTA_HIGH[at : at + rows]]
        if consecutive:
            return range(base + first, base + first + rows)
        return [base + _zigzag(raw) for raw in zip(*columns, strict=True)]

    def timestamps(self) -> Column:
        base = self._base
        if base.is_append_time:
            return base.timestamp_ms
        columns = self._columns(self._timestamp_places)
        raws = columns[0] if len(columns) == 1 else [*zip(*columns, strict=True)]
        # Many records share a millisecond.
        stamps = {raw: base.timestamp(_zigzag((raw,) if isinstance(raw, int) else raw)) for raw in {*raws}}
        return stamps[raws[0]] if len(stamps) == 1 else [*map(stamps.__getitem__, raws)]

    def keys(self) -> Sequence[bytes | None]:
        return self._column_of(self._key)

    def values(self) -> Sequence[bytes | None]:
        return self._column_of(self._value)

    def _column_of(self, field: Field) -> Sequence[bytes | None]:
        return [None] * self.rows if field[1] < 0 else self._cut(self, field)

    def headers(self) -> Iterable[Headers]:
        """The headers of every record."""
        if not self._base.with_headers:
            return repeat((), self.rows)
        if self._has_many_headers:
            return [read_headers(self.payload, self.start + self._headers_at, self.stop)[0]]
        pairs = []
        for key, value in self._headers:
            raws = self._cut(self, key)
            texts = {raw: raw.decode("utf-8", "surrogateescape") for raw in {*raws}}
            pairs.append(zip(map(texts.__getitem__, raws), self._column_of(value), strict=True))
        return zip(*pairs, strict=True) if pairs else repeat((), self.rows)

    def fields(self) -> Fields:
        stamps = self.timestamps()
        timestamps = repeat(stamps, self.rows) if isinstance(stamps, int) else stamps
        keys, values = self._keys_and_values()
        return Fields(self.offsets(), timestamps, keys, values, self.headers())

    def records(self) -> Iterator[Record]:
        return map(make_record, zip(*self.fields(), strict=True))

    def _keys_and_values(self) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
        if self._key[1] < 0 or self._value[1] < 0:
            return self.keys(), self.values()
        # In one go, which is faster than two.
        keys, values = zip(*_cells(self, self._key, self._value), strict=True)
        return keys, values

    def places(self) -> Places:
        def column(place: int) -> range:
            return range(self.start + place, self.stop, self.record_bytes)

        (key_at, key_size), (value_at, value_size) = self._key, self._value
        return Places(column(key_at), key_size, column(value_at), value_size, column(self._headers_at))


def cut_with_struct(run: Run, field: Field) -> list[bytes]:
    """A field, not null, of all records of a run."""
    return [*chain.from_iterable(_cells(run, field))]


def _cells(run: Run, *fields: Field) -> Iterator[tuple[bytes, ...]]:
    return _cutter(run.record_bytes, *fields).iter_unpack(memoryview(run.payload)[run.start : run.stop])


@lru_cache(maxsize=256)
def _cutter(record_bytes: int, *fields: Field) -> Struct:
    form, pos = "", 0
    for at, size in fields:
        form += f"{at - pos}x{size}s"
        pos = at + size
    return Struct(f"{form}{record_bytes - pos}x")


def _zigzag(raw: Iterable[int]) -> int:
    """The signed number that a varint of these bytes stands for."""
    number = shift = 0
    for byte in raw:
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1)
