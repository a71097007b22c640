"""The one loop that reads records byte by byte, and with it the definition of a valid payload.

Every length must be possible, the fields of a record must end where its length says, and the records must be as many
as stated and fill the payload. `runs` and `scattered` read many records at a time where that pays, and must come to
the same verdict on any bytes.

A header key that is not UTF-8 is not a flaw, since Kafka stores and serves such records. Its odd bytes are decoded to
lone surrogates (`surrogateescape`), which encode to the same bytes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.layout import ZIGZAG, wrap_int64
from minikafka.protocol.varint import INT64_MAX, INT64_MIN, read_varint, read_varlong

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

# One number a row. An int stands for the same number in every row, Any for an array of numpy's.
Column: TypeAlias = int | Sequence[int] | Any

_NO_HEADERS: Headers = ()
_NO_DELTAS = (0,) * len(ZIGZAG)

# Base timestamps to which every delta of two bytes can be added within 64 bits.
_SAFE_BASE_MIN, _SAFE_BASE_MAX = INT64_MIN + (1 << 13), INT64_MAX - (1 << 13)


class Record(NamedTuple):
    """One record of a batch."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


# `Record._make` without its check of the length, which takes half of its time.
make_record: Callable[[Iterable[Any]], Record] = partial(tuple.__new__, Record)


class Fields(NamedTuple):
    """The fields of records, one iterable each, all of the same length."""

    offsets: Iterable[int]
    timestamps_ms: Iterable[int]
    keys: Iterable[bytes | None]
    values: Iterable[bytes | None]
    headers: Iterable[Headers]


class Places(NamedTuple):
    """Where the fields of records are in the payload, a column each; sizes are -1 for null."""

    key_positions: Column
    key_sizes: Column
    value_positions: Column
    value_sizes: Column
    # Of the header counts.
    header_positions: Column


class Base:
    """What the deltas of a batch are relative to, and whether its headers are wanted.

    Where the broker's clock counts, all timestamps are the same. Headers that are not wanted are checked and left out:
    as objects they take many times their bytes, and a record may have millions of them.
    """

    __slots__ = ("offset", "one_byte_deltas", "timestamp_ms", "with_headers")

    def __init__(self, offset: int, timestamp_ms: int, is_append_time: bool = False, with_headers: bool = True) -> None:
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        # What the first byte of a timestamp delta stands for if it is the only one.
        self.one_byte_deltas = _NO_DELTAS if is_append_time else ZIGZAG
        self.with_headers = with_headers

    @property
    def is_append_time(self) -> bool:
        return self.one_byte_deltas is _NO_DELTAS

    def timestamp(self, delta: int) -> int:
        return self.timestamp_ms if self.is_append_time else wrap_int64(self.timestamp_ms + delta)

    def read_headers(self, payload: bytes, pos: int, stop: int) -> tuple[Headers, int]:
        """The headers whose count is at `pos`, in a record that ends at `stop`, and where they end."""
        if self.with_headers:
            return read_headers(payload, pos, stop)
        return _NO_HEADERS, skip_headers(payload, pos, stop)


def read_records(payload: bytes, pos: int, count: int, base: Base) -> tuple[list[Record], int]:
    """The `count` records from `pos` on, and where they end; CorruptRecord if they are not in order."""
    try:
        records, pos = _walk(payload, pos, count, base)
    except IndexError:
        raise CorruptRecord(f"record runs past the {len(payload)} bytes of the batch") from None
    # Deltas of one and two bytes were added without a look at the sum.
    if not _SAFE_BASE_MIN <= base.timestamp_ms <= _SAFE_BASE_MAX:
        records = [record._replace(timestamp_ms=wrap_int64(record.timestamp_ms)) for record in records]
    return records, pos


def _walk(payload: bytes, pos: int, count: int, base: Base) -> tuple[list[Record], int]:
    # Numbers of one byte, and of two where these are common, are read in place: a call costs more than the rest of a
    # field. Positions only grow, so a field that runs past its record is noticed at the end of the record.
    end, zigzag, new = len(payload), ZIGZAG, tuple.__new__
    base_offset, base_timestamp, timestamp_deltas = base.offset, base.timestamp_ms, base.one_byte_deltas
    scale = 0 if base.is_append_time else 1
    records: list[Record] = []
    key: bytes | None
    value: bytes | None
    for _ in range(count):
        if (raw := payload[pos]) < 0x80:
            pos += 1
            stop = pos + (raw >> 1)
        elif (high := payload[pos + 1]) < 0x80:
            pos += 2
            stop = pos + ((raw & 0x7F | high << 7) >> 1)
        else:
            raw, pos = read_varint(payload, pos)
            stop, raw = pos + raw, raw < 0
        if raw & 1 or stop > end:
            raise CorruptRecord(f"the record whose body is at {pos} of {end} bytes has an impossible length")

        if (raw := payload[pos + 1]) < 0x80:
            timestamp = base_timestamp + timestamp_deltas[raw]
            pos += 2
        elif (high := payload[pos + 2]) < 0x80 and not raw & 1:
            timestamp = base_timestamp + ((raw & 0x7F | high << 7) >> 1) * scale
            pos += 3
        else:
            delta, pos = read_varlong(payload, pos + 1)
            timestamp = base.timestamp(delta)
        if (raw := payload[pos]) < 0x80:
            delta = zigzag[raw]
            pos += 1
        elif (high := payload[pos + 1]) < 0x80 and not raw & 1:
            delta = (raw & 0x7F | high << 7) >> 1
            pos += 2
        else:
            delta, pos = read_varint(payload, pos)

        at = pos + 1
        if not (size := payload[pos]) & 0x81:
            pos = at + (size >> 1)
            key = payload[at:pos]
        else:
            key, pos = (None, at) if size == 1 else _field(payload, pos)
        at = pos + 1
        if not (size := payload[pos]) & 0x81:
            pos = at + (size >> 1)
            value = payload[at:pos]
        elif not size & 1 and (high := payload[at]) < 0x80:
            pos = at + 1 + ((size & 0x7F | high << 7) >> 1)
            value = payload[at + 1 : pos]
        else:
            value, pos = (None, at) if size == 1 else _field(payload, pos)
        headers, pos = base.read_headers(payload, pos, stop) if payload[pos] else (_NO_HEADERS, pos + 1)
        if pos != stop:
            raise CorruptRecord(f"record ends at {stop}, its fields at {pos}")
        records.append(new(Record, (base_offset + delta, timestamp, key, value, headers)))
    return records, pos


def _field(payload: bytes, pos: int) -> tuple[bytes | None, int]:
    """A nullable field with its size before it, and where it ends."""
    size, pos = read_varint(payload, pos)
    if size < 0:
        if size < -1:
            raise CorruptRecord(f"field at {pos} has a size of {size}")
        return None, pos
    return payload[pos : pos + size], pos + size


def read_headers(payload: bytes, pos: int, stop: int) -> tuple[Headers, int]:
    """The headers whose count is at `pos`, in a record that ends at `stop`, and where they end."""
    count, pos = _header_count(payload, pos, stop)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size = payload[pos]
        pos += 1
        if size & 0x81:
            size, pos = _header_key_size(payload, pos - 1)
        else:
            size >>= 1
        key = payload[pos : pos + size].decode("utf-8", "surrogateescape")
        pos += size
        at = pos + 1
        if (size := payload[pos]) & 0x81:
            value, pos = _field(payload, pos)
        else:
            pos = at + (size >> 1)
            value = payload[at:pos]
        headers.append((key, value))
    return tuple(headers), pos


def skip_headers(payload: bytes, pos: int, stop: int) -> int:
    """Where the headers end that `read_headers` would read."""
    count, pos = _header_count(payload, pos, stop)
    for _ in range(count):
        size, pos = _header_key_size(payload, pos)
        _, pos = _field(payload, pos + size)
    return pos


def _header_count(payload: bytes, pos: int, stop: int) -> tuple[int, int]:
    count, pos = read_varint(payload, pos)
    # A header takes two bytes at least, so the count is bounded by the size of the record.
    if not 0 <= 2 * count <= stop - pos:
        raise CorruptRecord(f"{count} headers in the last {stop - pos} bytes of a record")
    return count, pos


def _header_key_size(payload: bytes, pos: int) -> tuple[int, int]:
    size, pos = read_varint(payload, pos)
    if size < 0:
        raise CorruptRecord(f"header key at {pos} has a size of {size}")
    return size, pos


def locate(payload: bytes, pos: int, count: int) -> Places:
    """The places of records that were read before."""
    rows = []
    for _ in range(count):
        size, pos = read_varint(payload, pos)
        stop = pos + size
        _, pos = read_varlong(payload, pos + 1)
        _, pos = read_varint(payload, pos)
        key_size, key_at = read_varint(payload, pos)
        value_size, value_at = read_varint(payload, key_at + max(key_size, 0))
        rows.append((key_at, key_size, value_at, value_size, value_at + max(value_size, 0)))
        pos = stop
    return Places(*zip(*rows, strict=True)) if rows else Places((), (), (), (), ())
