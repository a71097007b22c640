"""The JSON and the names of config nodes, beside what Kafka 3.9.1 wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.zookeeper.config_nodes import (
    ALL_BROKERS,
    Entity,
    broker_entity,
    client_entity,
    decode_change,
    decode_config,
    desanitize,
    encode_change,
    encode_config,
    ip_entity,
    is_change,
    sanitize,
    topic_entity,
    user_client_entity,
    user_entity,
)
from minikafka.broker.zookeeper.json_node import BadNode

# Recorded from Kafka 3.9.1.
PAYMENTS = b'{"version":1,"config":{"cleanup.policy":"compact","min.insync.replicas":"2","retention.ms":"86400000"}}'
CHANGE = b'{"version":2,"entity_path":"topics/payments"}'
NODES = {
    client_entity("c 1/ü*"): "/config/clients/c%201%2F%C3%BC%2A",
    client_entity("<default>"): "/config/clients/%3Cdefault%3E",
    user_client_entity("u:1%", "c1"): "/config/users/u%3A1%25/clients/c1",
    user_client_entity(None, None): "/config/users/<default>/clients/<default>",
    user_entity("ü, =%"): "/config/users/%C3%BC%2C%20%3D%25",
    user_entity(None): "/config/users/<default>",
    ip_entity("1.2.3.4"): "/config/ips/1.2.3.4",
    topic_entity("orders"): "/config/topics/orders",
    broker_entity(3): "/config/brokers/3",
    ALL_BROKERS: "/config/brokers/<default>",
}


def test_configs_as_kafka_writes_them() -> None:
    texts = {"cleanup.policy": "compact", "min.insync.replicas": "2", "retention.ms": "86400000"}
    assert encode_config(texts) == PAYMENTS
    assert decode_config(topic_entity("payments"), PAYMENTS) == texts
    assert encode_config({}) == b'{"version":1,"config":{}}'
    assert decode_config(user_entity("u"), b"") == {}


def test_a_change_as_kafka_writes_it() -> None:
    assert encode_change(topic_entity("payments")) == CHANGE
    assert decode_change("/", CHANGE) == topic_entity("payments")
    old = b'{"version":1,"entity_type":"topics","entity_name":"payments"}'
    assert decode_change("/", old) == topic_entity("payments")


@pytest.mark.parametrize(("entity", "path"), NODES.items())
def test_the_node_of_an_entity(entity: Entity, path: str) -> None:
    assert entity.node == path


def test_the_parts_of_an_entity() -> None:
    assert (topic_entity("t").kind, topic_entity("t").name) == ("topics", "t")
    assert user_client_entity("u", None).name == "u/clients/<default>"


@given(st.text(max_size=20))
def test_every_name_comes_back_and_stays_in_its_place(name: str) -> None:
    assert desanitize(sanitize(name)) == name
    assert set(sanitize(name)).isdisjoint("/<>~+* ")


def test_names_for_all_others() -> None:
    assert (sanitize(None), desanitize("<default>")) == ("<default>", None)
    assert sanitize("~") == "%7E"


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"7",
        b'{"version":1,"config":[1]}',
        b'{"config":{"a":7}}',
        b'{"config":{"a":"\\ud800"}}',
        b"[" * 100_000,
    ],
)
def test_nonsense(data: bytes) -> None:
    with pytest.raises(BadNode, match="/config/topics/t holds"):
        decode_config(topic_entity("t"), data)


def test_no_credentials_are_told() -> None:
    with pytest.raises(BadNode) as raised:
        decode_config(user_entity("u"), b'{"config":{"SCRAM-SHA-256":"hush"')
    assert "hush" not in str(raised.value) and "/config/users/u" in str(raised.value)


def test_what_is_a_change() -> None:
    assert is_change("config_change_0000000020")
    assert not is_change("something")
