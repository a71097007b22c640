"""Batches that we build: the bytes that others build, in batches that others read, within the size asked for."""

from itertools import product
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as TheirAioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as TheirAioBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as TheirBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as TheirBuilder

from minikafka.protocol.records import (
    HEADER_BYTES,
    BatchBuilder,
    BatchView,
    Compression,
    TimestampType,
    iter_records,
    recompress,
)
from tests.protocol.record_samples import HEADERS, NOW_MS, NULLABLE, RECORDS, Shape, batch_of_shape, build

TIMES = st.integers(NOW_MS - 5000, NOW_MS + 5000)
BUILDERS: list[Any] = [TheirBuilder, TheirAioBuilder]
READERS: list[Any] = [TheirBatch, TheirAioBatch]

# kafka-python does snappy with python-snappy, which we do not need.
THEIR_CODECS = [
    (reader, codec)
    for reader, codec in product(READERS, Compression)
    if not (reader is TheirBatch and codec is Compression.SNAPPY)
]


def build_theirs(builder: Any, records: list[Any], codec: int = 0) -> bytes:
    theirs = builder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for offset, (timestamp_ms, key, value, headers) in enumerate(records):
        theirs.append(offset, timestamp_ms, key, value, [*headers])
    return bytes(theirs.build())


def without_leader_epoch(batch: bytes | bytearray) -> bytes:
    """The epoch is the broker's to set, and producers put different things there."""
    return bytes(batch[:12]) + bytes(batch[16:])


@given(st.lists(st.tuples(TIMES, NULLABLE, NULLABLE, HEADERS), min_size=1, max_size=10), st.sampled_from(BUILDERS))
def test_same_bytes_as_others(records: list[Any], builder: Any) -> None:
    assert without_leader_epoch(build(records)) == without_leader_epoch(build_theirs(builder, records))


@pytest.mark.parametrize(("reader", "codec"), THEIR_CODECS)
@pytest.mark.parametrize("rows", [1, 100])
def test_others_read_ours_and_we_theirs(reader: Any, codec: Compression, rows: int) -> None:
    plain = BatchView(batch_of_shape(Shape(rows, 5, 50, 2, 1, (3, 4))))
    records = [*iter_records(plain)]
    theirs = [
        (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in reader(bytes(recompress(plain, codec)))
    ]
    assert theirs == records
    builder = BUILDERS[READERS.index(reader)]
    batch = BatchView(build_theirs(builder, [record[1:] for record in records], codec))
    batch.check_crc()
    assert (batch.compression, [*iter_records(batch)]) == (codec, records)


def test_all_fields() -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v")
    builder.append(NOW_MS + 7, b"k", b"v")
    builder.append(NOW_MS + 3, b"k", b"v")
    batch = BatchView(
        builder.build(
            base_offset=100,
            leader_epoch=4,
            producer_id=77,
            producer_epoch=3,
            base_sequence=2**31 - 1,
            is_transactional=True,
        )
    )
    batch.check_crc()
    assert (batch.base_offset, batch.last_offset, batch.record_count, batch.leader_epoch) == (100, 102, 3, 4)
    assert (batch.base_timestamp, batch.max_timestamp) == (NOW_MS, NOW_MS + 7)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (77, 3, 2**31 - 1, 1)
    assert batch.is_transactional and not batch.is_control and not batch.has_delete_horizon
    assert batch.timestamp_type is TimestampType.CREATE_TIME


def test_defaults_are_a_plain_producers() -> None:
    builder = BatchBuilder()
    builder.append(-1, None, None)
    batch = BatchView(builder.build())
    assert (batch.base_offset, batch.leader_epoch, batch.attributes) == (0, -1, 0)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert (batch.base_timestamp, batch.max_timestamp) == (-1, -1)


def test_as_a_broker_writes_them() -> None:
    builder = BatchBuilder(base_timestamp=NOW_MS + 1000)
    builder.append(NOW_MS, b"k", None, offset_delta=3)
    builder.append(NOW_MS + 1, b"l", None, offset_delta=8)
    batch = BatchView(builder.build(base_offset=50, has_delete_horizon=True, last_offset_delta=20))
    assert batch.delete_horizon_ms == NOW_MS + 1000
    assert (batch.next_offset, batch.record_count) == (71, 2)
    assert [record[:2] for record in iter_records(batch)] == [(53, NOW_MS), (58, NOW_MS + 1)]
    appended = BatchView(builder.build(append_time_ms=NOW_MS + 9))
    assert (appended.timestamp_type, appended.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW_MS + 9)


@given(RECORDS, st.integers(0, 400))
def test_size(records: list[Any], size_max: int) -> None:
    builder = BatchBuilder(size_max)
    assert builder.size == HEADER_BYTES
    taken = [record for record in records if builder.append(*record)]
    assert builder.count == len(taken) >= 1
    batch = builder.build()
    assert len(batch) == builder.size
    assert len(batch) <= size_max or builder.count == 1
    assert [record[1:] for record in iter_records(BatchView(batch))] == taken


def test_exactly_full() -> None:
    records: list[Any] = [(NOW_MS, b"key", b"value", ())] * 3
    size = len(build(records))
    for size_max, count in ((size, 3), (size - 1, 2)):
        builder = BatchBuilder(size_max)
        assert [builder.append(*record) for record in records] == [True, True, count == 3]
        many = BatchBuilder(size_max)
        assert many.append_many(NOW_MS, [b"value"] * 3, [b"key"] * 3) == count


def one_by_one(timestamp_ms: int, values: list[Any], keys: list[Any] | None, builder: BatchBuilder) -> int:
    for done, value in enumerate(values):
        if not builder.append(timestamp_ms, None if keys is None else keys[done], value):
            return done
    return len(values)


MANY = [1, 10, 63, 64, 65, 300, 9000]
VALUES: dict[str, Any] = {
    "alike": lambda row: b"%04d" % row,
    "alike, longer": lambda row: b"%04d" % row * 30,
    "empty": lambda row: b"",
    "of all sizes": lambda row: b"v" * (row * 7 % 200),
    "some null": lambda row: None if row % 5 == 3 else b"v" * (row % 3),
    "some large": lambda row: b"v" * (9000 if row % 50 == 7 else 10),
    "large": lambda row: b"v" * 8200,
}


@pytest.mark.parametrize("rows", MANY)
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("keys", [None, "alike", "of all sizes", "some null"])
def test_many_at_a_time_are_the_same_bytes(rows: int, values: str, keys: str | None) -> None:
    column = [VALUES[values](row) for row in range(rows if values != "large" else 20)]
    key_column = None if keys is None else [VALUES[keys](row) for row in range(len(column))]
    for room in (1 << 30, 500, 100):
        many, single = BatchBuilder(room), BatchBuilder(room)
        for timestamp_ms in (NOW_MS, NOW_MS + 70):
            assert many.append_many(timestamp_ms, column, key_column) == one_by_one(
                timestamp_ms, column, key_column, single
            )
        assert many.build() == single.build()
        assert len(many.build()) == many.size == single.size


def test_many_checks_what_it_gets() -> None:
    builder = BatchBuilder()
    with pytest.raises(ValueError, match="1 keys for 2 values"):
        builder.append_many(NOW_MS, [b"a", b"b"], [b"k"])
    with pytest.raises(TypeError):
        builder.append_many(NOW_MS, ["text"])  # type: ignore[list-item]
    assert builder.append_many(NOW_MS, []) == builder.count == 0


@pytest.mark.parametrize("before", Compression)
@pytest.mark.parametrize("after", Compression)
def test_recompress_keeps_everything_else(before: Compression, after: Compression) -> None:
    builder = BatchBuilder()
    builder.append_many(NOW_MS, [b"value %d" % row for row in range(100)])
    batch = BatchView(builder.build(compression=before, base_offset=5, producer_id=9, is_transactional=True))
    batch.set_log_append_time(NOW_MS + 1)
    other = BatchView(recompress(batch, after))
    other.check_crc()
    assert other.compression is after
    assert other.payload() == batch.payload()
    fields = [name for name in BatchView.__slots__ if name not in ("attributes", "batch_length", "crc", "data", "size")]
    assert [getattr(other, name) for name in fields] == [getattr(batch, name) for name in fields]
    assert other.attributes & ~7 == batch.attributes & ~7
    empty = BatchView(recompress(BatchView(BatchBuilder().build(last_offset_delta=0)), after))
    assert (empty.compression, empty.record_count) == (Compression.NONE, 0)


def test_header_keys_must_be_text() -> None:
    with pytest.raises(AttributeError):
        BatchBuilder().append(NOW_MS, None, None, [(None, b"v")])  # type: ignore[list-item]
