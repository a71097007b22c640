"""`minikafka topic` and `minikafka config`."""

from __future__ import annotations

from collections.abc import Callable

from tests.client.cli.calling import Cli
from tests.compat.clients.model import eventually


def test_a_topic_from_its_beginning_to_its_end(cli: Cli, name: Callable[[], str]) -> None:
    topic = name()
    made = cli("topic", "create", topic, "-p", 3, "-r", 2, "-c", "retention.ms=1000").done()
    assert made.out == f"{topic}: created, partitions 3, replicas 2\n"
    assert [topic, "3", "2", "0", "0"] in cli("topic", "list").done().rows
    (described,) = cli("topic", "describe", topic, "--json").done().json
    assert described["configs"] == {"retention.ms": "1000"}
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
    assert {each["state"] for each in described["partitions"]} == {"ok"}
    assert {(each["start_offset"], each["end_offset"]) for each in described["partitions"]} == {(0, 0)}
    shown = cli("topic", "describe", topic).done().out.splitlines()
    assert shown[0].startswith(f"{topic}  id ") and shown[0].endswith("retention.ms=1000")
    assert shown[1].split() == ["partition", "leader", "replicas", "in", "sync", "start", "end", "state"]
    assert len(shown) == 5
    assert (
        cli("topic", "alter", topic, "-p", 4, "-d", "retention.ms", "-c", "segment.ms=7")
        .done()
        .out.endswith("altered\n")
    )
    (described,) = eventually(
        lambda: cli("topic", "describe", topic, "--json").done().json, lambda found: len(found[0]["partitions"]) == 4
    )
    assert described["configs"] == {"segment.ms": "7"}
    assert cli("topic", "delete", topic, "--yes").done().out == f"{topic}: deleted\n"
    assert topic not in cli("topic", "list").done().out


def test_internal_topics_are_shown_when_asked_for(cli: Cli, topic: str, name: Callable[[], str]) -> None:
    cli("consume", topic, "--group", name()).done()
    assert "__consumer_offsets" not in cli("topic", "list").done().out
    listed = cli("topic", "list", "--internal", "--json").done().json
    assert [each["internal"] for each in listed if each["topic"] == "__consumer_offsets"] == [True]


def test_a_dry_run_creates_nothing(cli: Cli, name: Callable[[], str]) -> None:
    topic = name()
    assert "could be created" in cli("topic", "create", topic, "--dry-run").done().out
    assert topic not in cli("topic", "list").done().out


def test_some_fail_and_the_others_are_done(cli: Cli, name: Callable[[], str]) -> None:
    taken, new = name(), name()
    cli("topic", "create", taken).done()
    called = cli("topic", "create", taken, new, "a/b", "--json")
    assert called.code == 1
    by_topic = {each["topic"]: each for each in called.json}
    assert by_topic[taken]["error"]["name"] == "TOPIC_ALREADY_EXISTS"
    assert by_topic["a/b"]["error"]["code"] == 17
    assert by_topic[new]["partitions"] == 1
    assert len(called.err.splitlines()) == 2 and all(each.startswith("Error: ") for each in called.err.splitlines())
    assert cli("topic", "create", taken, "--if-not-exists").done().out == f"{taken}: exists already\n"


def test_topics_that_are_not_there(cli: Cli, name: Callable[[], str]) -> None:
    missing = name()
    for words in (("describe", missing), ("delete", missing, "-y"), ("alter", missing, "-p", 2)):
        called = cli("topic", *words)
        assert (called.code, called.out) == (1, "")
        assert called.err.startswith(f"Error: {missing}: ") and "UNKNOWN_TOPIC_OR_PARTITION" in called.err
        assert len(called.err.splitlines()) == 1
    assert cli("topic", "delete", missing, "-y", "--if-exists").done().out == ""


def test_wrong_use(cli: Cli, topic: str) -> None:
    assert cli("topic", "alter", topic).code == 2
    assert cli("topic", "create", topic, "-p", 0).code == 2
    assert cli("topic", "create", topic, "-c", "retention").code == 2
    assert cli("topic", "create").code == 2
    assert cli("topic", "shrink", topic).code == 2
    refused = cli("topic", "delete", topic)
    assert (refused.code, refused.err) == (2, "Error: this cannot be undone: add --yes\n")


def test_configs(cli: Cli, topic: str) -> None:
    assert (
        cli("config", "set", "topic", topic, "retention.ms=5000", "segment.ms=9").done().out == f"topic {topic}: set\n"
    )
    own = [row for row in cli("config", "get", "topic", topic).done().rows if row[2] == "topic"]
    assert own == [["retention.ms", "5000", "topic"], ["segment.ms", "9", "topic"]]
    assert cli("config", "set", "topic", topic, "--delete", "segment.ms").done().code == 0
    (found,) = cli("config", "get", "topic", topic, "segment.ms", "--json").done().json
    assert (found["source"], found["read_only"]) == ("DEFAULT", False)
    assert len(cli("config", "get", "topic", topic, "--all").done().rows) > 20


def test_configs_of_brokers(cli: Cli) -> None:
    (found,) = cli("config", "get", "broker", 2, "broker.id", "--json").done().json
    assert (found["value"], found["read_only"]) == ("2", True)
    assert cli("config", "set", "broker", "all", "log.cleaner.threads=1", "--dry-run").done().out == (
        "all brokers: could be set\n"
    )
    assert all(row[-2:] == ["broker", "logger"] for row in cli("config", "get", "logger", 1).done().rows)


def test_configs_that_cannot_be(cli: Cli, topic: str) -> None:
    for words, code, text in (
        (("set", "topic", topic, "retention.ms=soon"), 1, "INVALID_CONFIG"),
        (("get", "topic", topic, "retentoin.ms"), 1, "no config 'retentoin.ms'"),
        (("get", "broker", 99), 1, "no such broker"),
        (("get", "broker", "first"), 2, "no id of a broker"),
        (("set", "topic", topic), 2, "nothing to do"),
        (("get", "planet", "earth"), 2, "planet"),
    ):
        called = cli("config", *words)
        assert called.code == code, words
        assert text in called.err
