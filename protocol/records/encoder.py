"""Records to bytes, one by one and many at a time.

Nearly all numbers in a record are below 8192 and come out of a table; joining the pieces is then one call. For many
records of one timestamp the pieces are made column by column and laid out in one list, so that Python does little for
each record; where all records have the same shape most columns are the same piece repeated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from minikafka.protocol.records.layout import VARINTS, wrap_int64
from minikafka.protocol.varint import write_varlong

Header: TypeAlias = tuple[str, bytes | None]

_TABLE_SIZE = len(VARINTS)
_NULL = b"\x01"
_ATTRIBUTES = b"\x00"
_NO_HEADERS = b"\x00"

# What a field of so many bytes takes with its size before it.
_FIELD_BYTES = tuple(len(VARINTS[size]) + size for size in range(_TABLE_SIZE))

# Where a number starts to take a byte more: seven bits a byte, one of all of them for the sign.
_ONE_BYTE_END = 1 << 6
_TWO_BYTES_END = 1 << 13


def varint(value: int) -> bytes:
    """A zigzag varint or varlong."""
    if 0 <= value < _TABLE_SIZE:
        return VARINTS[value]
    out = bytearray()
    write_varlong(out, value)
    return bytes(out)


def encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Collection[Header]
) -> tuple[bytes, bytes]:
    """A record's length and its body."""
    table, end = VARINTS, _TABLE_SIZE
    if key is None:
        key, key_size = b"", _NULL
    else:
        size = len(key)
        key_size = table[size] if size < end else varint(size)
    if value is None:
        value, value_size = b"", _NULL
    else:
        size = len(value)
        value_size = table[size] if size < end else varint(size)
    timestamp = table[timestamp_delta] if 0 <= timestamp_delta < end else varint(wrap_int64(timestamp_delta))
    offset = table[offset_delta] if 0 <= offset_delta < end else varint(offset_delta)
    tail = encode_headers(headers) if headers else _NO_HEADERS
    body = b"".join((_ATTRIBUTES, timestamp, offset, key_size, key, value_size, value, tail))
    size = len(body)
    return table[size] if size < end else varint(size), body


def encode_headers(headers: Collection[Header]) -> bytes:
    """The count of headers and the headers."""
    table, end = VARINTS, _TABLE_SIZE
    parts = [varint(len(headers))]
    for key, value in headers:
        # Undoes what `walk.read_headers` does to bytes that are not UTF-8.
        name = key.encode("utf-8", "surrogateescape")
        size = len(name)
        parts += (table[size] if size < end else varint(size), name)
        if value is None:
            parts.append(_NULL)
        else:
            size = len(value)
            parts += (table[size] if size < end else varint(size), value)
    return b"".join(parts)


class Rows(NamedTuple):
    """Some records as pieces to be joined."""

    pieces: list[bytes]
    rows: int
    size: int


def encode_rows(
    offset_delta: int, timestamp_delta: int, keys: Sequence[bytes] | None, values: Sequence[bytes], room: int
) -> Rows | None:
    """Records without headers, of consecutive offsets and one timestamp, as many as there is room for in bytes.

    Ends early where the offset delta takes a byte more. None if a number is too large for the table."""
    rows = min(len(values), (_ONE_BYTE_END if offset_delta < _ONE_BYTE_END else _TWO_BYTES_END) - offset_delta)
    values, keys = values[:rows], keys and keys[:rows]
    value_sizes = [*map(len, values)]
    key_sizes = [*map(len, keys)] if keys is not None else []
    fixed = _ATTRIBUTES + varint(wrap_int64(timestamp_delta))
    # All of the body but key and value; a null key has only its size.
    rest_bytes = len(fixed) + len(varint(offset_delta)) + len(_NO_HEADERS) + (len(_NULL) if keys is None else 0)
    if rows < 1 or rest_bytes + _largest(key_sizes) + _largest(value_sizes) >= _TABLE_SIZE:
        return None
    if len({*value_sizes}) == 1 and len({*key_sizes}) < 2:
        return _alike(fixed, offset_delta, keys, values, rest_bytes, room)
    if keys is None:
        bodies = [_FIELD_BYTES[size] + rest_bytes for size in value_sizes]
    else:
        bodies = [
            _FIELD_BYTES[key_size] + _FIELD_BYTES[size] + rest_bytes
            for key_size, size in zip(key_sizes, value_sizes, strict=True)
        ]
    count, size = _fitting([*map(_FIELD_BYTES.__getitem__, bodies)], room)
    pattern = [b"", fixed, b"", *([_NULL] if keys is None else [b"", b""]), b"", b"", _NO_HEADERS]
    pieces, step = pattern * count, len(pattern)
    pieces[0::step] = map(VARINTS.__getitem__, bodies[:count])
    pieces[2::step] = VARINTS[offset_delta : offset_delta + count]
    if keys is not None:
        pieces[3::step] = map(VARINTS.__getitem__, key_sizes[:count])
        pieces[4::step] = keys[:count]
    pieces[step - 3 :: step] = map(VARINTS.__getitem__, value_sizes[:count])
    pieces[step - 2 :: step] = values[:count]
    return Rows(pieces, count, size)


def _fitting(sizes: list[int], room: int) -> tuple[int, int]:
    """How many of the first sizes fit into the room together, and their sum."""
    total = sum(sizes)
    if total <= room:
        return len(sizes), total
    ends = [*accumulate(sizes)]
    count = bisect_right(ends, room)
    return count, ends[count - 1] if count else 0


def _largest(sizes: Sequence[int]) -> int:
    """What the largest field takes, size included; two bytes do for all that the table has."""
    return max(sizes, default=0) + 2


def _alike(
    fixed: bytes, offset_delta: int, keys: Sequence[bytes] | None, values: Sequence[bytes], rest_bytes: int, room: int
) -> Rows:
    """Records whose keys have one size and whose values have one size."""
    value_size = VARINTS[len(values[0])]
    body_bytes = rest_bytes + _FIELD_BYTES[len(values[0])] + (_FIELD_BYTES[len(keys[0])] if keys else 0)
    head = VARINTS[body_bytes] + fixed
    record_bytes = _FIELD_BYTES[body_bytes]
    count = min(len(values), room // record_bytes)
    # The header count of a record goes with the head of the next one.
    if keys is None:
        pattern = [_NO_HEADERS + head, b"", _NULL + value_size, b""]
    else:
        pattern = [_NO_HEADERS + head, b"", VARINTS[len(keys[0])], b"", value_size, b""]
    pieces = pattern * count
    step = len(pattern)
    pieces[1::step] = VARINTS[offset_delta : offset_delta + count]
    if keys is not None:
        pieces[3::step] = keys[:count]
    pieces[step - 1 :: step] = values[:count]
    pieces[:1] = [head] if count else []
    pieces += [_NO_HEADERS] if count else []
    return Rows(pieces, count, count * record_bytes)
