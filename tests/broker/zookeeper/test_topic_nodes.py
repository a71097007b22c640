"""The JSON of topics and partitions, beside what Kafka 3.9.1 wrote."""

from __future__ import annotations

import pytest

from minikafka.broker.zookeeper.json_node import BadNode
from minikafka.broker.zookeeper.topic_nodes import (
    Assignment,
    StateNode,
    TopicNode,
    decode_log_dir_event,
    decode_topic_id,
    encode_log_dir_event,
    encode_topic_id,
    is_topic_name,
    state_path,
)
from minikafka.protocol.schema import ZERO_UUID

# Recorded from Kafka 3.9.1.
AUDIT = (
    b'{"partitions":{"0":[3,1]},"topic_id":"F6bucYUVSYmFlAapWsvGaA","adding_replicas":{},"removing_replicas":{},'
    b'"version":3}'
)
ORDERS = (
    b'{"partitions":{"0":[2,1,3],"1":[3,2,1],"2":[1,3,2]},"topic_id":"8d6bVZH6TgeBprWISdxX8g","adding_replicas":{},'
    b'"removing_replicas":{},"version":3}'
)
STATE = b'{"controller_epoch":11,"leader":2,"version":1,"leader_epoch":0,"isr":[2,1,3]}'

AUDIT_ID = bytes.fromhex("17a6ee718515498985940 6a95acbc668".replace(" ", ""))


@pytest.mark.parametrize(
    ("data", "partitions"),
    [(AUDIT, {0: (3, 1)}), (ORDERS, {0: (2, 1, 3), 1: (3, 2, 1), 2: (1, 3, 2)})],
)
def test_a_topic_as_kafka_writes_it(data: bytes, partitions: dict[int, tuple[int, ...]]) -> None:
    node = TopicNode.decode("/", data)
    assert node.partitions == {index: Assignment(replicas) for index, replicas in partitions.items()}
    assert node.encode() == data


def test_a_state_as_kafka_writes_it() -> None:
    state = StateNode.decode("/", STATE)
    assert state == StateNode(leader=2, leader_epoch=0, isr=(2, 1, 3), controller_epoch=11)
    assert state.encode() == STATE


def test_a_state_while_its_leader_recovers() -> None:
    state = StateNode(1, 5, (1,), 2, is_recovering=True, unclean_epoch=5)
    assert b'"leader_recovery_state":1' in state.encode()
    assert StateNode.decode("/", state.encode()) == state


def test_state_says_for_which_brokers_it_was_written() -> None:
    state = StateNode(1, 5, (1, 12), 2, broker_epochs={12: 70, 1: 45})
    assert state.encode().endswith(b',"isr":[1,12],"broker_epochs":{"1":45,"12":70}}')
    assert StateNode.decode("/", state.encode()) == state


def test_state_says_who_else_may_lead() -> None:
    state = StateNode(-1, 5, (1,), 2, elr=(3, 2), last_leader=1)
    assert state.encode().endswith(b',"isr":[1],"eligible_leader_replicas":[3,2],"last_known_leader":1}')
    assert StateNode.decode("/", state.encode()) == state


def test_ids() -> None:
    assert TopicNode.decode("/", AUDIT).topic_id == AUDIT_ID
    assert encode_topic_id(AUDIT_ID) == "F6bucYUVSYmFlAapWsvGaA"
    for bad in ("", "F6bucYUVSYmFlAapWsvGa", "F6bucYUVSYmFlAapWsvGaB", "F6bucYUVSYmFlAapWsvGaAA", "?" * 22):
        with pytest.raises(ValueError):
            decode_topic_id(bad)


def test_a_topic_of_an_older_kafka_has_no_id() -> None:
    node = TopicNode.decode("/", b'{"version":1,"partitions":{"0":[1]}}')
    assert node == TopicNode(ZERO_UUID, {0: Assignment((1,))})


def test_a_reassignment() -> None:
    assignment = Assignment((4, 1, 2, 3), adding=(4,), removing=(1, 2))
    node = TopicNode(AUDIT_ID, {0: assignment, 1: Assignment((1, 2))})
    assert b'"adding_replicas":{"0":[4]},"removing_replicas":{"0":[1,2]}' in node.encode()
    assert TopicNode.decode("/", node.encode()) == node
    assert (assignment.is_reassigned, assignment.target) == (True, (4, 3))
    assert not Assignment((1, 2)).is_reassigned


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version":3}',
        b'{"version":3,"partitions":{"x":[1]}}',
        b'{"version":3,"partitions":{"01":[1]}}',
        b'{"version":3,"partitions":{"-1":[1]}}',
        b'{"version":3,"partitions":{"0":["a"]}}',
        b'{"version":3,"partitions":{"0":[1]},"topic_id":"x"}',
    ],
)
def test_what_makes_no_sense(data: bytes) -> None:
    with pytest.raises(BadNode, match="/brokers/topics/t"):
        TopicNode.decode("/brokers/topics/t", data)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"leader":1,"leader_epoch":0,"isr":1,"controller_epoch":1}'])
def test_a_state_that_makes_no_sense(data: bytes) -> None:
    with pytest.raises(BadNode, match="partitions/3/state"):
        StateNode.decode(state_path("t", 3), data)


def test_a_log_dir_event() -> None:
    assert encode_log_dir_event(2) == b'{"version":1,"broker":2,"event":1}'
    assert decode_log_dir_event("/", encode_log_dir_event(2)) == 2


def test_names_are_checked() -> None:
    assert is_topic_name("a.b-c_d")
    assert not any(map(is_topic_name, ("", "..", ".", "a/b", "ä", "x" * 250)))
