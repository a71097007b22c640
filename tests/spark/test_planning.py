"""Offsets as text, shares by lag, ranges and their pieces."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.structs import TopicPartition
from minikafka.spark_jobs.errors import BadCheckpoint
from minikafka.spark_jobs.offsets import StreamOffset
from minikafka.spark_jobs.planning import (
    OffsetRange,
    Trigger,
    limit_by_lag,
    make_ranges,
    make_tasks,
    share_tasks,
    split_ranges,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID = b"0123456789abcdef"


def test_offsets_are_always_the_same_text() -> None:
    one = StreamOffset({B0: 3, TopicPartition("a", 10): 2, A1: 1})
    other = StreamOffset({A1: 1, TopicPartition("a", 10): 2, B0: 3})
    assert json.dumps(one.to_json()) == json.dumps(other.to_json()) == '{"a": {"1": 1, "10": 2}, "b": {"0": 3}}'
    assert StreamOffset.from_json(one.to_json()) == one


def test_the_first_offset_says_where_it_began() -> None:
    first = StreamOffset({A0: 105}, {A0: 100})
    assert json.dumps(first.to_json()) == '{"@start": {"a": {"0": 100}}, "a": {"0": 105}}'
    assert StreamOffset.from_json(json.loads(json.dumps(first.to_json()))) == first


@pytest.mark.parametrize("found", [None, [], "x", {"a": 1}, {"a": {"0": -1}}, {"a": {"x": 1}}, {"@start": 5, "a": {}}])
def test_checkpoints_of_others(found: object) -> None:
    with pytest.raises(BadCheckpoint):
        StreamOffset.from_json(found)


def test_shares_by_lag() -> None:
    start, latest = {A0: 0, A1: 0, B0: 50}, {A0: 900, A1: 90, B0: 60}
    assert limit_by_lag(start, latest, 100) == {A0: 90, A1: 9, B0: 51}
    assert limit_by_lag(start, latest, 10_000) == latest
    # Nobody starves, so three partitions take three offsets.
    assert limit_by_lag(start, latest, 1) == {A0: 1, A1: 1, B0: 51}
    # A partition without lag stays, also one that seems to have gone backwards.
    assert limit_by_lag({A0: 5, A1: 7}, {A0: 5, A1: 3}, 10) == {A0: 5, A1: 7}


lags = st.dictionaries(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 5)), st.integers(0, 10**6))


@given(lags, st.integers(1, 10**7))
def test_shares_end_in_time(lag: dict[TopicPartition, int], most: int) -> None:
    start = dict.fromkeys(lag, 10)
    latest = {tp: 10 + ahead for tp, ahead in lag.items()}
    end = limit_by_lag(start, latest, most)
    assert all(start[tp] <= end[tp] <= latest[tp] for tp in lag)
    assert all(end[tp] > start[tp] for tp, ahead in lag.items() if ahead)
    assert sum(end.values()) - sum(start.values()) <= most + sum(map(bool, lag.values()))


def test_ranges() -> None:
    assert make_ranges({B0: 1, A0: 5, A1: 9}, {B0: 3, A0: 5, A1: 8}, {"b": ID}) == [OffsetRange("b", 0, 1, 3, ID)]


def test_split_by_number_and_by_size() -> None:
    whole = [OffsetRange("a", 0, 0, 100), OffsetRange("b", 0, 0, 10)]
    assert split_ranges(whole) == whole
    by_number = split_ranges(whole, pieces_min=4)
    assert [(each.topic, each.size) for each in by_number] == [("a", 33), ("a", 33), ("a", 34), ("b", 10)]
    by_size = split_ranges(whole, records_max=40)
    assert [each.size for each in by_size] == [33, 33, 34, 10]
    # Fewer offsets than pieces that are wanted.
    assert len(split_ranges([OffsetRange("a", 0, 7, 9)], pieces_min=5)) == 2


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1000)), max_size=5),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1, 300),
)
def test_pieces_are_the_whole(sizes: list[tuple[int, int]], at_least: int | None, at_most: int | None) -> None:
    whole = [OffsetRange("t", number, start, start + size) for number, (start, size) in enumerate(sizes)]
    pieces = split_ranges(whole, at_least, at_most)
    for each in whole:
        mine = [piece for piece in pieces if piece.partition == each.partition]
        assert [piece.start for piece in mine] == [each.start, *[piece.stop for piece in mine[:-1]]]
        assert mine[-1].stop == each.stop
        assert all(0 < piece.size <= (at_most or piece.size) for piece in mine)
    assert len(pieces) >= min(at_least or 0, sum(size for _, size in sizes))


def test_a_batch_waits_for_enough_or_long_enough() -> None:
    trigger = Trigger(10, 1000)
    # The first does not wait, since nobody knows for how long records have done so.
    assert trigger.fires({A0: 1}, 0)
    assert not trigger.fires({A0: 4, A1: 5}, 999)
    assert trigger.fires({A0: 4, A1: 6}, 999)
    assert not trigger.fires({A0: 1}, 1998)
    assert trigger.fires({A0: 1}, 1999)
    assert Trigger(None, 0).fires({}, 0)


def test_small_neighbours_share_a_task() -> None:
    sizes = [400, 600, 1, 5_000, 999, 2, 1_000, 1]
    ranges = [OffsetRange("t", index, 10, 10 + size) for index, size in enumerate(sizes)]
    tasks = share_tasks(ranges)
    assert [each for task in tasks for each in task] == ranges
    assert [[each.size for each in task] for task in tasks] == [[400, 600], [1], [5_000], [999], [2], [1_000], [1]]
    assert share_tasks([]) == []


def test_tasks_of_many_small_partitions_are_few_with_and_without_a_minimum() -> None:
    ranges = [OffsetRange("t", index, 0, 3) for index in range(500)]
    assert len(make_tasks(ranges)) == 2
    assert [len(make_tasks(ranges, tasks_min)) for tasks_min in (2, 8, 499)] == [2, 8, 500]
    assert len(make_tasks(ranges, 600)) == 600
    assert max(sum(piece.size for piece in task) for task in make_tasks(ranges, records_max=10)) == 9


@given(
    st.lists(st.integers(1, 3000), max_size=40),
    st.none() | st.integers(1, 60),
    st.none() | st.integers(1, 300),
)
def test_tasks_are_the_whole_in_order_and_keep_both_limits(
    sizes: list[int], tasks_min: int | None, records_max: int | None
) -> None:
    ranges = [OffsetRange("t", number, 0, size) for number, size in enumerate(sizes)]
    tasks = make_tasks(ranges, tasks_min, records_max)
    pieces = [piece for task in tasks for piece in task]
    offsets = [(piece.partition, offset) for piece in pieces for offset in range(piece.start, piece.stop)]
    assert offsets == [(number, offset) for number, size in enumerate(sizes) for offset in range(size)]
    assert all(tasks)
    assert len(tasks) >= min(tasks_min or 0, sum(sizes))
    assert all(sum(piece.size for piece in task) <= (records_max or 3000) for task in tasks)
