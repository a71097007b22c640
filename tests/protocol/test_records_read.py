"""Records read one by one and in columns: both right, whatever the records look like, with numpy and without."""

import subprocess
import sys
from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.records import BatchBuilder, BatchView, Compression, Record, iter_records, read_columns
from minikafka.protocol.records.reader import base_of
from tests.protocol.record_samples import (
    INT64,
    NOW_MS,
    RECORDS,
    SHAPES,
    WAYS,
    RecordTuple,
    Shape,
    batch_of_shape,
    build,
    from_columns,
    reading,
    second_opinion,
)

ROWS = [0, 1, 7, 8, 9, 23, 24, 63, 64, 65, 200]


def check(batch: BatchView, expected: list[Record] | None = None) -> None:
    """All ways of reading give the same records."""
    opinion = second_opinion(batch.payload(), batch.record_count, base_of(batch))
    assert opinion is not None
    assert expected is None or opinion == expected
    assert [*iter_records(batch)] == opinion
    for way in WAYS:
        with reading(way):
            assert from_columns(batch) == opinion, way


@given(RECORDS)
def test_any_records(records: list[RecordTuple]) -> None:
    check(BatchView(build(records)), [Record(offset, *record) for offset, record in enumerate(records)])


@settings(max_examples=200)
@given(SHAPES)
def test_many_records_alike(shape: Shape) -> None:
    check(BatchView(batch_of_shape(shape)))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("odd", [False, True])
def test_around_the_limits_of_the_methods(rows: int, odd: bool) -> None:
    check(BatchView(batch_of_shape(Shape(rows, 5, 20, 1, 3, tuple(range(rows)) if odd else ()))))


@pytest.mark.parametrize("odd", [False, True])
def test_offset_deltas_of_three_bytes(odd: bool) -> None:
    builder = BatchBuilder()
    for row in range(8500):
        builder.append(NOW_MS + row, None, b"v" * (row % 7 if odd else 3))
    batch = BatchView(builder.build(base_offset=10))
    check(batch)
    assert read_columns(batch).offsets.tolist() == [*range(10, 8510)]


def test_fields_of_all_sizes() -> None:
    sizes = [0, 1, 63, 64, 65, 8191, 8192, 8193, 1 << 20, 1 << 20]
    check(BatchView(build([(NOW_MS, bytes(size), bytes(size), (("h", bytes(size)),)) for size in sizes])))


@pytest.mark.parametrize("rows", [3, 30, 100])
@pytest.mark.parametrize("odd", [False, True])
def test_offsets_with_gaps(rows: int, odd: bool) -> None:
    builder = BatchBuilder()
    for row in range(rows):
        builder.append(NOW_MS, b"k" * (row % 5 if odd else 1), None, offset_delta=row * 3 + 1)
    batch = BatchView(builder.build(base_offset=1000, last_offset_delta=900))
    check(batch)
    assert read_columns(batch).offsets.tolist() == [1000 + row * 3 + 1 for row in range(rows)]
    assert batch.next_offset == 1901


@given(INT64, INT64, st.integers(1, 60))
def test_timestamps_wrap_around(first: int, other: int, rows: int) -> None:
    records: list[RecordTuple] = [(first, None, b"v", ())]
    records += [(other, None, b"v" * (row % 2), ()) for row in range(rows)]
    check(BatchView(build(records)), [Record(offset, *record) for offset, record in enumerate(records)])


@pytest.mark.parametrize("rows", [1, 40])
def test_timestamps_that_wrap_around_by_little(rows: int) -> None:
    for first, other in ((2**63 - 1, -(2**63) + 3), (2**63 - 70, -(2**63) + 99), (-(2**63), 2**63 - 1)):
        records: list[RecordTuple] = [(first, None, None, ()), *[(other, None, b"v", ())] * rows]
        check(BatchView(build(records)), [Record(offset, *record) for offset, record in enumerate(records)])


@pytest.mark.parametrize("rows", [1, 40, 100])
@pytest.mark.parametrize("odd", [False, True])
def test_append_time_counts_for_all(rows: int, odd: bool) -> None:
    batch = BatchView(batch_of_shape(Shape(rows, 5, 5, 0, 100, tuple(range(rows)) if odd else ())))
    batch.set_log_append_time(NOW_MS * 2)
    check(batch)
    assert set(read_columns(batch).timestamps_ms) == {NOW_MS * 2}


def test_header_keys_that_are_not_text() -> None:
    batch = build([(NOW_MS, None, None, (("key?", b"v"),))] * 2)
    raw = BatchView(bytes(batch).replace(b"key?", b"ke\xff\xfe"))
    check(raw)
    records = [*iter_records(raw)]
    assert records[0].headers[0][0].encode("utf-8", "surrogateescape") == b"ke\xff\xfe"
    again = build([tuple(record)[1:] for record in records])  # type: ignore[misc]
    assert again[61:] == raw.payload()


@settings(max_examples=50)
@given(SHAPES)
def test_headers_left_out(shape: Shape) -> None:
    batch = BatchView(batch_of_shape(shape))
    assert [*iter_records(batch, with_headers=False)] == [record._replace(headers=()) for record in iter_records(batch)]


# Says what is loaded after records were read, and reads columns where numpy cannot be loaded.
WITHOUT_NUMPY = """
import sys
from minikafka.protocol.records import BatchView, iter_records, read_columns
batch = BatchView(sys.stdin.buffer.read())
records = [*iter_records(batch)]
assert "numpy" not in sys.modules
sys.modules["numpy"] = None
columns = read_columns(batch)
assert [*columns.records()] == records and len(columns) == 200
assert columns.offsets.tolist() == [record.offset for record in records]
"""


def test_numpy_is_optional() -> None:
    batch = batch_of_shape(Shape(200, 5, 20, 1, 3, tuple(range(200))))
    subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], input=batch, check=True)


def padded(number: int, size: int) -> bytes:
    """A zigzag varint that takes more bytes than it needs."""
    raw = (number << 1) ^ (number >> 63)
    return bytes((raw >> 7 * place & 0x7F) | (0x80 if place < size - 1 else 0) for place in range(size))


@pytest.mark.parametrize("rows", [1, 12, 60])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_padded_numbers(rows: int, size: int) -> None:
    payload = b""
    for row in range(rows):
        body = b"\x00" + padded(5, size * 2) + padded(row, size) + padded(-1, size) + padded(2, size) + b"vv"
        body += padded(0, size) if row % 9 else padded(1, size) + padded(1, size) + b"h" + padded(-1, size)
        payload += padded(len(body), size) + body
    batch = bytearray(build([(NOW_MS, None, None, ())])[:61]) + payload
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = rows.to_bytes(4, "big")
    headers = ((("h", None),), ())
    check(BatchView(batch), [Record(row, NOW_MS + 5, None, b"vv", headers[row % 9 > 0]) for row in range(rows)])


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("rows", [1, 30, 300])
def test_codecs(codec: Compression, rows: int) -> None:
    plain = batch_of_shape(Shape(rows, 5, 50, 1, 1, ()))
    builder = BatchBuilder()
    for record in iter_records(BatchView(plain)):
        builder.append(*record[1:])
    batch = BatchView(builder.build(compression=codec))
    assert batch.compression is codec
    check(batch, [*iter_records(BatchView(plain))])


@pytest.mark.parametrize("codec", Compression)
def test_a_batch_that_compaction_emptied(codec: Compression) -> None:
    batch = BatchView(BatchBuilder().build(compression=codec, producer_id=5, last_offset_delta=9, base_offset=100))
    check(batch, [])
    assert batch.next_offset == 110
    # Kafka leaves the codec's bits as they were.
    batch.attributes |= codec
    check(batch, [])


def test_arrays() -> None:
    batch = BatchView(batch_of_shape(Shape(20, 5, 6, 0, 1, (3,))))
    names = ("offsets", "timestamps_ms", "key_positions", "key_sizes", "value_positions", "value_sizes")
    found = read_columns(batch)
    with reading("without numpy"):
        plain = read_columns(batch)
        assert all(isinstance(getattr(plain, name), array) for name in names)
    for name in names:
        column = getattr(found, name)
        assert isinstance(column, np.ndarray) and column.dtype == np.int64
        assert column.tolist() == getattr(plain, name).tolist()
    for row, key in enumerate(found.keys()):
        start = found.key_positions[row]
        assert found.payload[start : start + found.key_sizes[row]] == key


def test_null_and_empty_are_told_apart() -> None:
    for rows in (3, 30, 100):
        records = [(NOW_MS, (None, b"")[row % 2], (b"", None)[row % 2], ()) for row in range(rows)]
        found = read_columns(BatchView(build(records)))
        assert found.keys() == [record[1] for record in records]
        assert found.values() == [record[2] for record in records]
        assert found.key_sizes.tolist() == [(-1, 0)[row % 2] for row in range(rows)]
