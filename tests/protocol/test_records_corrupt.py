"""Batches that lie: every way of reading comes to the same verdict, which is the records or CorruptRecord."""

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records import (
    BatchView,
    Compression,
    Record,
    RecordColumns,
    iter_records,
    read_batches,
    read_columns,
    recompress,
)
from minikafka.protocol.records.encoder import varint
from minikafka.protocol.records.walk import Base
from tests.protocol.record_samples import (
    NOW_MS,
    SHAPES,
    WAYS,
    Shape,
    all_of,
    batch_of_shape,
    build,
    reading,
    second_opinion,
)

BASE = Base(1000, NOW_MS)
EDGES = [0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF]


def with_payload(payload: bytes, count: int) -> BatchView:
    batch = bytearray(build([(NOW_MS, None, None, ())])[:61]) + payload
    batch[0:12] = struct.pack(">qi", BASE.offset, len(batch) - 12)
    batch[57:61] = struct.pack(">i", count)
    return BatchView(batch)


def verdict(payload: bytes, count: int) -> list[Record] | None:
    """What all ways of reading agree on, None for CorruptRecord."""
    try:
        read: list[Record] | None = [*iter_records(with_payload(payload, count))]
    except CorruptRecord:
        read = None
    assert read == second_opinion(payload, count, BASE)
    for way in WAYS:
        with reading(way):
            assert read == columns(payload, count), way
    return read


def columns(payload: bytes, count: int) -> list[Record] | None:
    try:
        found = RecordColumns(payload, count, BASE)
    except CorruptRecord:
        return None
    return all_of(found)


def payload_of(shape: Shape) -> bytes:
    return BatchView(batch_of_shape(shape)).payload()


SMALL = Shape(2, 3, 4, 1, 1, ())


@pytest.mark.parametrize("size", range(len(payload_of(SMALL))))
def test_truncated_anywhere(size: int) -> None:
    assert verdict(payload_of(SMALL)[:size], 2) is None


@pytest.mark.parametrize("rows", [12, 60])
def test_truncated_many(rows: int) -> None:
    payload = payload_of(Shape(rows, 3, 4, 1, 1, ()))
    for size in range(len(payload) - 40, len(payload)):
        assert verdict(payload[:size], rows) is None
    assert verdict(payload, rows) is not None


@pytest.mark.parametrize("rows", [2, 12, 60])
@pytest.mark.parametrize("more", [-1, 1])
def test_other_count(rows: int, more: int) -> None:
    assert verdict(payload_of(Shape(rows, 3, 4, 0, 1, ())), rows + more) is None


@pytest.mark.parametrize("rows", [1, 12, 60])
def test_bytes_left(rows: int) -> None:
    payload = payload_of(Shape(rows, 3, 4, 0, 1, ()))
    assert verdict(payload + b"\x00", rows) is None


@pytest.mark.parametrize("byte", EDGES)
@pytest.mark.parametrize("rows", [2, 20])
def test_every_byte_replaced(byte: int, rows: int) -> None:
    payload = bytearray(payload_of(Shape(rows, 3, 70, 1, 1, ())))
    for at in range(len(payload) - 90, len(payload)):
        before, payload[at] = payload[at], byte
        verdict(bytes(payload), rows)
        payload[at] = before


@settings(max_examples=400)
@given(SHAPES, st.data())
def test_changed_anywhere(shape: Shape, data: st.DataObject) -> None:
    payload = bytearray(payload_of(shape))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255) | st.sampled_from(EDGES))
    verdict(bytes(payload), shape.rows)


@settings(max_examples=300)
@given(SHAPES, st.data())
def test_cut_and_pasted(shape: Shape, data: st.DataObject) -> None:
    payload = payload_of(shape)
    cut, paste = sorted(data.draw(st.lists(st.integers(0, len(payload)), min_size=2, max_size=2)))
    for changed in (payload[:cut] + payload[paste:], payload[:paste] + payload[cut:]):
        verdict(changed, shape.rows)
        verdict(changed, data.draw(st.integers(0, 200)))


@given(st.binary(max_size=400), st.integers(-2, 60))
def test_anything(payload: bytes, count: int) -> None:
    verdict(payload, count)


# Record bodies that are wrong in one way each; they start with attributes and deltas, all 0 where these are not meant.
BODIES = {
    "key of size -2": "000000 03 01 00",
    "value of size -2": "000000 01 03 00",
    "key past the end": "000000 10 01 00",
    "header count of -1": "000000 01 01 01",
    "more headers than bytes": "000000 01 01 7e",
    "header without a key": "000000 01 01 02 01 01",
    "header value of size -2": "000000 01 01 02 00 03",
    "header value past the end": "000000 01 01 02 00 10",
    "header without a key, twice": "000000 01 01 04 01 02 61 01",
    "one header missing": "000000 01 01 04 00 01",
    "bytes after the headers": "000000 01 01 00 00",
    "offset delta of 33 bits": "0000 ffffffff1f 01 01 00",
    "offset delta of 6 bytes": "0000 808080808000 01 01 00",
    "timestamp delta of 65 bits": "00 ffffffffffffffffff02 00 01 01 00",
    "timestamp delta of 11 bytes": "00 8080808080808080808000 00 01 01 00",
    "key size of 33 bits": "000000 ffffffff1f 01 00",
    "nothing": "",
    "attributes alone": "00",
}
GOOD = bytes.fromhex("000000 01 01 00")


@pytest.mark.parametrize("body", BODIES.values(), ids=[*BODIES])
@pytest.mark.parametrize("rows", [1, 12, 60])
def test_flaws(body: str, rows: int) -> None:
    bad = bytes.fromhex(body)
    bad = bytes([2 * len(bad)]) + bad
    good = bytes([2 * len(GOOD)]) + GOOD
    assert verdict(good * rows, rows) is not None
    assert verdict(good * (rows - 1) + bad, rows) is None
    # A run of records that share the flaw.
    assert verdict(bad * rows, rows) is None


@pytest.mark.parametrize("length", ["01", "03", "ff7f", "ffffffff0f", "fcffffff1f", "808080808000"])
@pytest.mark.parametrize("rows", [1, 12, 60])
def test_impossible_lengths(length: str, rows: int) -> None:
    good = bytes([2 * len(GOOD)]) + GOOD
    assert verdict(good * (rows - 1) + bytes.fromhex(length) + GOOD, rows) is None


@pytest.mark.parametrize("size", [0, 20, 100, 9000])
@pytest.mark.parametrize("rows", [1, 12, 60])
def test_negative_lengths_of_the_right_size(size: int, rows: int) -> None:
    """A length of -n - 1 has the same bits as one of n, but for the last."""
    record = bytearray(payload_of(Shape(1, size, size, 1, 1, ())))
    assert verdict(bytes(record) * rows, rows) is not None
    # The record's length and, where it has one byte, the key's.
    for at in [0, 4] if 0 < size < 64 else [0]:
        bad = bytearray(record)
        bad[at] |= 1
        assert verdict(bytes(record) * (rows - 1) + bytes(bad), rows) is None


@pytest.mark.parametrize("rows", [1, 12, 60])
def test_deltas_of_other_lengths(rows: int) -> None:
    """Records whose deciding bytes are those of a run, while the deltas before them take more or fewer bytes."""
    tail = bytes.fromhex("01 08 76767676 00")
    two_and_one, one_and_two = bytes.fromhex("8001 00"), bytes.fromhex("02 8001")
    records = [bytes.fromhex("16 00") + deltas + tail for deltas in (two_and_one, one_and_two)]
    for first, other in (records, records[::-1]):
        assert verdict(first * rows + other, rows + 1) is not None
        assert verdict(first * rows + other + first * rows, 2 * rows + 1) is not None
    for deltas in ("02 02 00", "808001", "00 00 80", "8080 00", "ff ff ff"):
        for first in records:
            bad = bytes.fromhex("16 00") + bytes.fromhex(deltas) + tail
            verdict(first * rows + bad, rows + 1)
            verdict(first * rows + bad + first * rows, 2 * rows + 1)


@pytest.mark.parametrize("count", [-1, -(2**31), 2**31 - 1])
def test_impossible_counts_cost_nothing(count: int) -> None:
    batch = with_payload(payload_of(SMALL), count)
    tracemalloc.start()
    try:
        for read in (lambda: [*iter_records(batch)], lambda: read_columns(batch)):
            with pytest.raises(CorruptRecord):
                read()
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rows", [1, 30, 100])
def test_many_headers_cost_nothing_if_left_out(rows: int) -> None:
    count = 30_000
    body = bytes.fromhex("000000 01 01") + varint(count) + bytes.fromhex("00 01") * count
    payload = bytes.fromhex("0c 000000 01 01 00") * (rows - 1) + varint(len(body)) + body
    batch = with_payload(payload, rows)
    tracemalloc.start()
    try:
        assert len([*iter_records(batch, with_headers=False)]) == rows
        # The payload, some times over, but not an object a header.
        assert tracemalloc.get_traced_memory()[1] < 5 * len(payload)
    finally:
        tracemalloc.stop()
    assert len([*iter_records(batch)][-1].headers) == count


def test_negative_counts() -> None:
    for count in (-1, -(2**31)):
        assert verdict(b"", count) is None


def test_a_count_that_the_bytes_just_allow() -> None:
    # Seven bytes are a record; here they are not, but there could be that many.
    assert verdict(b"\xff" * 7000, 1000) is None
    assert verdict(bytes.fromhex("0c 000000 01 01 00") * 1000, 1000) is not None


@pytest.mark.parametrize("base_offset", [2**63 - 1, -(2**63), 2**63 - 2**31 + 1])
def test_impossible_base_offset(base_offset: int) -> None:
    batch = with_payload(payload_of(SMALL), 2)
    batch.base_offset = base_offset
    for read in (iter_records, read_columns):
        with pytest.raises(CorruptRecord, match="base offset"):
            read(batch)


def test_unknown_codec() -> None:
    batch = with_payload(payload_of(SMALL), 2)
    batch.attributes = 5
    for read in (iter_records, read_columns):
        with pytest.raises(CorruptRecord, match="codec 5"):
            read(batch)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_inflating_past_the_limit(codec: Compression) -> None:
    batch = BatchView(recompress(BatchView(build([(NOW_MS, None, bytes(100_000), ())])), codec))
    for read in (iter_records, read_columns):
        with pytest.raises(CorruptRecord):
            read(batch, 10_000)
        assert len([*read(batch, 200_000).records()] if read is read_columns else [*iter_records(batch, 200_000)]) == 1


@settings(max_examples=300)
@given(st.sampled_from(Compression), SHAPES, st.data())
def test_damaged_batches(codec: Compression, shape: Shape, data: st.DataObject) -> None:
    """Without a look at the CRC, which would find nearly all of these."""
    batch = recompress(BatchView(batch_of_shape(shape)), codec)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        views = read_batches(batch)
    except CorruptRecord:
        return
    for view in views:
        try:
            read: list[Record] | None = [*iter_records(view, 1 << 20)]
        except CorruptRecord:
            read = None
        try:
            found: list[Record] | None = all_of(read_columns(view, 1 << 20))
        except CorruptRecord:
            found = None
        assert read == found


def test_good_records_come_before_the_flaw() -> None:
    payload = payload_of(Shape(600, 3, 4, 0, 0, ()))
    records = iter_records(with_payload(payload[:-1], 600))
    assert next(records).offset == 1000
    with pytest.raises(CorruptRecord):
        list(records)
