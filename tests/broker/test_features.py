"""Features: a level holds when every broker supports it; the node in ZooKeeper is Kafka's."""

from __future__ import annotations

import pytest

from minikafka.broker.features import SUPPORTED, TRANSACTION_VERSION, common_levels, registered
from minikafka.broker.zookeeper.znodes import BadNode, BrokerNode, FeaturesNode

OURS = registered(SUPPORTED)


def test_feature_is_common_when_every_broker_supports_it() -> None:
    assert common_levels([OURS, OURS]) == {TRANSACTION_VERSION: 2}
    assert common_levels([OURS, {TRANSACTION_VERSION: {"min_version": 0, "max_version": 1}}]) == {
        TRANSACTION_VERSION: 1
    }
    assert common_levels([OURS, {}]) == common_levels([]) == {}
    later = {TRANSACTION_VERSION: {"min_version": 0, "max_version": 3}, "other": {"min_version": 1, "max_version": 1}}
    assert common_levels([OURS, later]) == {TRANSACTION_VERSION: 2}


def test_features_node_is_kafkas() -> None:
    # As Kafka 3.9.1 writes it without features.
    assert FeaturesNode().encode() == b'{"features":{},"version":2,"status":1}'
    node = FeaturesNode({"other": 1}).with_levels({TRANSACTION_VERSION: 2}, SUPPORTED)
    assert node.encode() == b'{"features":{"other":1,"transaction.version":2},"version":2,"status":1}'
    assert FeaturesNode.decode(node.encode()) == node
    assert node.with_levels({}, SUPPORTED) == FeaturesNode({"other": 1})


def test_features_node_of_earlier_and_disabled_features() -> None:
    earlier = b'{"features":{"a":{"min_version_level":1,"max_version_level":3}},"version":1,"status":1}'
    assert FeaturesNode.decode(earlier) == FeaturesNode({"a": 3})
    assert FeaturesNode.decode(b'{"features":{"a":1},"version":2,"status":0}') == FeaturesNode({}, is_enabled=False)
    for bad in (b"", b"{}", b'{"features":{"a":"x"},"version":2,"status":1}'):
        with pytest.raises(BadNode):
            FeaturesNode.decode(bad)


@pytest.mark.parametrize("level", ['"x"', "null", "[]", "-1", "32768"])
def test_level_that_no_message_can_carry_makes_a_node_bad(level: str) -> None:
    """The controller compares levels, and messages carry them in 16 bits: neither must fail for what a node holds."""
    broker = '{"version":5,"endpoints":["PLAINTEXT://h:1"],"features":{"a":{"min_version":1,"max_version":%s}}}'
    assert BrokerNode.decode("b", (broker % "32767").encode()).features == {
        "a": {"min_version": 1, "max_version": 32767}
    }
    with pytest.raises(BadNode):
        BrokerNode.decode("b", (broker % level).encode())
    with pytest.raises(BadNode):
        FeaturesNode.decode(b'{"features":{"a":%s},"version":2,"status":1}' % level.encode())
