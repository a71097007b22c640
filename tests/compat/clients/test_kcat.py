"""What kcat does beside producing and consuming."""

from __future__ import annotations

import json

import pytest

from tests.compat.clients.confluent import ConfluentAdmin
from tests.compat.clients.kcat import Kcat
from tests.compat.clients.model import REPLICATION_FACTOR, Reading, Record, Refused
from tests.compat.clients.topics import Topics
from tests.compat.running import Cluster

pytestmark = pytest.mark.needs("kcat")

UNKNOWN_TOPIC = 3


@pytest.fixture
def kcat(up_cluster: Cluster) -> Kcat:
    return Kcat(up_cluster.bootstrap)


def test_lists_the_cluster(kcat: Kcat, topics: Topics, keeper: ConfluentAdmin, up_cluster: Cluster) -> None:
    topic = topics.make(6)
    told = json.loads(kcat.run("-L", "-J", "-t", topic))
    assert {broker["id"] for broker in told["brokers"]} == up_cluster.broker_ids
    assert {broker["name"] for broker in told["brokers"]} == set(up_cluster.bootstrap.split(","))
    assert told["controllerid"] == keeper.describe_cluster().controller
    (found,) = told["topics"]
    assert {one["partition"]: one["leader"] for one in found["partitions"]} == keeper.leaders(topic)
    for one in found["partitions"]:
        assert len(one["replicas"]) == REPLICATION_FACTOR
        assert sorted(node["id"] for node in one["isrs"]) == sorted(node["id"] for node in one["replicas"])


def test_lists_all_topics(kcat: Kcat, topics: Topics) -> None:
    names = {topics.make(), topics.make()}
    told = json.loads(kcat.run("-L", "-J"))
    assert names <= {topic["topic"] for topic in told["topics"]}


def test_a_topic_that_is_not_there(kcat: Kcat, topics: Topics, keeper: ConfluentAdmin) -> None:
    topic = topics.name()
    with pytest.raises(Refused) as refused:
        next(kcat.read(topic, 1, Reading(may_create_topics=False)))
    assert refused.value.code == UNKNOWN_TOPIC
    assert topic not in keeper.client.list_topics(timeout=10).topics


def test_stops_at_the_end(kcat: Kcat, topics: Topics) -> None:
    """Of every partition, also of those that hold nothing."""
    topic = topics.make(3)
    kcat.produce(topic, [Record(b"%d" % row) for row in range(5)], partition=1)
    assert kcat.run("-C", "-t", topic, "-o", "beginning", "-e", "-f", "%p:%o ") == b"1:0 1:1 1:2 1:3 1:4 "


def test_counts_from_the_end(kcat: Kcat, topics: Topics) -> None:
    topic = topics.make()
    kcat.produce(topic, [Record(b"%d" % row) for row in range(20)])
    assert kcat.run("-C", "-t", topic, "-p", "0", "-o", "-3", "-e", "-f", "%s ") == b"17 18 19 "
