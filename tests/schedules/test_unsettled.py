"""Schedules about topics that exist and are not led: on their way out, or damaged in ZooKeeper.

L is the leader, F and G follow. Broker C has no replica: it is the controller.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from minikafka.broker.controller.state import Cluster
from minikafka.broker.metadata import Metadata
from minikafka.broker.zookeeper.coord import Set
from minikafka.broker.zookeeper.topic_nodes import state_path, topic_path
from minikafka.protocol.control import UpdateMetadataRequest
from tests.schedules.stage import must, must_agree, must_fail, must_hold, play
from tests.sim.client import TOPIC
from tests.sim.cluster import SimCluster

L, F, G, C = 1, 2, 3, 4


def _logs(cluster: SimCluster, broker_id: int) -> list[str]:
    """All names in a log directory that are, or were, the first partition's."""
    return [str(name) for name in cluster.nodes[broker_id].disk.list("/data") if str(name).startswith(f"{TOPIC}-0")]


def _write(cluster: SimCluster, path: str, data: bytes) -> None:
    """What an operator does by mistake."""
    cluster.zookeeper.write(cluster.zookeeper.open_session(lambda: None), Set(path, data))


# ---------------------------------------------------------------------------------------------------- on its way out


async def deletion_while_a_replica_is_down() -> None:
    """A topic is deleted while F is down, so its deletion waits. When F is back it deletes its log as the others did,
    and keeps nothing of it under another name.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    cluster.kill(F)
    await cluster.until_in_sync(L, G)
    await cluster.client.delete_topic(C)
    assert topic_path(TOPIC) in cluster.zookeeper.nodes
    await cluster.boot(F)
    await cluster.until(lambda: topic_path(TOPIC) not in cluster.zookeeper.nodes)
    await cluster.wait(120)
    for each in (L, F, G):
        must(not _logs(cluster, each), f"broker {each} has kept {_logs(cluster, each)}")


# ----------------------------------------------------------------------------------------------------------- damaged


async def _damage(path: str) -> None:
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    good = cluster.zookeeper.nodes[path].data
    _write(cluster, path, b"{")
    cluster.depose_controller()
    await cluster.until(lambda: cluster.controller_id not in (None, C))
    deleted: list[Collection[str]] = []
    for each in (L, F, G):
        cluster.nodes[each].broker.metadata.on_topics_deleted = deleted.append
        cluster.expire(each)
    await cluster.wait(10)
    cluster.kill(F)
    await cluster.boot(F)
    await cluster.wait(1)
    for each in (L, F, G):
        must(_logs(cluster, each) == [f"{TOPIC}-0"], f"broker {each} has put its replica away: {_logs(cluster, each)}")
    must(not deleted, f"{deleted} counts as deleted")
    _write(cluster, path, good)
    if path != topic_path(TOPIC):
        # The nodes of states have one writer, and nobody watches them.
        cluster.depose_controller()
    await cluster.until_leads(L)
    await cluster.until_in_sync(L, F, G)
    await cluster.client.produce(L, b"m2")
    must_hold(cluster, L, b"m1", b"m2")
    await must_agree(cluster, L, F, G)


async def topic_that_makes_no_sense() -> None:
    """Somebody damages a topic's node, and the next controller cannot tell who its replicas are. Brokers that register
    anew are told all roles without those. Nothing may be put away for that, nor offsets of groups be forgotten: when
    the node is mended, all is as it was.
    """
    await _damage(topic_path(TOPIC))


async def state_that_makes_no_sense() -> None:
    """The same with the node that says who leads a partition."""
    await _damage(state_path(TOPIC, 0))


def what_is_not_named_is_not_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cluster, "kept_topics", lambda self: [])


def what_is_not_shown_is_deleted(patch: pytest.MonkeyPatch) -> None:
    update = Metadata.update

    def forgetting(self: Metadata, told: UpdateMetadataRequest) -> None:
        before = set(self.topics)
        update(self, told)
        if told.is_full and (gone := before - self.topics.keys()):
            self.on_topics_deleted(gone)

    patch.setattr(Metadata, "update", forgetting)


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    deletion_while_a_replica_is_down,
    topic_that_makes_no_sense,
    state_that_makes_no_sense,
]

MUTANTS: list[Any] = [
    (deletion_while_a_replica_is_down, what_is_not_named_is_not_there),
    (topic_that_makes_no_sense, what_is_not_named_is_not_there),
    (state_that_makes_no_sense, what_is_not_named_is_not_there),
    (topic_that_makes_no_sense, what_is_not_shown_is_deleted),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
