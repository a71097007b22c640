"""Texts and values: the same texts are accepted as by Kafka, and values look the same."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.broker.config.errors import BadValue
from minikafka.broker.config.keys import Key, Kind, broker_keys, topic_keys
from minikafka.broker.config.values import allowed, parse, render, split
from tests.broker.config.recorded import recording

VALUES: dict[str, Any] = recording("config-values")
CANDIDATES: list[str] = VALUES["candidates"]

# Kafka takes any text for ZooKeeper's address, and fails later.
STRICTER = {"zookeeper.connect"}


def accepts(key: Key, text: str) -> bool:
    try:
        parse(key, text)
        return True
    except BadValue as error:
        assert str(error) == f"must be {allowed(key)}"
        return False


@pytest.mark.parametrize(("part", "keys"), [("broker", broker_keys()), ("topic", topic_keys())])
def test_kafka_accepts_the_same_texts(part: str, keys: dict[str, Key]) -> None:
    differing = {
        name: [text for text, flag in zip(CANDIDATES, flags, strict=True) if accepts(keys[name], text) != (flag == "y")]
        for name, flags in VALUES[part].items()
        if name not in STRICTER
    }
    assert {name: texts for name, texts in differing.items() if texts} == {}


def test_no_key_is_left_out_of_the_comparison() -> None:
    ours = {name for name, key in broker_keys().items() if key.kind not in (Kind.CLASS, Kind.UNKNOWN)}
    assert ours - set(VALUES["broker"]) == {"minikafka.durability", "minikafka.http.port"}
    assert set(topic_keys()) == set(VALUES["topic"])


@pytest.mark.parametrize(
    ("name", "text", "value", "shown"),
    [
        ("log.segment.bytes", " +20 ", 20, "20"),
        ("log.cleaner.enable", " TRUE\t", True, "true"),
        ("log.cleanup.policy", " compact ,\tdelete ", ("compact", "delete"), "compact,delete"),
        ("log.cleanup.policy", "", (), ""),
        ("compression.type", " gzip ", "gzip", "gzip"),
        ("log.cleaner.io.max.bytes.per.second", "5e6", 5e6, "5000000.0"),
        ("log.cleaner.io.max.bytes.per.second", "1e7", 1e7, "1.0E7"),
        ("log.cleaner.io.max.bytes.per.second", "12345678.5", 12345678.5, "1.23456785E7"),
        ("log.cleaner.io.max.bytes.per.second", "-3", -3.0, "-3.0"),
        ("log.cleaner.min.cleanable.ratio", "1", 1.0, "1.0"),
        ("log.cleaner.min.cleanable.ratio", ".25", 0.25, "0.25"),
        ("log.cleaner.min.cleanable.ratio", "1e-5", 1e-5, "1.0E-5"),
        ("log.cleaner.min.cleanable.ratio", "0.001", 0.001, "0.001"),
        ("log.cleaner.min.cleanable.ratio", "0.00099", 0.00099, "9.9E-4"),
        ("log.cleaner.min.cleanable.ratio", "0", 0.0, "0.0"),
        ("log.retention.ms", "-1", -1, "-1"),
    ],
)
def test_values(name: str, text: str, value: Any, shown: str) -> None:
    parsed = parse(broker_keys()[name], text)
    assert parsed == value and type(parsed) is type(value)
    assert render(parsed) == shown


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", "-Infinity", "1e400", "inf", "nan", "1_0", "٣", "0x1p3", "1" * 5000]
)
def test_numbers_that_are_none(text: str) -> None:
    for name in ("log.cleaner.io.max.bytes.per.second", "log.retention.ms"):
        if text != "1" * 5000 or name == "log.retention.ms":
            with pytest.raises(BadValue):
                parse(broker_keys()[name], text)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("log.segment.bytes", "a 32-bit whole number of at least 14"),
        ("compression.gzip.level", "a 32-bit whole number from 1 to 9 or -1"),
        ("log.cleaner.min.cleanable.ratio", "a number from 0 to 1"),
        ("log.cleaner.enable", "true or false"),
        ("log.cleanup.policy", "a list of compact, delete"),
        ("log.message.timestamp.type", "one of CreateTime, LogAppendTime"),
        ("log.retention.ms", "a 64-bit whole number"),
        ("zookeeper.connect", "host:port,host:port/path"),
        ("listeners", "a text"),
    ],
)
def test_what_is_allowed_in_words(name: str, words: str) -> None:
    assert allowed(broker_keys()[name]) == words


@pytest.mark.parametrize(
    "text", ["zk", "zk:2181", "zk:65535", "a:1,b:2, c:3/kafka", "[::1]:2181", "10.0.0.1:2181/a/b", "h:1/"]
)
def test_zookeeper(text: str) -> None:
    assert parse(broker_keys()["zookeeper.connect"], text) == text


@pytest.mark.parametrize(
    "text", ["", ",", "a:b", "a:1,,b:2", "a b:1", "a:1/x y", "zookeeper://a:1", "a:123456", "a:65536", "/kafka"]
)
def test_no_zookeeper(text: str) -> None:
    with pytest.raises(BadValue):
        parse(broker_keys()["zookeeper.connect"], text)


def test_split() -> None:
    assert split(" a , b,,c ") == ("a", "b", "", "c")
    assert split(" \t") == ()


KEYS = st.sampled_from([*broker_keys().values(), *topic_keys().values()])
# Texts that come near to values, and anything else.
TEXTS = st.text(alphabet="0123456789+-.eEdD_x,:*/@ \t\nabcABC") | st.text() | st.sampled_from(CANDIDATES)


@given(KEYS, TEXTS)
@settings(max_examples=200, deadline=None)
def test_garbage_is_a_value_or_a_bad_value(key: Key, text: str) -> None:
    try:
        value = parse(key, text)
    except BadValue as error:
        # The text may be a secret under the wrong name: no message repeats it.
        assert text.strip() in ("", *allowed(key)) or text not in str(error) or text in allowed(key)
        return
    shown = render(value)
    assert shown is not None
    assert parse(key, shown) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=200, deadline=None)
def test_doubles_survive_the_round_trip(number: float) -> None:
    shown = render(number)
    assert shown is not None and "." in shown and "e" not in shown
    assert float(shown) == number
