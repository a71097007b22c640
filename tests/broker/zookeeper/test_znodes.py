"""The JSON of the nodes, beside what Kafka 3.9.1 wrote."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from minikafka.broker.zookeeper.coord import open_acl, secure_acl
from minikafka.broker.zookeeper.znodes import (
    CONTROLLER_EPOCH,
    BadNode,
    BrokerNode,
    Endpoint,
    ProducerIdBlock,
    broker_path,
    decode_cluster_id,
    decode_controller,
    decode_epoch,
    encode_cluster_id,
    encode_controller,
    encode_epoch,
)

# Recorded from Kafka 3.9.1.
BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:'
    b'29291"],"jmx_port":-1,"port":29291,"host":"127.0.0.1","version":5,"timestamp":"1794810104043"}'
)
BROKER_WITH_RACK = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:'
    b'39092"],"rack":"r1","jmx_port":-1,"port":39092,"host":"127.0.0.1","version":5,"timestamp":"1794873370413"}'
)
CLUSTER_ID = b'{"version":"1","id":"5ZUXq8QfTYC_kPUPz35Uhw"}'
CONTROLLER = b'{"version":2,"brokerid":1,"timestamp":"1794810104680","kraftControllerEpoch":-1}'
PRODUCER_IDS = b'{"version":1,"broker":3,"block_start":"7000","block_end":"7999"}'

HERE = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 29291)


@pytest.mark.parametrize(
    ("data", "node"),
    [
        (BROKER, BrokerNode((HERE,), timestamp_ms=1794810104043)),
        (BROKER_WITH_RACK, BrokerNode((HERE._replace(port=39092),), "r1", timestamp_ms=1794873370413)),
    ],
)
def test_a_broker_as_kafka_writes_it(data: bytes, node: BrokerNode) -> None:
    assert node.encode() == data
    assert BrokerNode.decode("/brokers/ids/1", data) == node


def test_the_other_nodes_as_kafka_writes_them() -> None:
    assert encode_cluster_id("5ZUXq8QfTYC_kPUPz35Uhw") == CLUSTER_ID
    assert decode_cluster_id(CLUSTER_ID) == "5ZUXq8QfTYC_kPUPz35Uhw"
    assert encode_controller(1, 1794810104680) == CONTROLLER
    assert decode_controller(CONTROLLER) == 1
    assert ProducerIdBlock(3, 7000, 7999).encode() == PRODUCER_IDS
    assert ProducerIdBlock.decode(PRODUCER_IDS) == (3, 7000, 7999)
    assert (encode_epoch(11), decode_epoch(b"11")) == (b"11", 11)


def test_every_listener_is_registered() -> None:
    node = BrokerNode(
        (
            Endpoint("INTERNAL", "SASL_SSL", "broker-1", 9093),
            Endpoint("CLIENT", "PLAINTEXT", "::1", 9092),
            Endpoint("OTHER", "PLAINTEXT", "", 9094),
        ),
        rack="Köln",
        features={"metadata.version": {"min_version": 1, "max_version": 7}},
        timestamp_ms=5,
    )
    data = node.encode()
    assert BrokerNode.decode("/", data) == node
    fields = json.loads(data)
    assert fields["endpoints"] == ["INTERNAL://broker-1:9093", "CLIENT://[::1]:9092", "OTHER://:9094"]
    # The first that old clients can use.
    assert (fields["host"], fields["port"]) == ("::1", 9092)
    assert "Köln".encode() in data


def test_without_a_plain_listener_there_is_no_address_for_old_clients() -> None:
    fields = json.loads(BrokerNode((HERE._replace(protocol="SSL"),)).encode())
    assert (fields["host"], fields["port"]) == (None, -1)


def test_broker_says_since_when_it_has_lost_nothing() -> None:
    node = BrokerNode((Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9092),), previous_epoch=40)
    assert BrokerNode.decode("/", node.encode()) == node
    assert [node.has_kept(epoch) for epoch in (39, 40, 41)] == [False, True, True]
    unclean = replace(node, previous_epoch=-1)
    assert BrokerNode.decode("/", unclean.encode()) == unclean and not unclean.has_kept(40)
    durable = replace(unclean, is_durable=True)
    assert BrokerNode.decode("/", durable.encode()) == durable and durable.has_kept(40)
    # One that does not say is believed, as before.
    assert replace(node, previous_epoch=None).has_kept(40)


def test_brokers_of_older_versions() -> None:
    one = b'{"version":1,"host":"old","port":9092,"jmx_port":9999,"timestamp":"1"}'
    assert BrokerNode.decode("/", one).endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "old", 9092),)
    three = b'{"version":3,"host":"h","port":1,"jmx_port":-1,"timestamp":"1","endpoints":["SSL://h:2"],"rack":"r"}'
    assert BrokerNode.decode("/", three) == BrokerNode((Endpoint("SSL", "SSL", "h", 2),), "r", timestamp_ms=1)


BAD = [
    b"",
    b"\xff",
    b"7",
    b"[]",
    b"{}",
    b'{"version":5}',
    b'{"version":"x"}',
    b'{"version":5,"endpoints":7}',
    b'{"version":5,"endpoints":["nonsense"]}',
    b'{"version":5,"endpoints":[7]}',
    b'{"version":5,"endpoints":[],"features":[1]}',
    b'{"brokerid":null}',
    b'{"brokerid":{}}',
    b'{"broker":1,"block_start":"x","block_end":"1"}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("data", BAD, ids=lambda data: repr(data[:40]))
def test_nonsense_is_one_error_that_shows_it(data: bytes) -> None:
    for decode in (lambda data: BrokerNode.decode("/brokers/ids/7", data), decode_controller, ProducerIdBlock.decode):
        with pytest.raises(BadNode, match=r"^/"):
            decode(data)
    with pytest.raises(BadNode, match="/brokers/ids/7"):
        BrokerNode.decode(broker_path(7), data)


def test_an_epoch_is_a_number() -> None:
    with pytest.raises(BadNode, match=CONTROLLER_EPOCH):
        decode_epoch(b"one")


def test_producer_ids_follow_each_other_until_there_are_no_more() -> None:
    first = ProducerIdBlock.after(b"", 1)
    assert first == (1, 0, 999)
    assert ProducerIdBlock.after(first.encode(), 2) == (2, 1000, 1999)
    last_but_one = ProducerIdBlock(1, 0, 2**63 - 1001).encode()
    assert ProducerIdBlock.after(last_but_one, 1).last == 2**63 - 1
    with pytest.raises(BadNode, match="no more producer ids"):
        ProducerIdBlock.after(ProducerIdBlock(1, 0, 2**63 - 1000).encode(), 1)


def test_what_kafka_lets_others_see() -> None:
    paths = ("/brokers/ids", "/config/users/alice", "/config/brokers", "/delegation_token/tokens/x", "/consumers")
    assert [secure_acl(path).name for path in paths] == ["READABLE", "PRIVATE", "PRIVATE", "PRIVATE", "OPEN"]
    assert {open_acl(path).name for path in paths} == {"OPEN"}
