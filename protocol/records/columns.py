"""A whole batch as columns, for consumers that would rather not touch every record.

`RecordColumns` finds out where the fields of all records are, and checks them as strictly as `iter_records`, but makes
objects only of what is asked for: `values()` is a list, `offsets` an array, `headers(row)` the headers of one record.
Positions and sizes refer to `payload`, so that Arrow and numpy can work on the bytes themselves.

Arrays are numpy's (int64) if numpy is installed, otherwise `array.array("q")`. A null key or value has the size -1.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from itertools import chain, repeat
from typing import Protocol, cast

from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.layout import RECORD_BYTES_MAX
from minikafka.protocol.records.parts import Numpy, Part, iter_parts
from minikafka.protocol.records.pieces import OnTooLarge, iter_pieces
from minikafka.protocol.records.reader import base_of
from minikafka.protocol.records.walk import Base, Column, Fields, Headers, Places, Record, read_headers
from minikafka.protocol.varint import INT32_MAX

# Fewer records are read one by one before a run of them is set up.
_RUN_ROWS_MIN = 8

# No part is larger, so that what is made of it at a time stays in the processor's cache.
_ROWS_MAX = 4096


class IntColumn(Protocol):
    """What arrays of numpy and of the standard library have in common."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> int: ...

    def __iter__(self) -> Iterator[int]: ...

    def tolist(self) -> list[int]: ...


class RecordColumns:
    """The records of one payload, row by row or column by column."""

    def __init__(self, payload: bytes, count: int, base: Base) -> None:
        self.payload = payload
        self._count = count
        self._parts: list[Part] = [
            *iter_parts(payload, count, base, run_rows_min=_RUN_ROWS_MIN, rows_max=_ROWS_MAX, numpy=_numpy())
        ]

    def __len__(self) -> int:
        return self._count

    @cached_property
    def offsets(self) -> IntColumn:
        return _joined((part.offsets(), part.rows) for part in self._parts)

    @cached_property
    def timestamps_ms(self) -> IntColumn:
        return _joined((part.timestamps(), part.rows) for part in self._parts)

    @cached_property
    def _places(self) -> list[tuple[Places, int]]:
        return [(part.places(), part.rows) for part in self._parts]

    @cached_property
    def key_positions(self) -> IntColumn:
        return _joined((places.key_positions, rows) for places, rows in self._places)

    @cached_property
    def key_sizes(self) -> IntColumn:
        return _joined((places.key_sizes, rows) for places, rows in self._places)

    @cached_property
    def value_positions(self) -> IntColumn:
        return _joined((places.value_positions, rows) for places, rows in self._places)

    @cached_property
    def value_sizes(self) -> IntColumn:
        return _joined((places.value_sizes, rows) for places, rows in self._places)

    @cached_property
    def _header_positions(self) -> IntColumn:
        return _joined((places.header_positions, rows) for places, rows in self._places)

    def key(self, row: int) -> bytes | None:
        return self._cell(self.key_positions[row], self.key_sizes[row])

    def value(self, row: int) -> bytes | None:
        return self._cell(self.value_positions[row], self.value_sizes[row])

    def _cell(self, position: int, size: int) -> bytes | None:
        return None if size < 0 else self.payload[position : position + size]

    def keys(self) -> list[bytes | None]:
        keys: list[bytes | None] = []
        for part in self._parts:
            keys += part.keys()
        return keys

    def values(self) -> list[bytes | None]:
        values: list[bytes | None] = []
        for part in self._parts:
            values += part.values()
        return values

    def records(self) -> Iterator[Record]:
        return chain.from_iterable(part.records() for part in self._parts)

    def headers(self, row: int) -> Headers:
        return read_headers(self.payload, int(self._header_positions[row]), len(self.payload))[0]


def read_columns(batch: BatchView, max_bytes: int = INT32_MAX) -> RecordColumns:
    """The records of a batch; CorruptRecord for any flaw in them, or for inflating past `max_bytes`."""
    return RecordColumns(batch.payload(max_bytes), batch.record_count, base_of(batch))


def iter_columns(
    batch: BatchView, record_bytes_max: int = RECORD_BYTES_MAX, on_too_large: OnTooLarge | None = None
) -> Iterator[RecordColumns]:
    """The same in pieces, of which there is one for nearly all batches; as `iter_pieces`."""
    base = base_of(batch)
    pieces = iter_pieces(batch, record_bytes_max, on_too_large)
    return (RecordColumns(piece.payload, piece.rows, base) for piece in pieces)


def iter_fields(batch: BatchView, max_bytes: int = INT32_MAX) -> Iterator[Fields]:
    """The records of a batch, some at a time, field by field: for whoever makes objects of another kind of them.

    CorruptRecord for any flaw, which may be after good records, or for inflating past `max_bytes`."""
    payload, count = batch.payload(max_bytes), batch.record_count
    parts = iter_parts(payload, count, base_of(batch), run_rows_min=_RUN_ROWS_MIN, rows_max=_ROWS_MAX, numpy=_numpy())
    return (part.fields() for part in parts)


@cache
def _numpy() -> Numpy | None:
    try:
        from minikafka.protocol.records import scattered
    except ImportError:
        return None
    return Numpy(scattered.Scattered, scattered.cut_with_numpy, scattered.int64_column)


def _joined(columns: Iterable[tuple[Column, int]]) -> IntColumn:
    """Columns one after the other, each with the number of its rows."""
    numpy = _numpy()
    if numpy is not None:
        return cast(IntColumn, numpy.int64_column([*columns]))
    joined = array("q")
    for column, rows in columns:
        joined.extend(repeat(column, rows) if isinstance(column, int) else column)
    return joined
