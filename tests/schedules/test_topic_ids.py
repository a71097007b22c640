"""Schedules about topics that are deleted and made again under their name: what was committed for one of them does not
count for the other. C coordinates the group, and has no replica of the topic.
"""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.broker.coordinators.groups.offsets import Commit
from minikafka.broker.metadata import Metadata
from tests.schedules.stage import must, must_fail, play
from tests.sim.client import host_of
from tests.sim.cluster import SimCluster
from tests.sim.group_client import COORDINATORS, GroupClient

BROKERS = (1, 2, 3, 4, 5)


async def _committed(offset: int | None) -> tuple[SimCluster, GroupClient, tuple[int, ...]]:
    """A topic beside the replicas of `__consumer_offsets`, and a group that has committed an offset of it."""
    cluster = await SimCluster.start(5, COORDINATORS)
    client = GroupClient(cluster)
    await client.start()
    replicas = tuple(set(BROKERS) - set(client.replicas()))
    await cluster.create_topic((replicas,))
    await cluster.wait(1)
    if offset is not None:
        await client.commit(offset)
    return cluster, client, replicas


async def _make_again(cluster: SimCluster, replicas: tuple[int, ...]) -> None:
    controller = cluster.controller_id
    assert controller is not None
    await cluster.client.delete_topic(controller)
    await cluster.client.create_topic(controller, (replicas,), {})


async def _must_be_new(cluster: SimCluster, client: GroupClient) -> None:
    await cluster.wait(5)
    must(await client.fetch() == -1, "an offset of a deleted topic counts for the next of its name")
    await client.commit(3)
    must(await client.fetch() == 3, "an offset of the topic itself does not count")
    cluster.kill(client.coordinator())
    await cluster.until(client.is_coordinated)
    must(await client.fetch() == 3, "an offset of the topic itself is not loaded")


async def topic_made_again() -> None:
    """The coordinator hears of the deletion, and then of the new topic."""
    cluster, client, replicas = await _committed(5)
    await _make_again(cluster, replicas)
    await _must_be_new(cluster, client)


async def topic_made_again_in_one_message() -> None:
    """The controller does not reach the coordinator for a moment, and then speaks of both in one message."""
    cluster, client, replicas = await _committed(5)
    controller, coordinator = cluster.controller_id, client.coordinator()
    assert controller is not None
    if coordinator == controller:
        cluster.depose_controller()
        await cluster.until(lambda: cluster.controller_id not in (None, coordinator))
        controller = cluster.controller_id
        assert controller is not None
        await cluster.wait(1)
    cluster.network.cut(host_of(controller), host_of(coordinator), "controller")
    await cluster.client.create_topic(controller, (replicas,), {}, "another")
    await _make_again(cluster, replicas)
    await cluster.wait(0.5)
    cluster.network.heal_all()
    await _must_be_new(cluster, client)


async def topic_made_again_while_nobody_coordinates() -> None:
    """All replicas of `__consumer_offsets` are down, and none of them hears of the deletion."""
    cluster, client, replicas = await _committed(5)
    absent = client.replicas()
    for broker_id in absent:
        cluster.kill(broker_id)
    await cluster.until(lambda: cluster.controller_id in replicas)
    await cluster.wait(8)
    await _make_again(cluster, replicas)
    for broker_id in absent:
        await cluster.boot(broker_id)
    await cluster.until(client.is_coordinated)
    await _must_be_new(cluster, client)


async def topic_made_again_before_the_end_of_a_transaction() -> None:
    """An offset is committed within a transaction, which ends when the topic is another."""
    cluster, client, replicas = await _committed(None)
    producer = await client.init_producer()
    await client.commit_within(producer, 7)
    await _make_again(cluster, replicas)
    await cluster.wait(1)
    await client.end(producer)
    await _must_be_new(cluster, client)


# --------------------------------------------------------------------------------------------------- rules switched off


def names_decide(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Commit, "is_of", lambda self, topic_id: True)


def deletions_are_not_heard(patch: pytest.MonkeyPatch) -> None:
    update = Metadata.update

    def update_quietly(self: Metadata, told: Any) -> None:
        self.on_topics_deleted = lambda topics: None
        update(self, told)

    patch.setattr(Metadata, "update", update_quietly)


def names_decide_and_deletions_are_not_heard(patch: pytest.MonkeyPatch) -> None:
    names_decide(patch)
    deletions_are_not_heard(patch)


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    topic_made_again,
    topic_made_again_in_one_message,
    topic_made_again_while_nobody_coordinates,
    topic_made_again_before_the_end_of_a_transaction,
]

MUTANTS: list[Any] = [
    (topic_made_again, names_decide_and_deletions_are_not_heard),
    (topic_made_again_in_one_message, names_decide_and_deletions_are_not_heard),
    (topic_made_again_while_nobody_coordinates, names_decide),
    (topic_made_again_before_the_end_of_a_transaction, names_decide),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize("story", STORIES)
def test_schedule_needs_no_notification(story: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    deletions_are_not_heard(monkeypatch)
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
