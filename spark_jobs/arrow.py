"""Rows as Spark wants them: Arrow batches with the columns of Spark's own Kafka source.

Keys and values lie scattered in the bytes of a batch. They are described to Arrow as views (length, buffer, position;
made with numpy for all rows at once), and Arrow copies them together: ten times as fast as by way of a `bytes` object
for each. Spark takes exactly these types and no others: `binary` and not its variants, timestamps in microseconds UTC,
all columns nullable, and `element` as the name of a list's items.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from minikafka.protocol.records import RecordColumns

_Int64s = npt.NDArray[np.int64]
_Int32s = npt.NDArray[np.int32]

_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_HEADERS: Final = pa.list_(pa.field("element", _HEADER))
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
_SCHEMA_WITH_HEADERS: Final = _SCHEMA.append(pa.field("headers", _HEADERS))

# Fewer rows cost more for each, and more do not fit the processor's cache on their way to Spark.
_ROWS_WANTED: Final = 4096
_BYTES_WANTED: Final = 4 << 20
_ROWS_MAX: Final = 10_000

# A view of so many bytes or less holds them itself.
_INLINE_BYTES_MAX: Final = 12
_VIEW_BYTES: Final = 16

# Microseconds do not reach as far as milliseconds do.
_TIMESTAMP_MS_MAX: Final = (1 << 63) // 1000 - 1


class Rows(NamedTuple):
    """Neighbouring rows of one batch."""

    columns: RecordColumns
    start: int
    stop: int
    timestamp_type: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def ints(self, name: str) -> _Int64s:
        column: _Int64s = np.asarray(getattr(self.columns, name), np.int64)
        return column[self.start : self.stop]


class ArrowBatches:
    """Collects rows of one partition until they are worth an Arrow batch."""

    def __init__(self, topic: str, partition: int, *, include_headers: bool) -> None:
        self._topic = topic
        self._partition = partition
        self._include_headers = include_headers
        self._collected: list[Rows] = []
        self._rows = 0
        self._bytes = 0

    def add(self, rows: Rows) -> Iterator[Any]:
        """Take rows in; gives what has become enough."""
        self._collected.append(rows)
        self._rows += rows.size
        self._bytes += len(rows.columns.payload)
        if self._rows >= _ROWS_WANTED or self._bytes >= _BYTES_WANTED:
            yield from self.flush()

    def flush(self) -> Iterator[Any]:
        """What is left."""
        collected, self._collected = self._collected, []
        rows, self._rows, self._bytes = self._rows, 0, 0
        if not rows:
            return
        batch = self._batch(collected, rows)
        for start in range(0, rows, _ROWS_MAX):
            yield batch.slice(start, _ROWS_MAX) if rows > _ROWS_MAX else batch

    def _batch(self, collected: list[Rows], rows: int) -> Any:
        stamps = np.clip(_joined(collected, "timestamps_ms"), -_TIMESTAMP_MS_MAX, _TIMESTAMP_MS_MAX) * 1000
        types = np.repeat([each.timestamp_type for each in collected], [each.size for each in collected])
        arrays = [
            _field(collected, "key"),
            _field(collected, "value"),
            pa.repeat(self._topic, rows),
            pa.array(np.full(rows, self._partition, np.int32)),
            pa.array(_joined(collected, "offsets")),
            pa.array(stamps).view(_TIMESTAMP),
            pa.array(types.astype(np.int32)),
        ]
        if not self._include_headers:
            return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
        return pa.RecordBatch.from_arrays([*arrays, _headers(collected)], schema=_SCHEMA_WITH_HEADERS)


def _joined(collected: list[Rows], name: str) -> _Int64s:
    columns = [each.ints(name) for each in collected]
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def _field(collected: list[Rows], name: str) -> Any:
    """Keys or values of all rows."""
    positions, sizes = _joined(collected, f"{name}_positions"), _joined(collected, f"{name}_sizes")
    rows = len(sizes)
    is_null = sizes < 0
    null_count = int(is_null.sum())
    if null_count == rows:
        return pa.nulls(rows, pa.binary())
    if null_count:
        sizes = np.maximum(sizes, 0)
    views = np.empty((rows, 4), np.int32)
    views[:, 0] = sizes
    # The bytes that follow the length are the first of the value. Only comparisons look at them, and there are none.
    views[:, 2] = np.repeat(np.arange(len(collected), dtype=np.int32), [each.size for each in collected])
    views[:, 3] = positions
    if int(sizes.min()) <= _INLINE_BYTES_MAX:
        _inline_short(views, collected, positions, sizes)
    valid = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if null_count else None
    payloads = [pa.py_buffer(each.columns.payload) for each in collected]
    buffers = [valid, pa.py_buffer(views), *payloads]
    return pa.Array.from_buffers(pa.binary_view(), rows, buffers, null_count).cast(pa.binary())


def _inline_short(views: _Int32s, collected: list[Rows], positions: _Int64s, sizes: _Int64s) -> None:
    """Put the bytes of short fields into their views."""
    inline = (
        views.view(np.dtype((np.void, _VIEW_BYTES)))
        .reshape(-1)
        .view(
            np.dtype(
                {"names": ["bytes"], "formats": [f"V{_INLINE_BYTES_MAX}"], "offsets": [4], "itemsize": _VIEW_BYTES}
            )
        )["bytes"]
    )
    start = 0
    for each in collected:
        stop = start + each.size
        payload = each.columns.payload
        short = np.flatnonzero(sizes[start:stop] <= _INLINE_BYTES_MAX) + start
        # Any twelve bytes of the payload, by where they begin.
        last = len(payload) - _INLINE_BYTES_MAX
        fits = positions[short] <= last
        if last >= 0:
            windows = np.ndarray((last + 1,), f"V{_INLINE_BYTES_MAX}", payload, 0, (1,))
            inline[short[fits]] = windows[positions[short[fits]]]
        for row in short[~fits].tolist():
            at = int(positions[row])
            inline[row] = payload[at : at + int(sizes[row])].ljust(_INLINE_BYTES_MAX, b"\0")
        start = stop


def _headers(collected: list[Rows]) -> Any:
    """The headers of all rows; null for a row without any, as Spark's own source has it."""
    keys: list[str] = []
    values: list[bytes | None] = []
    ends = [0]
    for each in collected:
        has_any = _has_headers(each)
        for row in range(each.start, each.stop):
            if has_any[row - each.start]:
                for key, value in each.columns.headers(row):
                    keys.append(_clean(key))
                    values.append(value)
            ends.append(len(keys))
    if not keys:
        return pa.nulls(len(ends) - 1, _HEADERS)
    items = pa.StructArray.from_arrays([pa.array(keys, pa.string()), pa.array(values, pa.binary())], fields=[*_HEADER])
    offsets = np.asarray(ends, np.int32)
    is_null = offsets[1:] == offsets[:-1]
    return pa.ListArray.from_arrays(pa.array(offsets), items, type=_HEADERS, mask=pa.array(is_null))


def _has_headers(rows: Rows) -> list[bool]:
    """Their count stands right after the value, and is one byte of 0 if there are none."""
    at = rows.ints("value_positions") + np.maximum(rows.ints("value_sizes"), 0)
    found: list[bool] = (np.frombuffer(rows.columns.payload, np.uint8)[at] != 0).tolist()
    return found


def _clean(key: str) -> str:
    """A header's key as text that can be encoded: bytes that were not UTF-8 are replaced, as Java does."""
    return key if key.isascii() else key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
