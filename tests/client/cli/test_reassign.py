"""`minikafka reassign`, and the plans it makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.client.cli.moving import make_plan
from minikafka.client.cli.throttling import FOLLOWERS, LEADERS, throttled_replicas
from minikafka.client.structs import TopicPartition
from tests.client.cli.calling import Cli
from tests.client.cli.test_records import send


def replicas(cli: Cli, topic: str) -> list[list[int]]:
    (described,) = cli("topic", "describe", topic, "--json").done().json
    return [each["replicas"] for each in described["partitions"]]


def test_more_replicas(cli: Cli, name: Callable[[], str], tmp_path: Path) -> None:
    topic = name()
    cli("topic", "create", topic, "-p", 3, "-r", 1).done()
    send(cli, topic, "x\n" * 1000, tmp_path)
    planned = cli("reassign", topic, "-r", 2, "--dry-run", "--json").done().json
    assert [len(each["new_replicas"]) for each in planned] == [2, 2, 2]
    assert {len(each) for each in replicas(cli, topic)} == {1}
    called = cli("reassign", topic, "-r", 2, "--throttle", "10MB")
    assert (called.code, called.err) == (0, "done\n")
    assert replicas(cli, topic) == [each["new_replicas"] for each in planned]
    assert "throttled" not in cli("config", "get", "topic", topic).done().out
    assert "throttled" not in cli("config", "get", "broker", 1).done().out
    assert cli("reassign", topic, "-r", 2).out == "nothing has to be moved\n"


def test_other_brokers(cli: Cli, name: Callable[[], str]) -> None:
    topic = name()
    cli("topic", "create", topic, "-p", 2, "-r", 2).done()
    assert cli("reassign", topic, "--brokers", "2,3", "--no-wait").code == 0
    assert cli("reassign", topic, "--resume") == (0, "", "done\n")
    assert {broker for each in replicas(cli, topic) for broker in each} == {2, 3}
    assert cli("reassign", topic, "--cancel").done().out == "nothing was under way\n"


def test_what_cannot_be(cli: Cli, topic: str, name: Callable[[], str]) -> None:
    for words, code, text in (
        ((topic,), 2, "name --brokers or --replication-factor"),
        ((topic, "--cancel", "--resume"), 2, "name --brokers or --replication-factor"),
        ((topic, "--brokers", "1,9"), 1, "no broker 9"),
        ((topic, "--brokers", "one"), 2, "no list of brokers"),
        ((topic, "-r", 4), 1, "4 replicas do not fit on 3 brokers"),
        ((topic, "-r", 2, "--throttle", "fast"), 2, "is no size"),
        ((name(), "-r", 2), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        called = cli("reassign", *words)
        assert called.code == code, called
        assert text in called.err, called


@settings(max_examples=50)
@given(brokers=st.integers(1, 8), racks=st.integers(1, 3), target=st.data())
def test_plans_are_even_and_whole(brokers: int, racks: int, target: st.DataObject) -> None:
    nodes = {node: f"rack-{node % racks}" for node in range(1, brokers + 1)}
    factor = target.draw(st.integers(1, brokers))
    count = target.draw(st.integers(1, 20))
    anywhere = st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True)
    current = {TopicPartition("t", each): target.draw(anywhere) for each in range(count)}
    plan = make_plan(current, nodes, factor)
    assert plan.keys() == current.keys()
    for planned in plan.values():
        assert len(planned) == len({*planned}) == factor and {*planned} <= {*nodes}
    if racks == 1:
        load = Counter(dict.fromkeys(nodes, 0) | Counter(each for planned in plan.values() for each in planned))
        assert max(load.values()) - min(load.values()) <= 1


def test_a_plan_moves_no_more_than_it_must() -> None:
    current = {TopicPartition("t", each): (1 + each % 3, 1 + (each + 1) % 3) for each in range(12)}
    assert make_plan(current, dict.fromkeys((1, 2, 3))) == current
    wider = make_plan(current, dict.fromkeys((1, 2, 3, 4)))
    load = Counter(broker for planned in wider.values() for broker in planned)
    assert load == {1: 6, 2: 6, 3: 6, 4: 6}
    moved = sum(len({*planned} - {*current[place]}) for place, planned in wider.items())
    assert moved == 6
    assert max(Counter(planned[0] for planned in wider.values()).values()) == 3


def test_a_plan_spreads_over_racks() -> None:
    current = {TopicPartition("t", each): (1,) for each in range(4)}
    plan = make_plan(current, {1: "a", 2: "a", 3: "b", 4: "b"}, 2)
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    assert all(len({racks[each] for each in planned}) == 2 for planned in plan.values())


def test_a_plan_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="3 replicas do not fit on 2 brokers"):
        make_plan({TopicPartition("t", 0): (1,)}, {1: None, 2: None}, 3)


def test_who_is_throttled() -> None:
    place = TopicPartition("t", 4)
    assert throttled_replicas({place: (1, 2)}, {place: (2, 3)}) == {"t": {LEADERS: "4:1,4:2", FOLLOWERS: "4:3"}}
