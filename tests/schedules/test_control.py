"""Schedules about a controller that is none any more, or does not know what it has written.

L is the leader, F and G follow. Broker C has no replica: it is the controller.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from minikafka.broker.controller import writer
from minikafka.broker.handlers import control
from minikafka.broker.replicas import partitions
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.zookeeper.coord import Coord, Op, OpResult, Set
from minikafka.broker.zookeeper.election import Controllership
from minikafka.broker.zookeeper.topic_nodes import state_path
from minikafka.protocol.control import StoppedPartition, StopReplicaRequest, StopReplicaResponse
from minikafka.protocol.errors import ErrorCode
from tests.schedules.stage import must, must_agree, must_fail, must_hold, play
from tests.sim.client import TOPIC, host_of
from tests.sim.cluster import SimCluster

L, F, G, C = 1, 2, 3, 4

# ------------------------------------------------------------------------------- 19: a controller that is none any more


async def roles_of_a_controller_that_is_none() -> None:
    """C tells L that it leads, which takes long to arrive; then C is stopped, and another controller makes G the
    leader. When L hears what C had to say, that must not count any more; nor what C does when it goes on.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    cluster.network.cut(host_of(C), host_of(L), "controller")
    cluster.kill(F)
    await cluster.until(lambda: cluster.state().leader_epoch == 1)
    cluster.pause(C)
    await cluster.until(lambda: cluster.controller_id not in (None, C))
    await cluster.until(lambda: cluster.partition(L).leader_epoch == 1)
    cluster.expire(L)
    await cluster.until_leads(G)
    await cluster.until(lambda: cluster.partition(L).leader_epoch == cluster.state().leader_epoch)
    cluster.network.heal_all()
    await cluster.wait(0.1)
    must(not cluster.leads(L), "a controller of an earlier epoch was heard")
    cluster.resume(C)
    await cluster.until_in_sync(L, G)
    await cluster.client.produce(G, b"m1")
    must(cluster.controller_id != C and not cluster.nodes[C].broker.is_controller, "there are two controllers")


async def metadata_of_a_controller_that_is_none() -> None:
    """C has written that F leads, of which G hears late. Meanwhile another controller has made L the leader. What G
    hears of C then must not replace what it knows, or G would send its clients to a broker that does not lead.
    """
    cluster = await SimCluster.start(4, {"min.insync.replicas": "1"})
    await cluster.create_topic([(L, F)])
    cluster.network.cut(host_of(C), host_of(G), "controller")
    cluster.kill(L)
    await cluster.until_leads(F)
    await cluster.wait(1)
    cluster.depose_controller()
    await cluster.until(lambda: cluster.controller_id not in (None, C))
    await cluster.boot(L)
    await cluster.until_in_sync(L, F)
    cluster.kill(F)
    await cluster.until_leads(L)
    await cluster.until(lambda: _known_leader(cluster, G) == L)
    cluster.network.heal_all()
    await cluster.wait(1)
    must(_known_leader(cluster, G) == L, "metadata of a controller of an earlier epoch was accepted")


def _known_leader(cluster: SimCluster, broker_id: int) -> int:
    partition = cluster.nodes[broker_id].broker.metadata.partition(TOPIC, 0)
    return -1 if partition is None else partition.leader


def whoever_says_it_is_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(control._ControlHandler, "_fence", lambda *_: ErrorCode.NONE)
    patch.setattr(partitions, "_is_news", lambda *_: True)


async def write_of_a_controller_that_is_none() -> None:
    """C writes that F is gone, and that takes long to arrive at ZooKeeper. Meanwhile somebody deposes C, another
    controller is elected, F is back and L gone. What arrives then must not be written, though it is of a live session.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    coord = cluster.nodes[C].coord
    assert coord is not None
    coord.hold("multi", state_path(TOPIC, 0))
    cluster.kill(F)
    await cluster.until(lambda: coord.held)
    cluster.depose_controller()
    await cluster.until(lambda: cluster.controller_id not in (None, C))
    await cluster.boot(F)
    await cluster.until_in_sync(L, F, G)
    cluster.kill(L)
    await cluster.until_leads(F)
    await cluster.client.produce(F, b"m1")
    coord.release()
    await cluster.wait(2)
    must(cluster.state().controller_epoch > 1, "a controller of an earlier epoch has written")
    must_hold(cluster, cluster.state().leader, b"m1")


def writes_are_unconditional(patch: pytest.MonkeyPatch) -> None:
    async def write_fenced(coord: Coord, held: Controllership, *ops: Op) -> tuple[OpResult, ...]:
        return await coord.multi(*(Set(each.path, each.data) if isinstance(each, Set) else each for each in ops))

    patch.setattr(writer, "write_fenced", write_fenced)


async def _election_of_which_the_answer_is_lost(*, is_written: bool) -> None:
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    coord = cluster.nodes[C].coord
    assert coord is not None
    coord.lose_answer("multi", path=state_path(TOPIC, 0), done=is_written)
    cluster.kill(L)
    await cluster.until_leads(F)
    must(cluster.partition(F).leader_epoch == cluster.state().leader_epoch == 1, "an epoch was given twice")
    await cluster.client.produce(F, b"m2")
    await must_agree(cluster, F, G)


async def election_that_was_written_unheard() -> None:
    """8: the controller writes who leads, and does not hear whether it is written. It was: that is found by reading."""
    await _election_of_which_the_answer_is_lost(is_written=True)


async def election_that_was_not_written() -> None:
    """8: the controller writes who leads, and does not hear whether it is written. It was not: it writes again."""
    await _election_of_which_the_answer_is_lost(is_written=False)


async def deletion_of_another_topic() -> None:
    """The topic is deleted, and made again under the same name. Then F hears once more that it is to be deleted, of the
    same controller and as the broker it is. But that was about another topic: this one has m1, which L and G lose.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    old = cluster.partition(F)
    await cluster.client.delete_topic(C)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    stopped = StoppedPartition(topic=TOPIC, partition=0, leader_epoch=0, delete=True, topic_id=old.topic_id)
    request = StopReplicaRequest(
        controller_id=C, controller_epoch=1, broker_epoch=cluster.broker_epoch(F), partitions=[stopped]
    )
    answer = await cluster.client.ask_control(F, request, StopReplicaResponse)
    assert (answer.error_code, answer.errors) == (0, [])
    for each in (L, G):
        cluster.kill(each, power=True)
    await cluster.until_leads(F)
    must_hold(cluster, F, b"m1")


def names_are_enough_to_delete(patch: pytest.MonkeyPatch) -> None:
    stop = Partitions._stop_one

    async def stop_one(self: Partitions, stopped: StoppedPartition) -> ErrorCode:
        return await stop(self, replace(stopped, topic_id=b""))

    patch.setattr(Partitions, "_stop_one", stop_one)


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    roles_of_a_controller_that_is_none,
    metadata_of_a_controller_that_is_none,
    write_of_a_controller_that_is_none,
    election_that_was_written_unheard,
    election_that_was_not_written,
    deletion_of_another_topic,
]

MUTANTS: list[Any] = [
    (roles_of_a_controller_that_is_none, whoever_says_it_is_heard),
    (metadata_of_a_controller_that_is_none, whoever_says_it_is_heard),
    (write_of_a_controller_that_is_none, writes_are_unconditional),
    (deletion_of_another_topic, names_are_enough_to_delete),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
