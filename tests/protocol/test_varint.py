"""Numbers of variable length: what is written is read, and nothing past the limits is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import decode_varint, encode_varint

from minikafka.protocol.errors import CorruptRecord, DecodeError
from minikafka.protocol.varint import (
    read_uvarint,
    read_varint,
    read_varlong,
    varint_size,
    write_uvarint,
    write_varint,
    write_varlong,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)

ZIGZAG = {0: "00", -1: "01", 1: "02", -2: "03", 63: "7e", -64: "7f", 64: "8001", 8191: "fe7f", 8192: "808001"}


def written(write: object, value: int) -> bytes:
    out = bytearray(b"before")
    write(out, value)  # type: ignore[operator]
    assert out[:6] == b"before"
    return bytes(out[6:])


@given(st.integers(0, 2**32 - 1))
def test_uvarint_round_trip(value: int) -> None:
    wire = written(write_uvarint, value)
    assert read_uvarint(b"xx" + wire, 2) == (value, 2 + len(wire))
    assert len(wire) == max(1, -(-value.bit_length() // 7))


@given(INT32)
def test_varint_round_trip(value: int) -> None:
    wire = written(write_varint, value)
    assert read_varint(b"xx" + wire + b"\xff", 2) == (value, 2 + len(wire))
    assert len(wire) == varint_size(value) <= 5


@given(INT64)
def test_varlong_round_trip(value: int) -> None:
    wire = written(write_varlong, value)
    assert read_varlong(b"xx" + wire + b"\xff", 2) == (value, 2 + len(wire))
    assert len(wire) == varint_size(value) <= 10


@given(INT64)
def test_same_bytes_as_kafka_python(value: int) -> None:
    theirs = bytearray()
    encode_varint(value, theirs.append)
    assert written(write_varlong, value) == theirs
    assert read_varlong(theirs, 0) == decode_varint(theirs, 0)


@pytest.mark.parametrize(("value", "wire"), ZIGZAG.items())
def test_zigzag(value: int, wire: str) -> None:
    assert written(write_varint, value).hex() == wire


@pytest.mark.parametrize("wire", ["8000", "808000", "80808000", "8080808000"])
def test_padding_within_the_limit_is_accepted(wire: str) -> None:
    raw = bytes.fromhex(wire)
    assert read_uvarint(raw, 0) == read_varint(raw, 0) == read_varlong(raw, 0) == (0, len(raw))


def test_the_largest() -> None:
    assert read_uvarint(bytes.fromhex("ffffffff0f"), 0) == (2**32 - 1, 5)
    assert read_varint(bytes.fromhex("ffffffff0f"), 0) == (-(2**31), 5)
    assert read_varlong(bytes.fromhex("ffffffffffffffffff01"), 0) == (-(2**63), 10)


@pytest.mark.parametrize("wire", ["ffffffff10", "ffffffff7f", "8080808080", "808080808000"])
def test_more_than_32_bits_or_5_bytes(wire: str) -> None:
    raw = bytes.fromhex(wire)
    with pytest.raises(DecodeError):
        read_uvarint(raw, 0)
    with pytest.raises(CorruptRecord):
        read_varint(raw, 0)


@pytest.mark.parametrize("wire", ["ffffffffffffffffff02", "80808080808080808080", "8080808080808080808000"])
def test_more_than_64_bits_or_10_bytes(wire: str) -> None:
    with pytest.raises(CorruptRecord):
        read_varlong(bytes.fromhex(wire), 0)


@pytest.mark.parametrize("read", [read_uvarint, read_varint, read_varlong])
@pytest.mark.parametrize("wire", ["", "80", "ffff", "ffffff"])
def test_past_the_end(read: object, wire: str) -> None:
    with pytest.raises(IndexError):
        read(bytes.fromhex(wire), 0)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("write", "value"),
    [
        (write_uvarint, -1),
        (write_uvarint, 2**32),
        (write_varint, 2**31),
        (write_varint, -(2**31) - 1),
        (write_varlong, 2**63),
        (write_varlong, -(2**63) - 1),
    ],
)
def test_what_does_not_fit_is_not_written(write: object, value: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        written(write, value)
