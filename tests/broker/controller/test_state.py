"""What the controller concludes from what it knows."""

from __future__ import annotations

import pytest

from minikafka.broker.controller.leader_election import Standing
from minikafka.broker.controller.state import Broker, Cluster
from minikafka.broker.zookeeper.topic_nodes import Assignment, StateNode, TopicNode
from minikafka.broker.zookeeper.znodes import BrokerNode


@pytest.mark.parametrize(("broker_epoch", "standing"), [(10, Standing.SAME), (20, Standing.SAME), (30, Standing.KEPT)])
def test_standing_goes_by_the_transaction_of_a_state_without_broker_epochs(
    broker_epoch: int, standing: Standing
) -> None:
    """Kafka and older versions write such states: who registered after one is not the broker that it speaks of."""
    cluster = Cluster()
    (partition,) = cluster.put_topic("t", TopicNode(bytes(16), {0: Assignment((1,))}), 0)
    partition.state, partition.zxid = StateNode(1, 0, (1,), 1), 20
    cluster.brokers[1] = Broker(1, broker_epoch, BrokerNode(()))
    assert cluster.standing(partition, 1) is standing
