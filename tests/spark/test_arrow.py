"""Batches as Arrow: the same records as one by one, whatever their shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records import BatchBuilder, BatchView, Compression, iter_records
from minikafka.spark_jobs.catalog import LossPolicy
from minikafka.spark_jobs.committed import Aborted, Visibility
from minikafka.spark_jobs.errors import DataLoss, LogNotReadable
from minikafka.spark_jobs.planning import OffsetRange
from minikafka.spark_jobs.rows import arrow_batches

field = st.none() | st.binary(max_size=40) | st.sampled_from([b"", b"x" * 12, b"x" * 13, b"a" * 300])
header = st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5))
record = st.tuples(st.integers(0, 1 << 40), field, field, st.lists(header, max_size=2))
Sample = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def build(records: Iterable[Sample], base_offset: int = 0, codec: Compression = Compression.NONE) -> BatchView:
    builder = BatchBuilder()
    for timestamp_ms, key, value, headers in records:
        builder.append(timestamp_ms, key, value, headers)
    batch = BatchView(builder.build(compression=codec))
    batch.patch(base_offset, 0)
    return batch


def rows_of(batches: Iterable[Any]) -> list[tuple[Any, ...]]:
    names = ("key", "value", "offset", "timestamp", "headers")
    rows = []
    for batch in batches:
        batch.validate(full=True)
        stamps = batch.column("timestamp").cast(pa.int64())
        columns = [stamps if name == "timestamp" else batch.column(name) for name in names]
        rows += [*zip(*(column.to_pylist() for column in columns), strict=True)]
    return rows


def expected(batch: BatchView, wanted: OffsetRange) -> list[tuple[Any, ...]]:
    return [
        (
            record.key,
            record.value,
            record.offset,
            record.timestamp_ms * 1000,
            [{"key": key, "value": value} for key, value in record.headers] or None,
        )
        for record in iter_records(batch)
        if wanted.start <= record.offset < wanted.stop
    ]


@given(
    st.lists(st.lists(record, min_size=1, max_size=30), min_size=1, max_size=4),
    st.integers(0, 10),
    st.integers(0, 120),
    st.sampled_from([Compression.NONE, Compression.LZ4]),
)
def test_same_as_one_by_one(samples: list[list[Sample]], start: int, size: int, codec: Compression) -> None:
    wanted = OffsetRange("t", 3, start, start + size)
    batches, offset = [], 0
    for sample in samples:
        batches.append(build(sample, offset, codec))
        offset += len(sample)
    made = [*arrow_batches(batches, wanted, include_headers=True, check_crcs=True)]
    assert rows_of(made) == [row for batch in batches for row in expected(batch, wanted)]
    for batch in made:
        assert {*batch.column("topic").to_pylist()} == {"t"} and {*batch.column("partition").to_pylist()} == {3}


def test_schema_is_the_one_that_spark_takes() -> None:
    (made,) = arrow_batches(
        [build([(5, b"k", b"v", [])])], OffsetRange("t", 0, 0, 9), include_headers=True, check_crcs=True
    )
    assert [str(each.type) for each in made.schema] == [
        "binary",
        "binary",
        "string",
        "int32",
        "int64",
        "timestamp[us, tz=UTC]",
        "int32",
        "list<element: struct<key: string, value: binary>>",
    ]
    (plain,) = arrow_batches(
        [build([(5, b"k", b"v", [])])], OffsetRange("t", 0, 0, 9), include_headers=False, check_crcs=True
    )
    assert plain.schema.names == made.schema.names[:-1]


def test_large_batches_are_cut_and_small_ones_joined() -> None:
    large = build([(0, None, b"%d" % number, []) for number in range(25_000)])
    made = [*arrow_batches([large], OffsetRange("t", 0, 0, 25_000), include_headers=False, check_crcs=True)]
    assert [each.num_rows for each in made] == [10_000, 10_000, 5_000]
    small = [build([(0, b"k", b"%d" % number, [])], number) for number in range(5000)]
    made = [*arrow_batches(small, OffsetRange("t", 0, 0, 5000), include_headers=False, check_crcs=True)]
    assert [each.num_rows for each in made] == [4096, 904]
    assert [row[1] for row in rows_with_values(made)] == [b"%d" % number for number in range(5000)]


def rows_with_values(batches: Iterable[Any]) -> list[tuple[int, bytes]]:
    return [
        pair
        for batch in batches
        for pair in zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True)
    ]


def test_timestamps_at_the_ends_of_time() -> None:
    batch = build([(-1, None, b"none", []), ((1 << 63) - 1, None, b"last", [])])
    (made,) = arrow_batches([batch], OffsetRange("t", 0, 0, 2), include_headers=False, check_crcs=True)
    first, last = made.column("timestamp").cast(pa.int64()).to_pylist()
    assert first == -1000 and last > 9 * 10**18


def test_damage_is_told_with_its_place() -> None:
    data = bytearray(build([(0, None, b"value", [])], 7).data)
    data[-3] ^= 1
    with pytest.raises(LogNotReadable, match="t-0 at offset 7 is damaged"):
        [*arrow_batches([BatchView(data)], OffsetRange("t", 0, 0, 9), include_headers=False, check_crcs=True)]


def test_header_keys_that_are_no_text() -> None:
    batch = build([(0, None, b"v", [("\udcff", b"x")])])
    (made,) = arrow_batches([batch], OffsetRange("t", 0, 0, 1), include_headers=True, check_crcs=True)
    assert made.column("headers").to_pylist() == [[{"key": "\ufffd", "value": b"x"}]]


def transactional_batch(base_offset: int) -> BatchView:
    builder = BatchBuilder()
    builder.append(0, None, b"v")
    return BatchView(
        builder.build(base_offset=base_offset, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    )


def test_nothing_is_hidden_from_those_who_read_all() -> None:
    batch = transactional_batch(0)
    assert Visibility(None).shows(batch)
    assert Visibility([]).shows(batch)
    assert not Visibility([Aborted(5, 0)]).shows(batch)
    assert Visibility([Aborted(6, 0)]).shows(batch)


def test_an_aborted_transaction_ends_though_its_marker_is_gone() -> None:
    """Compaction may have removed it since the index was read."""
    batch = transactional_batch(20)
    assert Visibility([Aborted(5, 3, 9), Aborted(5, 10, 19)]).shows(batch)
    assert not Visibility([Aborted(5, 3, 9), Aborted(5, 20, 25)]).shows(batch)


def test_batch_of_any_size_is_read_in_pieces() -> None:
    samples: list[Sample] = [(number, b"k", bytes(1 << 20), []) for number in range(20)]
    batch = build(samples, 100, Compression.ZSTD)
    wanted = OffsetRange("t", 0, 103, 119)
    made = [*arrow_batches([batch], wanted, include_headers=False, check_crcs=True)]
    assert len(made) > 2
    assert [offset for part in made for offset in part.column("offset").to_pylist()] == [*range(103, 119)]
    assert {len(value) for part in made for value in part.column("value").to_pylist()} == {1 << 20}


def test_record_above_the_limit_fails_or_is_left_out() -> None:
    sizes = [10, 12 << 20, 10, 9 << 20, 10]
    batch = build([(0, b"k", bytes(size), []) for size in sizes], 100, Compression.ZSTD)

    def offsets(start: int, *, fails: bool) -> list[int]:
        made = arrow_batches(
            [batch],
            OffsetRange("t", 0, start, 105),
            include_headers=False,
            check_crcs=True,
            record_bytes_max=10 << 20,
            policy=LossPolicy(fails),
        )
        return [offset for part in made for offset in part.column("offset").to_pylist()]

    with pytest.raises(DataLoss, match=r"t-0 at offset 101 .*kafka\.max\.record\.bytes"):
        offsets(100, fails=True)
    assert offsets(100, fails=False) == [100, 102, 103, 104]
    # One that was not asked for is no trouble.
    assert offsets(102, fails=True) == [102, 103, 104]
