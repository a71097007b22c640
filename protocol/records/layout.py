"""The bytes of a record batch, version 2, and of the records in it.

    at  size  field                   at  size  field
     0     8  base offset             27     8  base timestamp
     8     4  batch length            35     8  max timestamp
    12     4  partition leader epoch  43     8  producer id
    16     1  magic, 2                51     2  producer epoch
    17     4  CRC                     53     4  base sequence
    21     2  attributes              57     4  record count
    23     4  last offset delta       61        records

The batch length counts what follows it, so a batch takes 12 bytes more. The CRC is CRC-32C of everything from the
attributes to the end: base offset and leader epoch lie before it, and a broker sets them without touching it. In all
versions of the format the length is at 8 and the magic at 16, so older batches can be recognised.

A record, all numbers zigzag varints:

    length, attributes (1 byte, unused), timestamp delta, offset delta,
    key length (-1 for null), key, value length (-1 for null), value,
    header count, and for each header: key length, key, value length (-1 for null), value

The deltas add up with the base timestamp and base offset in 64 bits and wrap around, as they do in Java: a batch that
starts without a timestamp (-1) and holds one of 2**63 - 1 comes out right.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size  # 61

LENGTH_AT = 8
# Base offset and batch length: what comes before the part that the batch length counts.
LENGTH_OVERHEAD_BYTES = 12
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
# The CRC covers all from here on.
ATTRIBUTES_AT = 21

MAGIC = 2

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

# Length, attributes, two deltas, key length, value length, header count: one byte each.
RECORD_BYTES_MIN = 7

# Records above this size are not read unless the caller says otherwise. A broker takes up to 2 GiB.
RECORD_BYTES_MAX = 256 << 20

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

SEQUENCE_MASK = 2**31 - 1


class TimestampType(IntEnum):
    """Bit 3 of the attributes: whose clock the timestamps are from."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


def wrap_int64(number: int) -> int:
    """The number as 64-bit arithmetic leaves it."""
    return (number + 2**63) % 2**64 - 2**63


def _encode_zigzag(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


# What the first byte of a zigzag varint stands for if it is the only one.
ZIGZAG = tuple((raw >> 1) ^ -(raw & 1) for raw in range(128))

# The encodings of 0 to 8191, which are those of one and two bytes: nearly every number in a record is among them.
VARINTS = tuple(_encode_zigzag(value) for value in range(1 << 13))
