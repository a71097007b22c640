"""`minikafka group`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.cli.calling import Cli
from tests.client.cli.test_records import send
from tests.compat.clients.topics import Topics


@pytest.fixture
def group(cli: Cli, topics: Topics, tmp_path: Path, name: Callable[[], str]) -> tuple[str, str]:
    """A group that has read three of five records of one of two partitions; and the topic."""
    group, topic = name(), topics.make(2)
    send(cli, topic, "0\n1\n2\n3\n4\n", tmp_path, "-p", 0)
    assert cli("consume", topic, "-g", group, "-n", 3).done().out == "0\n1\n2\n"
    return group, topic


def test_lag(cli: Cli, group: tuple[str, str]) -> None:
    name, topic = group
    (found,) = cli("group", "describe", name, "--json").done().json
    assert (found["state"], found["lag"], found["members"]) == ("Empty", 2, [])
    rows = [(each["partition"], each["committed"], each["end"], each["lag"]) for each in found["partitions"]]
    assert (0, 3, 5, 2) in rows
    shown = cli("group", "describe", name).done().out.splitlines()
    assert shown[0].startswith(f"{name}  Empty  members 0  lag 2  coordinator ")
    assert [topic, "0", "3", "5", "2", "-", "-", "-"] in [line.split() for line in shown]
    assert name in [row[0] for row in cli("group", "list").done().rows]
    assert name not in cli("group", "list", "--state", "Stable").done().out


def test_a_group_that_reads(cli: Cli, group: tuple[str, str]) -> None:
    name, topic = group
    with cli.begin("consume", topic, "-g", name, "-f") as reading:
        try:
            assert reading.stdout is not None
            assert reading.stdout.readline() == "3\n"
            (found,) = cli("group", "describe", name, "--json").done().json
            assert (found["state"], [each["client"] for each in found["members"]]) == ("Stable", ["minikafka-cli"])
            assert {each["member"] for each in found["partitions"]} == {found["members"][0]["member"]}
            shown = cli("group", "reset", name, "-t", topic, "--to-earliest")
            assert shown.code == 0
            refused = cli("group", "reset", name, "-t", topic, "--to-earliest", "--execute")
            assert (refused.code, refused.err) == (1, f"Error: {name}: the group is Stable: stop its members first\n")
            refused = cli("group", "delete", name, "--yes")
            assert refused.code == 1 and "NON_EMPTY_GROUP" in refused.err
        finally:
            reading.terminate()


def test_reset_shows_first_and_does_it_when_told(cli: Cli, group: tuple[str, str]) -> None:
    name, topic = group
    words = ("group", "reset", name, "-t", f"{topic}:0", "--to-earliest")
    shown = cli(*words)
    assert shown.rows == [[topic, "0", "3", "0", "-3"]]
    assert shown.err == "nothing was changed: add --execute to do it\n"
    assert cli("consume", topic, "-g", name, "-n", 1).done().out == "3\n"
    done = cli(*words, "--execute", "--json").done().json
    assert done["executed"] and done["partitions"][0]["new"] == 0
    assert cli("consume", topic, "-g", name, "-n", 1).done().out == "0\n"


def test_reset_of_a_topic_that_is_named_twice(cli: Cli, group: tuple[str, str]) -> None:
    name, topic = group
    words = ("-t", f"{topic}:1", "-t", f"{topic}:0", "-t", f"{topic}:0")
    found = cli("group", "reset", name, *words, "--to-earliest", "--json").json
    assert [each["partition"] for each in found["partitions"]] == [0, 1]


@pytest.mark.parametrize(
    ("aim", "offset"),
    [
        (["--to-latest"], 5),
        (["--to-offset", "2"], 2),
        (["--to-offset", "99"], 5),
        (["--shift-by", "-1"], 2),
        (["--shift-by", "-99"], 0),
        (["--shift-by", "1"], 4),
        (["--to-time", "1h"], 0),
        (["--to-time", "2999-01-01"], 5),
    ],
)
def test_where_to(cli: Cli, group: tuple[str, str], aim: list[str], offset: int) -> None:
    name, topic = group
    found = cli("group", "reset", name, "--topic", f"{topic}:0", "--json", *aim).json
    assert [each["new"] for each in found["partitions"]] == [offset]


def test_all_topics_of_a_group(cli: Cli, group: tuple[str, str]) -> None:
    name, topic = group
    found = cli("group", "reset", name, "--all-topics", "--to-latest", "--json").json
    assert {"topic": topic, "partition": 0, "committed": 3, "new": 5} in found["partitions"]


def test_a_group_is_deleted(cli: Cli, group: tuple[str, str]) -> None:
    name, _ = group
    assert cli("group", "delete", name).code == 2
    assert cli("group", "delete", name, "--yes").done().out == f"{name}: deleted\n"
    gone = cli("group", "delete", name, "--yes", "--json")
    assert (gone.code, gone.json[0]["error"]["name"]) == (1, "GROUP_ID_NOT_FOUND")
    assert cli("group", "describe", name) == (1, "", f"Error: {name}: there is no such group\n")


def test_what_cannot_be(cli: Cli, group: tuple[str, str], name: Callable[[], str]) -> None:
    known, topic = group
    for words, code, text in (
        ((known, "-t", topic), 2, "name one of"),
        ((known, "-t", topic, "--to-earliest", "--to-latest"), 2, "name one of"),
        ((known, "--to-earliest"), 2, "--all-topics"),
        ((known, "-t", name(), "--to-earliest"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ((known, "-t", f"{topic}:7", "--to-earliest"), 1, "no partition 7"),
        ((known, "-t", f"{topic}:x", "--to-earliest"), 2, "no list of partitions"),
        ((name(), "--all-topics", "--to-earliest"), 1, "committed nothing"),
        ((name(), "-t", topic, "--shift-by", 1), 1, "could be shifted"),
    ):
        called = cli("group", "reset", *words)
        assert called.code == code, called
        assert text in called.err, called
