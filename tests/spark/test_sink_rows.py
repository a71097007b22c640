"""Which rows go where: topics and partitions of whole columns. Without Spark, and without brokers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from minikafka.protocol.hashing import partition_for_key
from minikafka.spark_jobs.errors import BadColumns
from minikafka.spark_jobs.sink.columns import read_parts
from minikafka.spark_jobs.sink.partitioning import group_by_partition, partitions_for_keys

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def batch(**columns: Any) -> pa.RecordBatch:
    types = {"value": pa.binary(), "key": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
    made = {name: pa.array(column, {**types, "headers": HEADERS}[name]) for name, column in columns.items()}
    return pa.RecordBatch.from_pydict(made)


def test_rows_of_a_topic_stay_in_their_order() -> None:
    numbers = [b"%d" % number for number in range(100)]
    names = ["abc"[number % 3] for number in range(100)]
    parts = [*read_parts(batch(value=numbers, key=numbers, topic=names, partition=[*range(100)]), None)]
    assert [part.topic for part in parts] == ["a", "b", "c"]
    for index, part in enumerate(parts):
        assert part.value_list() == part.key_list() == numbers[index::3]
        assert part.partition_list() == [*range(index, 100, 3)]


def test_the_option_counts_more_than_the_column() -> None:
    (part,) = read_parts(batch(value=[b"x", b"y"], topic=["a", None]), "t")
    assert (part.topic, part.value_list()) == ("t", [b"x", b"y"])
    with pytest.raises(BadColumns, match="null in column `topic`"):
        [*read_parts(batch(value=[b"x", b"y"], topic=["a", None]), None)]


@pytest.mark.parametrize("headers", [None, [], [{"key": "h", "value": b"1"}]])
def test_columns_without_anything_are_as_good_as_none(headers: Any) -> None:
    (part,) = read_parts(batch(value=[b"x"], key=[None], partition=[None], headers=[headers]), "t")
    assert part.is_plain == (not headers)
    assert part.header_list() == ([[("h", b"1")]] if headers else None)


def test_a_header_needs_a_key() -> None:
    (part,) = read_parts(batch(value=[b"x"], headers=[[{"key": None, "value": b""}]]), "t")
    with pytest.raises(BadColumns, match="a header has no key"):
        part.header_list()


def test_keys_choose_partitions_as_everywhere() -> None:
    rng = random.Random(3)
    keys = [rng.randbytes(size) for size in (*range(300), 1000, 0, 5)]
    for count in (1, 3, 7, 1000):
        expected = [partition_for_key(key, count) for key in keys]
        assert partitions_for_keys(pa.array(keys, pa.binary()), count).tolist() == expected
        # A slice begins somewhere in the column's bytes.
        assert partitions_for_keys(pa.array(keys, pa.binary())[7:], count).tolist() == expected[7:]
    assert partitions_for_keys(pa.array([b"", b""], pa.binary()), 5).tolist() == [partition_for_key(b"", 5)] * 2


def test_the_column_counts_more_than_the_key() -> None:
    keys = [b"a", None, b"b", None, b"a", b"b"]
    rows = batch(value=[b"%d" % number for number in range(6)], key=keys, partition=[None, None, 9, 9, None, -1])
    (part,) = read_parts(rows, "t")
    found = {partition: (each.value_list(), each.key_list()) for partition, each in group_by_partition(part, 4)}
    assert found == {
        partition_for_key(b"a", 4): ([b"0", b"4"], [b"a", b"a"]),
        None: ([b"1"], [None]),
        9: ([b"2", b"3"], [b"b", None]),
        # Not for any partition: an error of whoever sends it.
        -1: ([b"5"], [b"b"]),
    }


def test_rows_without_key_and_partition_are_one_group() -> None:
    (part,) = read_parts(batch(value=[b"x"] * 3, key=[None] * 3), "t")
    ((partition, rows),) = group_by_partition(part, 4)
    assert partition is None and len(rows) == 3


def test_every_row_is_in_one_group() -> None:
    keys = [b"%d" % number for number in np.random.default_rng(1).integers(0, 50, 10_000)]
    (part,) = read_parts(batch(value=keys, key=keys), "t")
    groups = dict(group_by_partition(part, 8))
    assert sum(map(len, groups.values())) == len(keys)
    for partition, rows in groups.items():
        assert rows.value_list() == [key for key in keys if partition_for_key(key, 8) == partition]
