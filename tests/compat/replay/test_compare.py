"""The judge itself: what it takes for the same and what it does not."""

from typing import Any

import pytest

from tests.compat.replay.batches import build_batch, now_ms, shown_batches
from tests.compat.replay.cluster import Cluster
from tests.compat.replay.compare import Comparison
from tests.compat.replay.names import scaled

CLUSTER = Cluster({1: ("one", 1001), 2: ("two", 1002), 3: ("three", 1003)})


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ({"error_code": "NONE"}, {"error_code": "NONE"}),
        ({"node_id": "<broker>", "host": "<host>", "port": "<port>"}, {"node_id": 2, "host": "two", "port": 1002}),
        ([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}]),
        ([{"a": "<member 1>"}, {"a": "x"}], [{"a": "x"}, {"a": "y"}]),
        ([{"m": "<member 1>", "n": 1}, {"m": "<member 2>", "n": 1}], [{"m": "y", "n": 1}, {"m": "x", "n": 1}]),
        (
            {"all": [{"m": "<member 1>"}, {"m": "<member 2>"}], "leader": "<member 2>"},
            {"all": [{"m": "a"}, {"m": "b"}], "leader": "a"},
        ),
        ({"records": [[0, None, "a"]]}, {"records": [[0, None, "a"]]}),
    ],
)
def test_the_same(told: Any, seen: Any) -> None:
    comparison = Comparison(CLUSTER)
    assert comparison.matches(told, seen)
    assert not comparison.differences(told, seen)


def test_a_time_is_about_now() -> None:
    comparison = Comparison(CLUSTER)
    assert comparison.matches({"at": "<time>"}, {"at": now_ms()})
    assert not comparison.matches({"at": "<time>"}, {"at": now_ms() - 3_600_000})


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ({"error_code": "NONE"}, {"error_code": "INVALID_REQUEST"}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": None}, {"a": ""}),
        ({"a": 0}, {"a": False}),
        ({"node_id": "<broker>"}, {"node_id": 4}),
        ({"at": "<time>"}, {"at": -1}),
        ({"session_id": "<session 1>"}, {"session_id": 0}),
        ([{"a": 1}, {"a": 2}], [{"a": 1}]),
        ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 1}]),
        ([{"a": "<member 1>"}, {"a": "<member 2>"}], [{"a": "x"}, {"a": "x"}]),
        ({"a": "<member 1>", "b": "<member 1>"}, {"a": "x", "b": "y"}),
        ({"offsets": [3, 0]}, {"offsets": [0, 3]}),
        ({"records": [{"base_offset": 0}, {"base_offset": 1}]}, {"records": [{"base_offset": 1}, {"base_offset": 0}]}),
    ],
)
def test_not_the_same(told: Any, seen: Any) -> None:
    comparison = Comparison(CLUSTER)
    assert not comparison.matches(told, seen)
    assert comparison.bound == {}


def test_a_placeholder_stands_for_one_value_in_the_whole_case() -> None:
    comparison = Comparison(CLUSTER)
    assert comparison.matches({"id": "<producer id 1>"}, {"id": 7})
    assert not comparison.matches({"id": "<producer id 1>"}, {"id": 8})
    assert not comparison.matches({"id": "<producer id 2>"}, {"id": 7})
    assert comparison.matches({"id": "<producer id 2>"}, {"id": 8})


def test_differences_name_the_place() -> None:
    told = {"topics": [{"name": "a", "error": "NONE"}, {"name": "b", "error": "NONE"}]}
    seen = {"topics": [{"name": "b", "error": "OTHER"}, {"name": "a", "error": "NONE"}]}
    assert Comparison(CLUSTER).differences(told, seen) == [".topics[1].error: recorded NONE, seen OTHER"]


def test_described_batches_come_back_as_described() -> None:
    told = {"records": ["a", ["k", None], "300 bytes"], "timestamp": 1000, "timestamp_step_ms": 100, "attributes": 1}
    told |= {"producer_id": 5, "producer_epoch": 1, "base_sequence": 7, "leader_epoch": 3}
    (shown,) = shown_batches(build_batch(told))
    assert shown == {
        "base_offset": 0,
        "last_offset_delta": 2,
        "attributes": 1,
        "base_timestamp": 1000,
        "max_timestamp": 1200,
        "partition_leader_epoch": 3,
        "producer_id": 5,
        "producer_epoch": 1,
        "base_sequence": 7,
        "records": [[0, None, "a"], [1, "k", None], [2, None, "300 bytes"]],
    }


def test_fewer_replicas_where_they_are_served() -> None:
    assert scaled({"ReplicationFactor": 3, "IsrNodes": [1, 2, 3]}, 1) == {"ReplicationFactor": 1, "IsrNodes": [1]}
    assert scaled({"ReplicationFactor": 4}, 1) == {"ReplicationFactor": 4}
    assert scaled({"ReplicationFactor": -1}, 1) == {"ReplicationFactor": -1}
