"""Where the records of a batch begin and end, and as much of them as compaction looks at.

A record that stays is copied byte for byte: its deltas count from a base that stays too. So only the key is cut out,
and of the value it matters only whether there is one. What is not looked at is not checked either. The bytes have
their CRC, and `CorruptRecord` is for records that a client made up: fields that do not fit into each other.
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.varint import read_varint, read_varlong


class Spans(NamedTuple):
    """The records of a payload, a list for each of their properties."""

    bounds: list[int]
    """Record n is from bound n to bound n + 1."""
    offset_deltas: list[int]
    keys: list[bytes | None]
    tombstones: list[int]
    """Rows without a value."""


def find_spans(payload: bytes, count: int) -> Spans:
    """The spans of all records; CorruptRecord if they do not fill the payload."""
    try:
        spans = _find(payload, count)
    except IndexError as error:
        raise CorruptRecord(f"records run past the {len(payload)} bytes of the batch") from error
    if spans.bounds[-1] != len(payload):
        raise CorruptRecord(f"{count} records end at {spans.bounds[-1]} of {len(payload)} bytes")
    return spans


def _find(payload: bytes, count: int) -> Spans:
    # Numbers of one byte, and of two where these are common, are read in place: a call costs more than all the rest.
    bounds, deltas, keys, tombstones = [0], [], [], []
    stop = 0
    for row in range(count):
        pos = stop
        if not (raw := payload[pos]) & 0x81:
            pos += 1
            stop = pos + (raw >> 1)
        elif (high := payload[pos + 1]) < 0x80 and not raw & 1:
            pos += 2
            stop = pos + ((raw & 0x7F | high << 7) >> 1)
        else:
            size, pos = read_varint(payload, pos)
            stop = pos + size

        # Attributes, then the timestamp delta.
        pos += 1
        while payload[pos] > 0x7F:
            pos += 1
        if not (raw := payload[pos + 1]) & 0x81:
            delta = raw >> 1
            pos += 2
        elif (high := payload[pos + 2]) < 0x80 and not raw & 1:
            delta = (raw & 0x7F | high << 7) >> 1
            pos += 3
        else:
            delta, pos = read_varint(payload, pos + 1)

        key: bytes | None
        if not (raw := payload[pos]) & 0x81:
            at = pos + 1
            pos = at + (raw >> 1)
            key = payload[at:pos]
        else:
            size, at = read_varint(payload, pos)
            pos = at + max(size, 0)
            key = None if size < 0 else payload[at:pos]

        if payload[pos] & 1 and read_varint(payload, pos)[0] < 0:
            tombstones.append(row)
        if pos >= stop:
            raise CorruptRecord(f"record {row} ends at {stop}, its key at {pos}")
        bounds.append(stop)
        deltas.append(delta)
        keys.append(key)
    return Spans(bounds, deltas, keys, tombstones)


def timestamp_delta(payload: bytes, start: int) -> int:
    """The timestamp delta of the record that starts there."""
    _, pos = read_varint(payload, start)
    return read_varlong(payload, pos + 1)[0]
