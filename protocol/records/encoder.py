"""Parts of records to bytes, and many records at a time.

Nearly all numbers in a record are below 8192 and come out of a table. For many records of one timestamp the pieces are
made column by column and laid out in one list, so that Python does little for each record; where all records have the
same shape most columns are the same piece repeated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from minikafka.protocol.records.layout import VARINTS, wrap_int64
from minikafka.protocol.varint import write_varlong

Header: TypeAlias = tuple[str, bytes | None]

TABLE_SIZE = len(VARINTS)
NULL = b"\x01"
ATTRIBUTES = b"\x00"
NO_HEADERS = b"\x00"

# What a field of so many bytes takes with its size before it.
_FIELD_BYTES = tuple(len(VARINTS[size]) + size for size in range(TABLE_SIZE))

# Where a number starts to take a byte more: seven bits a byte, one of all of them for the sign.
_ONE_BYTE_END = 1 << 6
_TWO_BYTES_END = 1 << 13


def varint(value: int) -> bytes:
    """A zigzag varint or varlong."""
    if 0 <= value < TABLE_SIZE:
        return VARINTS[value]
    out = bytearray()
    write_varlong(out, value)
    return bytes(out)


def encode_headers(headers: Collection[Header]) -> bytes:
    """The count of headers and the headers."""
    table, end = VARINTS, TABLE_SIZE
    parts = [varint(len(headers))]
    for key, value in headers:
        if value is None:
            parts += (_header_key(key), NULL)
        else:
            size = len(value)
            parts += (_header_key(key), table[size] if size < end else varint(size), value)
    return b"".join(parts)


# Header keys are few and come again with every record.
@lru_cache(maxsize=256)
def _header_key(key: str) -> bytes:
    # Undoes what `walk.read_headers` does to bytes that are not UTF-8.
    name = key.encode("utf-8", "surrogateescape")
    return varint(len(name)) + name


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
    fixed = ATTRIBUTES + varint(wrap_int64(timestamp_delta))
    # All of the body but key and value; a null key has only its size.
    rest_bytes = len(fixed) + len(varint(offset_delta)) + len(NO_HEADERS) + (len(NULL) if keys is None else 0)
    if rows < 1 or rest_bytes + _largest(key_sizes) + _largest(value_sizes) >= TABLE_SIZE:
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
    pattern = [b"", fixed, b"", *([NULL] if keys is None else [b"", b""]), b"", b"", NO_HEADERS]
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
        pattern = [NO_HEADERS + head, b"", NULL + value_size, b""]
    else:
        pattern = [NO_HEADERS + head, b"", VARINTS[len(keys[0])], b"", value_size, b""]
    pieces = pattern * count
    step = len(pattern)
    pieces[1::step] = VARINTS[offset_delta : offset_delta + count]
    if keys is not None:
        pieces[3::step] = keys[:count]
    pieces[step - 1 :: step] = values[:count]
    pieces[:1] = [head] if count else []
    pieces += [NO_HEADERS] if count else []
    return Rows(pieces, count, count * record_bytes)
