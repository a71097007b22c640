"""Schedules about replicas that move while a controller dies, or while a broker hears of it late.

L leads, and moves lose or gain followers. The controller has no replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from minikafka.broker.controller.reassignment import Reassignments
from minikafka.broker.controller.state import Topic
from minikafka.broker.controller.writer import Move, Writer
from minikafka.broker.zookeeper.coord import Set
from minikafka.broker.zookeeper.topic_nodes import Assignment, TopicNode, state_path, topic_path
from minikafka.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.schedules.stage import Attempt, must, must_agree, must_fail, must_hold, play
from tests.sim.client import TOPIC, host_of
from tests.sim.cluster import NotSo, SimCluster

L, F, G, C, D = 1, 2, 3, 4, 5


def _node(cluster: SimCluster) -> TopicNode:
    path = topic_path(TOPIC)
    return TopicNode.decode(path, cluster.zookeeper.nodes[path].data)


async def _reassign(cluster: SimCluster, controller_id: int, *target: int) -> int:
    partition = ReassignablePartition(partition_index=0, replicas=list(target))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=60_000, topics=[ReassignableTopic(name=TOPIC, partitions=[partition])]
    )
    return int((await cluster.client.ask(controller_id, request, 0)).error_code)


async def _until_moved(cluster: SimCluster, *replicas: int) -> None:
    try:
        await cluster.until(lambda: _node(cluster).partitions[0] == Assignment(replicas), 120)
        # A batch that is appended before the leader hears of its last epoch is refused, and sent again by a client.
        await cluster.until(lambda: cluster.partition(L).leader_epoch == cluster.state().leader_epoch)
    except NotSo:
        must(False, f"the reassignment is stuck: {_node(cluster)}, {cluster.state()}")


async def controller_dies_in_a_reassignment() -> None:
    """The controller D moves F's replica to G, and dies while it writes that. The next one finds all of it or nothing,
    and when the same is wanted again it is done.
    """
    cluster = await SimCluster.start(5)
    await cluster.create_topic([(L, F)])
    await cluster.client.produce(L, b"m1")
    coord = cluster.nodes[D].coord
    assert coord is not None
    coord.hold("multi", state_path(TOPIC, 0))
    asked = Attempt(_reassign(cluster, D, L, G))
    await cluster.until(lambda: coord.held)
    cluster.kill(D)
    await cluster.until(lambda: cluster.controller_id not in (None, D) and asked.is_over)
    await cluster.wait(1)
    must(
        _node(cluster).partitions[0].is_reassigned == (cluster.state().leader_epoch > 0),
        "there are other replicas under the same epoch",
    )
    assert cluster.controller_id is not None
    await _reassign(cluster, cluster.controller_id, L, G)
    await _until_moved(cluster, L, G)
    await cluster.client.produce(L, b"m2")
    await must_agree(cluster, L, G)


async def reassignment_that_an_older_version_left() -> None:
    """The same as an older version left it: the topic's node has the replica on G, the state has the epoch from before.
    The next controller goes on, and L has to hear of G.
    """
    cluster = await SimCluster.start(5)
    await cluster.create_topic([(L, F)])
    await cluster.client.produce(L, b"m1")
    cluster.kill(D)
    node = _node(cluster)._replace(partitions={0: Assignment((L, G, F), adding=(G,), removing=(F,))})
    session_id = cluster.zookeeper.open_session(lambda: None)
    cluster.zookeeper.write(session_id, Set(topic_path(TOPIC), node.encode()))
    await cluster.until(lambda: cluster.controller_id not in (None, D))
    await _until_moved(cluster, L, G)
    await cluster.client.produce(L, b"m2")
    await must_agree(cluster, L, G)


async def leader_hears_of_a_reassignment_half_way(*, is_answer_lost: bool = False) -> None:
    """F and G are removed, and L is given its role just while that is written. It must not hear of the new epoch with
    the old replicas: it would count them for good, and two of three would be too few in sync for ever.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    cluster.network.cut(host_of(L), host_of(C), "controller")
    node = cluster.nodes[C]
    assert node.coord is not None and node.broker._controller is not None
    node.process.run(node.broker._controller.controller._channels.tell_metadata)
    await cluster.wait(0.1)
    asked = Attempt(_reassign(cluster, C, L))
    await cluster.until(lambda: _node(cluster).partitions[0].is_reassigned and cluster.state().leader_epoch == 1)
    if is_answer_lost:
        node.coord.lose_answer("multi", path=topic_path(TOPIC), done=True)
        await cluster.until(lambda: cluster.state().leader_epoch == 2)
    else:
        node.coord.hold("multi", topic_path(TOPIC))
        await cluster.until(lambda: node.coord is not None and node.coord.held)
    await cluster.wait(0.1)
    cluster.network.heal_all()
    await cluster.wait(0.2)
    node.coord.release()
    await cluster.until(lambda: asked.is_over)
    await _until_moved(cluster, L)
    await cluster.wait(1)
    must(cluster.partition(L).replicas == (L,), f"the leader has replicas {cluster.partition(L).replicas}")
    await cluster.client.produce(L, b"m2")
    must_hold(cluster, L, b"m1", b"m2")


async def leader_hears_of_a_reassignment_whose_answer_was_lost() -> None:
    """The same when the controller does not know whether it was written, and reads what stands there."""
    await leader_hears_of_a_reassignment_half_way(is_answer_lost=True)


def replicas_are_written_before_the_epoch(patch: pytest.MonkeyPatch) -> None:
    async def write_moves(self: Writer, topic: Topic, moves: Sequence[Move]) -> bool:
        """The replicas first, and the states after them."""
        plans = {each.partition.index: each.assignment for each in moves}
        node = TopicNode(topic.topic_id, {**topic.node.partitions, **plans})
        await self.write(Set(topic_path(topic.name), node.encode(), topic.version))
        topic.version += 1
        for each in moves:
            each.partition.assignment = each.assignment
        return await self._set_states([(each.partition, each.state) for each in moves])

    patch.setattr(Writer, "write_moves", write_moves)
    patch.setattr(Reassignments, "resume", _nothing)


def epoch_is_written_before_the_replicas(patch: pytest.MonkeyPatch) -> None:
    async def write_moves(self: Writer, topic: Topic, moves: Sequence[Move]) -> bool:
        await self._set_states([(each.partition, each.state) for each in moves])
        plans = {each.partition.index: each.assignment for each in moves}
        node = TopicNode(topic.topic_id, {**topic.node.partitions, **plans})
        await self.write(Set(topic_path(topic.name), node.encode(), topic.version))
        topic.version += 1
        for each in moves:
            each.partition.assignment = each.assignment
        return True

    patch.setattr(Writer, "write_moves", write_moves)


def states_are_taken_over_one_by_one(patch: pytest.MonkeyPatch) -> None:
    read_states = Writer.read_states

    async def read_and_adopt(self: Writer, partitions: Any) -> Any:
        found = await read_states(self, partitions)
        for partition, (state, version, zxid) in found:
            partition.state, partition.version, partition.zxid = state, version, zxid
        await asyncio.sleep(1)
        return found

    patch.setattr(Writer, "read_states", read_and_adopt)


def half_a_reassignment_is_left_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reassignments, "resume", _nothing)


async def _nothing(_: Reassignments) -> None:
    """What was begun is not looked at."""


STORIES: list[Any] = [
    controller_dies_in_a_reassignment,
    reassignment_that_an_older_version_left,
    leader_hears_of_a_reassignment_half_way,
    leader_hears_of_a_reassignment_whose_answer_was_lost,
]

MUTANTS: list[Any] = [
    (controller_dies_in_a_reassignment, replicas_are_written_before_the_epoch),
    (reassignment_that_an_older_version_left, half_a_reassignment_is_left_alone),
    (leader_hears_of_a_reassignment_half_way, epoch_is_written_before_the_replicas),
    (leader_hears_of_a_reassignment_whose_answer_was_lost, states_are_taken_over_one_by_one),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
