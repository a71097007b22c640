"""The table of keys against Kafka's own, and against what the broker makes of them."""

import re
from typing import Any, get_args

import pytest

from minikafka.broker.config import checks, listeners
from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.config.describe import describe_broker, describe_topic
from minikafka.broker.config.keys import (
    INERT,
    Kind,
    Update,
    base_name,
    broker_key,
    broker_keys,
    displaced,
    is_for_listener,
    nearest,
    synonyms,
    topic_keys,
    unknown,
)
from minikafka.broker.config.settings import Source
from minikafka.broker.config.values import parse, render
from tests.broker.config.recorded import config_of, recording
from tests.tree import ROOT

BROKER_ROWS: list[dict[str, Any]] = recording("configs")["broker"]
TOPIC_ROWS: list[dict[str, Any]] = recording("configs")["topic"]

# The topic of the recording had these overrides; their defaults are therefore not in it.
OVERRIDES = {"cleanup.policy": "compact", "retention.ms": "60000"}


def test_the_broker_keys_are_kafkas() -> None:
    assert [name for name, key in broker_keys().items() if not key.internal] == [row["name"] for row in BROKER_ROWS]


def _sources(*rooms: str) -> str:
    return "\n".join(path.read_text() for room in rooms for path in sorted((ROOT / room).rglob("*.py")))


def test_every_broker_key_is_read_or_listed_as_having_no_effect() -> None:
    """What nobody looks at is a key that an operator sets for nothing, without being warned."""
    source = _sources("broker", "storage")
    attributes = set(re.findall(r"\.(\w+)\b", source))
    quoted = set(re.findall(r'"([\w.]+)"', source))
    defaults = {key.broker for key in topic_keys().values() if not key.inert}
    unread = [
        name
        for name, key in broker_keys().items()
        if not key.inert and not key.internal
        if name.replace(".", "_") not in attributes and name not in quoted and not defaults & {name, *synonyms(name)}
    ]
    assert unread == []


def test_the_topic_keys_are_kafkas() -> None:
    assert list(topic_keys()) == [row["name"] for row in TOPIC_ROWS]


def test_types_and_defaults_are_kafkas() -> None:
    for row in BROKER_ROWS:
        key = broker_keys()[row["name"]]
        assert key.kind.name.lower() == row["type"], row["name"]
        assert key.default == row["default"], row["name"]
        assert (key.update is Update.READ_ONLY) == row["read_only"], row["name"]
        assert key.secret == row["sensitive"], row["name"]


def test_a_broker_describes_itself_like_kafka() -> None:
    """Types, defaults, read-only, sensitive and the names of synonyms, of all keys at once."""
    described = {entry.name: entry for entry in describe_broker(config_of({"log.dirs": "/data"}))}
    for row in BROKER_ROWS:
        entry = described[row["name"]]
        assert (entry.read_only, entry.sensitive) == (row["read_only"], row["sensitive"]), row["name"]
        assert entry.kind.name.lower() == row["type"], row["name"]
        assert list(dict.fromkeys(each.name for each in entry.synonyms)) == row["synonyms"], row["name"]
        defaults = [each.text for each in entry.synonyms if each.source is Source.DEFAULT_CONFIG]
        assert defaults == ([] if row["default"] is None else [row["default"]]), row["name"]


def test_a_topic_is_described_like_kafkas() -> None:
    described = {entry.name: entry for entry in describe_topic(config_of(), OVERRIDES)}
    for row in TOPIC_ROWS:
        entry = described[row["name"]]
        assert (entry.read_only, entry.sensitive) == (row["read_only"], row["sensitive"]), row["name"]
        assert entry.kind.name.lower() == row["type"], row["name"]
        assert list(dict.fromkeys(each.name for each in entry.synonyms)) == row["synonyms"], row["name"]
        defaults = [each.text for each in entry.synonyms if each.source is Source.DEFAULT_CONFIG]
        assert defaults == ([] if row["default"] is None else [row["default"]]), row["name"]


@pytest.mark.parametrize("keys", [broker_keys(), topic_keys()], ids=["broker", "topic"])
def test_every_default_is_a_value_that_is_shown_as_it_stands(keys: Any) -> None:
    for key in keys.values():
        assert key.default is None or render(parse(key, key.default)) == key.default, key.name


@pytest.mark.parametrize("keys", [broker_keys(), topic_keys()], ids=["broker", "topic"])
def test_every_key_is_documented(keys: Any) -> None:
    for key in keys.values():
        assert len(key.doc) > 10 and key.doc[0].isupper() and key.doc.endswith("."), key.name
        assert "\n" not in key.doc, key.name
        assert not key.inert or INERT[key.inert] in key.documentation, key.name
    docs = [key.doc for key in keys.values()]
    assert sorted({doc for doc in docs if docs.count(doc) > 1}) == []


def test_every_reason_is_used() -> None:
    used = {key.inert for key in (*broker_keys().values(), *topic_keys().values())} - {""}
    assert used == set(INERT)


def test_defaults_of_topics_are_keys_of_the_broker() -> None:
    for key in topic_keys().values():
        if key.broker is not None:
            assert broker_keys()[key.broker].kind is key.kind
            assert broker_keys()[key.broker].inert == key.inert, key.name


def attributes() -> dict[str, Any]:
    return {name.replace("_", "."): hint for name, hint in BrokerConfig.__annotations__.items()}


def test_what_has_an_effect_reaches_the_broker() -> None:
    """Every key is an attribute, the default of a topic's key, part of an address, or said to have no effect."""
    effective = {name for name, key in broker_keys().items() if not key.inert}
    topics = {name for key in topic_keys().values() if key.broker for name in synonyms(key.broker)}
    addresses = {value for value in vars(listeners).values() if isinstance(value, str) and value in broker_keys()}
    reached = {*attributes(), *topics, *addresses, "log.dir", "node.id", "zookeeper.connection.timeout.ms"}
    assert effective - reached == set()


def test_no_attribute_is_without_a_key_or_without_effect() -> None:
    made = {"settings", "topic.defaults"}
    for name in attributes().keys() - made:
        assert broker_keys()[name].inert == "", name


TYPES = {Kind.BOOLEAN: bool, Kind.SHORT: int, Kind.INT: int, Kind.LONG: int, Kind.DOUBLE: float, Kind.STRING: str}


def test_attributes_have_the_types_of_their_keys() -> None:
    config = config_of()
    for name, hint in attributes().items():
        value = getattr(config, name.replace(".", "_"))
        key = broker_keys().get(name)
        if hint in (bool, int, float, str) and key is not None:
            assert hint is TYPES[key.kind] and type(value) is hint, name
        elif type(None) in get_args(hint):
            assert value is None, name


def test_values_of_an_untouched_broker() -> None:
    config = config_of()
    assert (config.broker_id, config.num_partitions, config.offsets_topic_replication_factor) == (-1, 1, 3)
    assert (config.replica_lag_time_max_ms, config.socket_request_max_bytes) == (30_000, 104_857_600)
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.zookeeper_connection_timeout_ms == config.zookeeper_session_timeout_ms == 18_000
    assert (config.minikafka_http_port, config.minikafka_durability) == (-1, "replicated")


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("listener.name.internal.ssl.keystore.location", "ssl.keystore.location"),
        ("listener.name.x.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.x.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.x.max.connections", "max.connections"),
    ],
)
def test_keys_of_one_listener(name: str, base: str) -> None:
    assert is_for_listener(name)
    assert base_name(name) == base
    assert broker_key(name) is broker_keys()[base]
    assert synonyms(name) == (name, base)
    assert displaced(name) == (name,)


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.",
        "listener.name.x",
        "listener.name.x.",
        "listener.name..listeners",
        "listener.name.\udcff.listeners",
    ],
)
def test_no_key_of_a_listener(name: str) -> None:
    assert not is_for_listener(name)
    assert broker_key(name) is None


def test_the_nearest_key_is_named() -> None:
    assert nearest("log.retnetion.ms", broker_keys()) == "log.retention.ms"
    assert nearest("Log.Dirs", broker_keys()) == "log.dirs"
    assert nearest("qqqqqqqq", broker_keys()) is None
    assert unknown("brokr.id", broker_keys()) == "unknown key 'brokr.id', did you mean 'broker.id'?"
    assert unknown("listener.name.x.max.conections", broker_keys()).endswith("'listener.name.x.max.connections'?")
    assert unknown("", broker_keys()) == "unknown key ''"
    assert unknown("q" * 100_000, broker_keys()) == f"unknown key {'q' * 100!r}"


def test_rules_name_keys_that_exist() -> None:
    """A rule that blames a key of no table would read well and help nobody."""
    settings = config_of().settings
    rules = checks.rules(settings, config_of().topic_defaults)
    found = [name for rule in rules for name in rule.names]
    assert len(found) > 20 and set(found) <= set(broker_keys())
