"""Variable-length integers: seven bits a byte, lowest first, the top bit set on all bytes but the last.

Two families, which fail differently because they stand in different places:

- unsigned, in messages (compact lengths, tags): more than 5 bytes or 32 bits is a `DecodeError`;
- zigzag-signed, in records (0, -1, 1, -2 become 0, 1, 2, 3): a varint has up to 5 bytes and 32 bits, a varlong up to
  10 bytes and 64 bits; more is a `CorruptRecord`.

A padded number (0x80 0x00 for 0) is accepted, as in Kafka, as long as it keeps to these limits. Running past the end
of the buffer raises IndexError: callers decode many fields inside one `try` and translate it once.
"""

from __future__ import annotations

from typing import TypeAlias

from minikafka.protocol.errors import CorruptRecord, DecodeError

Buffer: TypeAlias = bytes | bytearray | memoryview

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

# ceil(32 / 7) and ceil(64 / 7): the bytes that the widest numbers take.
VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """The unsigned number at `pos`, at most 2**32 - 1, and the position after it."""
    value = buf[pos]
    if value < 0x80:
        return value, pos + 1
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        pos += 1
        byte = buf[pos]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                raise DecodeError(f"unsigned varint ending at {pos} has more than 32 bits")
            return value, pos + 1
    raise DecodeError(f"unsigned varint ending past {pos} has more than {VARINT_BYTES_MAX} bytes")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append a number of 0 to 2**32 - 1."""
    if not 0 <= value < 2**32:
        raise ValueError(f"{value} does not fit an unsigned varint")
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """The signed 32-bit number at `pos` and the position after it."""
    raw = buf[pos]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), pos + 1
    high = buf[pos + 1]
    if high < 0x80:
        raw = raw & 0x7F | high << 7
        return (raw >> 1) ^ -(raw & 1), pos + 2
    return _read_zigzag(buf, pos, 32, VARINT_BYTES_MAX)


def read_varlong(buf: Buffer, pos: int) -> tuple[int, int]:
    """The signed 64-bit number at `pos` and the position after it."""
    raw = buf[pos]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), pos + 1
    high = buf[pos + 1]
    if high < 0x80:
        raw = raw & 0x7F | high << 7
        return (raw >> 1) ^ -(raw & 1), pos + 2
    return _read_zigzag(buf, pos, 64, VARLONG_BYTES_MAX)


def _read_zigzag(buf: Buffer, pos: int, bits: int, bytes_max: int) -> tuple[int, int]:
    raw = shift = 0
    for at in range(pos, pos + bytes_max):
        byte = buf[at]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> bits:
                raise CorruptRecord(f"varint at {pos} has more than {bits} bits")
            return (raw >> 1) ^ -(raw & 1), at + 1
        shift += 7
    raise CorruptRecord(f"varint at {pos} has more than {bytes_max} bytes")


def write_varint(out: bytearray, value: int) -> None:
    """Append a signed 32-bit number."""
    if not INT32_MIN <= value <= INT32_MAX:
        raise ValueError(f"{value} does not fit a varint")
    _write_zigzag(out, value)


def write_varlong(out: bytearray, value: int) -> None:
    """Append a signed 64-bit number."""
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError(f"{value} does not fit a varlong")
    _write_zigzag(out, value)


def _write_zigzag(out: bytearray, value: int) -> None:
    # Python's shift keeps the sign, so `value >> 63` is -1 for every negative number: all bits flip.
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def varint_size(value: int) -> int:
    """How many bytes `write_varint` or `write_varlong` takes for the value."""
    raw = (value << 1) ^ (value >> 63)
    return (raw.bit_length() + 6) // 7 or 1
