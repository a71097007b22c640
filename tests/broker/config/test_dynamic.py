"""Changes at run time beyond the recordings: which layer wins, what is refused, what is passed over."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.broker.config.alter import (
    Change,
    Op,
    altered_broker,
    broker_scope,
    changed_broker,
    changed_topic,
    created_overrides,
)
from minikafka.broker.config.describe import describe_broker, describe_cluster, describe_topic
from minikafka.broker.config.dynamic import apply_stored, usable_overrides
from minikafka.broker.config.keys import broker_keys, topic_keys
from minikafka.broker.config.settings import Scope, Source
from minikafka.protocol.errors import InvalidConfigError, InvalidRequestError, KafkaError
from tests.broker.config.recorded import config_of, recording

ALL, ONE = Scope.CLUSTER_WIDE, Scope.PER_BROKER
HUSH = "hunter2"


def test_layers() -> None:
    config = config_of({"message.max.bytes": "1", "log.retention.minutes": "1"})
    assert config.topic_config({}).log.max_message_bytes == 1
    config = apply_stored(config, cluster_wide={"message.max.bytes": "2", "log.retention.ms": "5"}).config
    assert config.topic_config({}).log.max_message_bytes == 2
    assert config.topic_config({}).log.retention_ms == 5
    config = apply_stored(config, per_broker={"message.max.bytes": "3"}).config
    assert config.topic_config({}).log.max_message_bytes == 3
    assert config.topic_config({"max.message.bytes": "4"}).log.max_message_bytes == 4
    sources = [(each.text, each.source) for each in config.settings.candidates("message.max.bytes")]
    assert sources == [
        ("3", Source.DYNAMIC_BROKER_CONFIG),
        ("2", Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("1", Source.STATIC_BROKER_CONFIG),
        ("1048588", Source.DEFAULT_CONFIG),
    ]
    config = apply_stored(config, cluster_wide={}, per_broker={}).config
    assert config.topic_config({}).log.max_message_bytes == 1
    assert config.topic_config({}).log.retention_ms == 60_000


def test_an_id_that_was_given_out_stays() -> None:
    config = config_of()._replace(broker_id=1001)
    assert apply_stored(config, {"message.max.bytes": "2"}, {}).config.broker_id == 1001


def test_what_is_stored_never_stops_a_broker() -> None:
    config = config_of()
    stored = {
        "message.max.bytes": "7",
        "no.such": "1",
        "num.partitions": "2",
        "log.segment.bytes": "x",
        "listeners": "PLAINTEXT://a:1",
        "sasl.jaas.config": HUSH,
        "ssl.keystore.location": "/x",
    }
    applied = apply_stored(config, cluster_wide=stored)
    assert applied.config.settings.cluster_wide == {"message.max.bytes": "7"}
    assert applied.complaints == (
        "config of all brokers: unknown key 'no.such'; it is not used",
        "config of all brokers: num.partitions cannot be changed at run time; it is not used",
        "config of all brokers: log.segment.bytes='x': must be a 32-bit whole number of at least 14; it is not used",
        "config of all brokers: listeners can be changed only for one broker, not for all; it is not used",
        "config of all brokers: sasl.jaas.config: no secrets are kept in ZooKeeper; it is not used",
        "config of all brokers: ssl.keystore.location can be changed only for one listener, "
        "as listener.name.<name>.ssl.keystore.location; it is not used",
    )


def test_what_does_not_fit_together_changes_nothing() -> None:
    config = config_of()
    applied = apply_stored(config, per_broker={"max.connections.per.ip": "0", "message.max.bytes": "7"})
    assert applied.config is config
    assert applied.complaints == (
        "config of this broker: max.connections.per.ip='0': "
        "may be 0 only if max.connections.per.ip.overrides lets somebody in; nothing has changed",
    )


def test_overrides_that_cannot_be_used() -> None:
    config = config_of()
    usable, complaints = usable_overrides(config, {"retention.ms": "5", "no.such": "1", "segment.bytes": "x"})
    assert usable == {"retention.ms": "5"}
    assert complaints == (
        "unknown key 'no.such'; it is not used",
        "segment.bytes='x': must be a 32-bit whole number of at least 14; it is not used",
    )
    usable, complaints = usable_overrides(config, {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})
    assert (usable, len(complaints)) == ({}, 1)


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ({"no.such": "1"}, InvalidConfigError, "unknown key 'no.such'"),
        ({"sasl.jaas.config": HUSH}, InvalidConfigError, "sasl.jaas.config: no secrets are kept in ZooKeeper"),
        (
            {"listener.name.plaintext.ssl.key.password": HUSH},
            InvalidConfigError,
            "listener.name.plaintext.ssl.key.password: no secrets are kept in ZooKeeper",
        ),
        (
            {"num.io.threads": "17"},
            InvalidRequestError,
            "config of this broker: num.io.threads='17': must be from half to double of what it is, 8",
        ),
        (
            {"max.connections": "0"},
            InvalidRequestError,
            "config of this broker: max.connections='0': nobody could connect to listener PLAINTEXT any more",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:SSL"},
            InvalidRequestError,
            "listeners='PLAINTEXT://:9092': listener PLAINTEXT is for SSL, but connections here are PLAINTEXT",
        ),
    ],
)
def test_refused_requests(texts: dict[str, str], error: type[KafkaError], message: str) -> None:
    with pytest.raises(error) as raised:
        altered_broker(config_of(), ONE, list(texts.items()))
    assert raised.value.message == message


def test_an_unusable_config_goes_with_the_next_change() -> None:
    stored = {"no.such": "1", "message.max.bytes": "5"}
    changes = [Change("log.segment.bytes", Op.SET, "100")]
    assert changed_broker(config_of(), ALL, stored, changes) == {"message.max.bytes": "5", "log.segment.bytes": "100"}


def test_lists_grow_and_shrink() -> None:
    config, name = config_of(), "leader.replication.throttled.replicas"

    def after(current: str | None, op: Op, value: str) -> str:
        overrides = {} if current is None else {name: current}
        return changed_topic(config, overrides, [Change(name, op, value)])[name]

    assert after(None, Op.APPEND, "0:1") == "0:1"
    assert after("0:1", Op.APPEND, "0:1, 1:1") == "0:1,1:1"
    assert after(" 0:1 , 1:1 ", Op.SUBTRACT, "0:1") == "1:1"
    assert after("0:1", Op.SUBTRACT, "0:1") == ""
    assert after(None, Op.SUBTRACT, "0:1") == ""
    policy = changed_topic(config, {}, [Change("cleanup.policy", Op.APPEND, "compact")])
    assert policy == {"cleanup.policy": "delete,compact"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (Change("retention.ms", Op.APPEND, "1"), InvalidConfigError),
        (Change("retention.ms", Op.SUBTRACT, "1"), InvalidConfigError),
        (Change("no.such", Op.APPEND, "1"), InvalidConfigError),
        (Change("cleanup.policy", Op.APPEND, None), InvalidRequestError),
        (Change("retention.ms", -1, "1"), InvalidRequestError),
        (Change("retention.ms", 9, None), InvalidRequestError),
    ],
)
def test_changes_that_cannot_be(change: Change, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        changed_topic(config_of(), {}, [change])


def test_the_overrides_that_were_are_left_alone() -> None:
    overrides = {"retention.ms": "1"}
    changed = changed_topic(config_of(), overrides, [Change("retention.ms", Op.DELETE, None)])
    assert (changed, overrides) == ({}, {"retention.ms": "1"})


def test_of_a_config_that_is_created_twice_the_last_counts() -> None:
    assert created_overrides(config_of(), [("retention.ms", "1"), ("retention.ms", "2")]) == {"retention.ms": "2"}


@pytest.mark.parametrize(("name", "scope"), [("", ALL), ("1", ONE), ("01", ONE), ("+1", ONE)])
def test_whom_a_name_means(name: str, scope: Scope) -> None:
    assert broker_scope(name, 1) is scope


@pytest.mark.parametrize("name", ["2", "-1", "x", "1.0", " 1", "1\n", "१", "9" * 5000])
def test_whom_a_name_does_not_mean(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        broker_scope(name, 1)


def test_descriptions_show_no_secret() -> None:
    secret = {"ssl.keystore.password": HUSH, "listener.name.plaintext.sasl.jaas.config": HUSH, "super.users": HUSH}
    config = config_of(secret)
    entries = {entry.name: entry for entry in describe_broker(config)}
    for name in secret:
        assert entries[name].sensitive and entries[name].value is None
        assert [each.text for each in entries[name].synonyms] in ([None], [None, None])
    assert HUSH not in repr(list(entries.values()))
    assert describe_cluster(config) == []


NAMES = st.sampled_from(["cleanup.policy", "retention.ms", *sorted(topic_keys()), *sorted(broker_keys())]) | st.text()
# ZooKeeper's JSON may hold halves of characters too.
TEXTS = (
    st.text(max_size=20)
    | st.text(st.characters(categories=["Cs", "Nd"]), max_size=3)
    | st.sampled_from(recording("config-values")["candidates"])
)
CHANGES = st.lists(st.builds(Change, NAMES, st.integers(-1, 5), st.none() | TEXTS), max_size=4)
CONFIG = config_of()


@given(CHANGES)
@settings(max_examples=100, deadline=None)
def test_garbage_changes_a_topic_or_is_refused(changes: list[Change]) -> None:
    config = CONFIG
    try:
        overrides = changed_topic(config, {}, changes)
    except (InvalidConfigError, InvalidRequestError):
        return
    config.topic_config(overrides)


@given(CHANGES, st.sampled_from(Scope))
@settings(max_examples=100, deadline=None)
def test_garbage_changes_a_broker_or_is_refused(changes: list[Change], scope: Scope) -> None:
    config = CONFIG
    try:
        texts = changed_broker(config, scope, {}, changes)
    except (InvalidConfigError, InvalidRequestError):
        return
    layers = {"cluster_wide": texts} if scope is ALL else {"per_broker": texts}
    assert apply_stored(config, **layers).complaints == ()


@given(st.dictionaries(NAMES, TEXTS, max_size=8))
@settings(max_examples=100, deadline=None)
def test_garbage_in_zookeeper_never_raises(stored: dict[str, str]) -> None:
    config = CONFIG
    applied = apply_stored(config, stored, stored)
    usable, _ = usable_overrides(applied.config, stored)
    applied.config.topic_config(usable)
    for entry in (*describe_broker(applied.config, list(stored)), *describe_topic(applied.config, usable)):
        assert (entry.name + (entry.value or "")).encode()
