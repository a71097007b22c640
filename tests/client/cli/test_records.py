"""`minikafka produce` and `minikafka consume`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from minikafka.client.consumer import Consumer
from minikafka.client.structs import TopicPartition
from tests.client.cli.calling import Cli
from tests.compat.clients.topics import Topics


def send(cli: Cli, topic: str, text: str, tmp_path: Path, *options: object) -> str:
    """Produce a text; what is said about it."""
    file = tmp_path / "lines"
    file.write_text(text)
    called = cli("produce", topic, "--file", file, *options)
    assert called.code == 0, called
    return called.err


def test_lines_come_back(cli: Cli, topic: str) -> None:
    sent = cli.as_process("produce", topic, stdin="one\ntwo\n\nfour")
    assert (sent.code, sent.out, sent.err) == (0, "", f"4 records, 10 B sent to {topic}\n")
    assert cli.as_process("consume", topic).done().out == "one\ntwo\n\nfour\n"


def test_keys_headers_and_nulls(cli: Cli, topic: str, tmp_path: Path) -> None:
    send(cli, topic, "a\t1\nb\tNULL\nc\n", tmp_path, "-k", r"\t", "--null", "NULL", "-H", "who=me", "-H", "who=you")
    lines = cli("consume", topic, "--json").done().out.splitlines()
    found = [json.loads(line) for line in lines]
    assert [(each["key"], each["value"]) for each in found] == [("a", "1"), ("b", None), (None, "c")]
    assert found[0]["headers"] == [{"name": "who", "value": "me"}, {"name": "who", "value": "you"}]
    shown = cli("consume", topic, "-F", r"%t %p %o %k=%s [%h] %K %S %%\n", "-n", 1).done().out
    assert shown == f"{topic} 0 0 a=1 [who=me,who=you] 1 1 %\n"
    stamped = cli("consume", topic, "-F", r"%T %D\n", "-n", 1).done().out.split()
    assert int(stamped[0]) > 1_600_000_000_000 and stamped[1].endswith("Z")


def test_other_delimiters_and_bytes_that_are_no_text(cli: Cli, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(b"\xff\x00a;b\n;")
    assert cli("produce", topic, "-f", file, "-d", ";", "--json").json["records"] == 2
    first, second = map(json.loads, cli("consume", topic, "--json").done().out.splitlines())
    assert (first["value_base64"], second["value"]) == ("/wBh", "b\n")


def test_a_partition_a_codec_and_acks(cli: Cli, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make(3)
    for number, (codec, acks) in enumerate((("gzip", "all"), ("zstd", "1"), ("none", "0"))):
        send(cli, topic, f"{codec}\n", tmp_path, "-p", number, "-z", codec, "-a", acks)
    for number, codec in enumerate(("gzip", "zstd")):
        assert cli("consume", topic, "-p", number).done().out == f"{codec}\n"
    (batch,) = topics.batches(topic, 1)
    assert batch.compression.name == "ZSTD"


def test_many_lines_are_spread(cli: Cli, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make(3)
    lines = [f"{number:0100d}" for number in range(20_000)]
    send(cli, topic, "\n".join(lines), tmp_path)
    (described,) = cli("topic", "describe", topic, "--json").done().json
    assert all(each["end_offset"] for each in described["partitions"])
    assert sorted(cli("consume", topic).done().out.split()) == lines


def test_a_rate_is_kept(cli: Cli, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("x\n" * 20)
    called = cli("produce", topic, "-f", file, "--rate", 40, "--json")
    assert called.json["records"] == 20
    assert called.json["seconds"] > 0.4


def test_where_to_begin(cli: Cli, topic: str, tmp_path: Path) -> None:
    send(cli, topic, "0\n1\n2\n3\n4\n", tmp_path)

    def read(*options: object) -> list[str]:
        return cli("consume", topic, *options).done().out.split()

    assert read("--from-beginning", "-n", 2) == ["0", "1"]
    assert read("--offset", 3) == ["3", "4"]
    assert read("--last", 1) == ["4"]
    assert read("--last", 100) == ["0", "1", "2", "3", "4"]
    assert read("--from-end") == []
    assert read("--from-time", "1h") == ["0", "1", "2", "3", "4"]
    assert read("--from-time", "2999-01-01") == []


def test_a_group_goes_on_where_it_was(cli: Cli, topic: str, tmp_path: Path, name: Callable[[], str]) -> None:
    group = name()
    send(cli, topic, "0\n1\n2\n", tmp_path)
    assert cli("consume", topic, "-g", group, "-n", 2).done().out == "0\n1\n"
    assert cli("consume", topic, "-g", group).done().out == "2\n"
    assert cli("consume", topic, "-g", group).done().out == ""
    send(cli, topic, "3\n", tmp_path)
    assert cli("consume", topic, "-g", group).done().out == "3\n"


@pytest.fixture
def ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the last of four partitions look as if their records after the first had come since."""
    find = Consumer.end_offsets

    async def find_earlier(self: Consumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = await find(self, partitions)
        return {place: end if place.partition == 3 else 1 for place, end in found.items()}

    monkeypatch.setattr(Consumer, "end_offsets", find_earlier)


def test_what_is_not_printed_is_not_read(
    cli: Cli, topic: str, tmp_path: Path, name: Callable[[], str], ends_early: None
) -> None:
    group = name()
    send(cli, topic, "0\n1\n2\n", tmp_path)
    assert cli("consume", topic, "-g", group).done().out == "0\n"
    assert cli.as_process("consume", topic, "-g", group).done().out == "1\n2\n"


def test_what_is_not_printed_is_not_counted(cli: Cli, topics: Topics, tmp_path: Path, ends_early: None) -> None:
    topic = topics.make(4)
    for number in range(4):
        send(cli, topic, "0\n1\n2\n", tmp_path, "-p", number)
    assert sorted(cli("consume", topic, "-n", 6).done().out.split()) == ["0", "0", "0", "0", "1", "2"]


def test_following(cli: Cli, topic: str, tmp_path: Path) -> None:
    send(cli, topic, "before\n", tmp_path)
    with cli.begin("consume", topic, "--follow", "-n", 2) as reading:
        assert reading.stdout is not None
        assert reading.stdout.readline() == "before\n"
        send(cli, topic, "after\n", tmp_path)
        assert reading.stdout.readline() == "after\n"
        assert reading.wait() == 0


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_isolation_levels(cli: Cli, topic: str, tmp_path: Path, level: str) -> None:
    send(cli, topic, "x\n", tmp_path)
    assert cli("consume", topic, "--isolation-level", level).done().out == "x\n"


def test_what_cannot_be(cli: Cli, topic: str, tmp_path: Path, name: Callable[[], str]) -> None:
    missing = name()
    for words, code, text in (
        (("consume", missing), 1, f"there is no topic '{missing}'"),
        (("consume", topic, "-p", "5"), 1, "no partition 5"),
        (("consume", topic, "-p", "five"), 2, "no list of partitions"),
        (("consume", topic, "-o", 1, "-l", 1), 2, "name one of"),
        (("consume", topic, "-o", 1, "-g", "g"), 2, "group reset"),
        (("consume", topic, "-p", 0, "-g", "g"), 2, "leave out --partition"),
        (("consume", topic, "-F", "%y"), 2, "%y in the format"),
        (("consume", topic, "-F", "%"), 2, "in the middle of a field"),
        (("consume", topic, "-F", "%s", "--json"), 2, "not both"),
        (("consume", topic, "-t", "soon"), 2, "is no time"),
        (("produce", topic, "-f", tmp_path / "nothing"), 2, "No such file"),
        (("produce", topic, "-f", __file__, "-k", ""), 2, "must not be empty"),
        (("produce", topic, "-f", __file__, "-H", "x"), 2, "NAME=VALUE"),
        (("produce", topic, "-f", __file__, "-p", 7), 1, "partition"),
        (("produce", topic, "-f", __file__, "-d", r"\xZZ"), 2, "escape"),
    ):
        called = cli(*words)
        assert called.code == code, called
        assert text in called.err, called


def test_a_record_that_is_too_large(cli: Cli, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_text("x" * 2_000_000)
    called = cli("produce", topic, "-f", file)
    assert called.code == 1 and "max_request_size" in called.err and len(called.err.splitlines()) == 1
