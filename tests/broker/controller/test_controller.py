"""The controller among brokers that do what it says, in memory and with a real ZooKeeper."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.zookeeper.coord import SessionState
from minikafka.broker.zookeeper.topic_nodes import NO_LEADER, TOPICS, StateNode, topic_path
from minikafka.protocol.control import LeaderAndIsrRequest
from tests.broker.controller.fakes import FakeCluster, running
from tests.broker.eventually import eventually
from tests.broker.zookeeper.worlds import Diary, World


@pytest.fixture
async def cluster(world: World) -> AsyncIterator[FakeCluster]:
    async with running(world, 3) as made:
        yield made


async def test_brokers_are_told_of_each_other(cluster: FakeCluster) -> None:
    for broker in cluster.brokers.values():
        assert list(broker.metadata.brokers) == [1, 2, 3]
        assert broker.metadata.controller_id == 1
        assert {each.broker_epoch for each in broker.metadata.brokers.values()} == {
            each.epoch for each in cluster.brokers.values()
        }


async def test_a_new_topic(cluster: FakeCluster) -> None:
    topic_id = await cluster[2].create("t", {0: [2, 3], 1: [3, 1]})
    for broker in cluster.brokers.values():
        await broker.until_led({("t", 0): 2, ("t", 1): 3})
        assert broker.metadata.topics["t"].topic_id == topic_id
    assert await cluster[1].state("t", 0) == StateNode(2, 0, (2, 3), 1)
    assert await cluster[1].state("t", 1) == StateNode(3, 0, (3, 1), 1)
    assert set(cluster[1].roles) == {("t", 1)}
    assert set(cluster[3].roles) == {("t", 0), ("t", 1)}
    assert all(each.is_new for each in cluster[3].roles.values())


async def test_leaders_serve_before_others_hear_of_them(cluster: FakeCluster) -> None:
    cluster[2].opened.clear()
    await cluster[1].create("t", {0: [2]})
    await eventually(lambda: cluster[1].task.controller.cluster.partition(("t", 0)))
    # A later topic is heard of first.
    await cluster[1].create("u", {0: [1]})
    await cluster[1].until_led({("u", 0): 1})
    assert cluster[1].leader("t") is None
    cluster[2].opened.set()
    await cluster[1].until_led({("t", 0): 2})
    assert ("t", 0) in cluster[2].roles


async def test_a_broker_dies(cluster: FakeCluster) -> None:
    await cluster[1].create("t", {0: [2, 3, 1], 1: [1, 2], 2: [2], 3: [3, 1]})
    await cluster[1].until_led({("t", 0): 2, ("t", 1): 1, ("t", 2): 2, ("t", 3): 3})
    await cluster[2].stop()
    for broker in (cluster[1], cluster[3]):
        await broker.until_led({("t", 0): 3, ("t", 1): 1, ("t", 2): NO_LEADER, ("t", 3): 3})
        assert list(broker.metadata.brokers) == [1, 3]
    assert await cluster[1].state("t", 0) == StateNode(3, 1, (3, 1), 1)
    assert await cluster[1].state("t", 1) == StateNode(1, 1, (1,), 1)
    assert await cluster[1].state("t", 2) == StateNode(NO_LEADER, 1, (2,), 1, last_leader=2)
    assert await cluster[1].state("t", 3) == StateNode(3, 0, (3, 1), 1)


async def test_a_dead_broker_comes_back(cluster: FakeCluster) -> None:
    await cluster[1].create("t", {0: [2], 1: [2, 1]})
    await cluster[1].until_led({("t", 0): 2, ("t", 1): 2})
    await cluster[2].stop()
    await cluster[1].until_led({("t", 0): NO_LEADER, ("t", 1): 1})
    again = await cluster.add(2)
    for broker in (cluster[1], cluster[3], again):
        await broker.until_led({("t", 0): 2, ("t", 1): 1})
    first = again.told[0]
    assert isinstance(first, LeaderAndIsrRequest) and first.is_full
    assert await cluster[1].state("t", 0) == StateNode(2, 2, (2,), 1)
    # It has to catch up before it is in sync again.
    assert await cluster[1].state("t", 1) == StateNode(1, 1, (1,), 1)


async def test_a_broker_bounces(cluster: FakeCluster) -> None:
    """Registered anew before anybody saw it go: another broker, as far as its partitions are concerned."""
    await cluster[1].create("t", {0: [2, 3], 1: [2]})
    await cluster[1].until_led({("t", 0): 2, ("t", 1): 2})
    epoch = cluster[2].epoch
    cluster[2].told.clear()
    await cluster.world.expire(cluster[2].coord)
    await cluster[2].coord.connected()
    await cluster[2].register()
    assert cluster[2].epoch > epoch
    await cluster[1].until_led({("t", 0): 3, ("t", 1): 2})
    assert await cluster[1].state("t", 1) == StateNode(2, 2, (2,), 1)
    await cluster[2].until_led({("t", 0): 3, ("t", 1): 2})
    full = next(each for each in cluster[2].told if isinstance(each, LeaderAndIsrRequest) and each.is_full)
    assert full.broker_epoch == cluster[2].epoch


async def test_a_broker_bounces_without_being_missed(cluster: FakeCluster) -> None:
    """Gone and back while the controller could not look: it is not the broker that it was."""
    await cluster[1].create("t", {0: [2, 3], 1: [2]})
    await cluster[1].until_led({("t", 0): 2, ("t", 1): 2})
    diary = Diary(cluster[1].coord)
    cluster.world.cut(cluster[1].coord)
    await diary.until(SessionState.SUSPENDED)
    await cluster.world.expire(cluster[2].coord)
    await cluster[2].coord.connected()
    await cluster[2].register()
    cluster.world.heal(cluster[1].coord)
    await cluster[2].until_led({("t", 0): 3, ("t", 1): 2})
    assert await cluster[3].state("t", 0) == StateNode(3, 1, (3,), 1)
    assert await cluster[3].state("t", 1) == StateNode(2, 2, (2,), 1)


async def test_partitions_are_added(cluster: FakeCluster) -> None:
    await cluster[1].create("t", {0: [1, 2]})
    await cluster[1].until_led({("t", 0): 1})
    await cluster[2].admin.add_partitions("t", 3, [[2, 3], [3, 1]])
    for broker in cluster.brokers.values():
        await broker.until_led({("t", 0): 1, ("t", 1): 2, ("t", 2): 3})
    assert await cluster[1].state("t", 2) == StateNode(3, 0, (3, 1), 1)


async def test_a_partition_without_a_live_replica_waits_for_one(cluster: FakeCluster) -> None:
    await cluster[1].create("t", {0: [4], 1: [1, 4]})
    await cluster[1].until_led({("t", 1): 1})
    assert cluster[1].leader("t", 0) is None
    assert await cluster[1].state("t", 1) == StateNode(1, 0, (1,), 1)
    await cluster.add(4)
    await cluster[1].until_led({("t", 0): 4, ("t", 1): 1})


async def test_a_topic_is_deleted(cluster: FakeCluster) -> None:
    await cluster[1].create("t", {0: [1, 2], 1: [2, 3]})
    await cluster[1].until_led({("t", 0): 1, ("t", 1): 2})
    await cluster[3].admin.request_deletion("t")
    await cluster[1].task.controller.wait_deleted("t")
    for path in (topic_path("t"), "/config/topics/t", "/admin/delete_topics/t"):
        assert await cluster[1].coord.exists(path) is None
    for broker in cluster.brokers.values():
        await broker.until_led({("t", 0): None, ("t", 1): None})
        assert not broker.roles
    assert cluster[2].stopped == {("t", 0): True, ("t", 1): True}


async def test_a_topic_is_made_anew(cluster: FakeCluster) -> None:
    first = await cluster[1].create("t", {0: [1, 2], 1: [2, 3]})
    await cluster[1].until_led({("t", 0): 1, ("t", 1): 2})
    await cluster[1].admin.request_deletion("t")
    await cluster[1].task.controller.wait_deleted("t")
    second = await cluster[1].create("t", {0: [3]})
    assert first != second
    for broker in cluster.brokers.values():
        await broker.until_led({("t", 0): 3, ("t", 1): None})
        assert broker.metadata.topics["t"].topic_id == second
    assert cluster[3].roles[("t", 0)].topic_id == second


async def test_deletion_waits_for_a_broker_that_is_down(cluster: FakeCluster) -> None:
    await cluster[1].create("t", {0: [1, 2]})
    await cluster[1].until_led({("t", 0): 1})
    await cluster[2].stop()
    await cluster[1].until(lambda: list(cluster[1].metadata.brokers) == [1, 3])
    await cluster[1].admin.request_deletion("t")
    await cluster[1].task.controller.wait_deleted("t")
    # Hidden, and still there.
    await cluster[1].until(lambda: "t" not in cluster[1].metadata.topics)
    assert await cluster[1].coord.exists(topic_path("t")) is not None
    assert not cluster[1].stopped
    # Nothing is decided about it any more, and nobody is told of it.
    state = await cluster[1].state("t")
    late = await cluster.add(4)
    await late.until_met(3)
    assert "t" not in late.metadata.topics
    assert await cluster[1].state("t") == state
    await cluster[1].admin.request_deletion("t")
    again = await cluster.add(2)
    await eventually(lambda: "t" not in cluster[1].task.controller.cluster.topics)
    assert await cluster[1].coord.children(TOPICS) == []
    assert again.stopped == {("t", 0): True}


async def test_deletion_can_be_forbidden(world: World) -> None:
    async with running(world, 1, {"delete.topic.enable": "false"}) as cluster:
        await cluster[1].create("t", {0: [1]})
        await cluster[1].until_led({("t", 0): 1})
        await cluster[1].admin.request_deletion("t")
        await cluster[1].until_gone("/admin/delete_topics/t")
        assert cluster[1].leader("t") == 1


async def test_a_request_to_delete_what_is_not_there(cluster: FakeCluster) -> None:
    await cluster[1].admin.request_deletion("never")
    await cluster[1].until_gone("/admin/delete_topics/never")


async def test_what_is_no_topic_is_passed_over(cluster: FakeCluster) -> None:
    await cluster[1].coord.create(f"{TOPICS}/..%2f..%2fetc", b"{}")
    await cluster[1].coord.create(topic_path("broken"), b"{")
    await cluster[1].create("t", {0: [1]})
    await cluster[1].until_led({("t", 0): 1})
    assert list(cluster[1].task.controller.cluster.topics) == ["t"]


async def test_a_broker_changes_its_address(cluster: FakeCluster) -> None:
    node, _ = await cluster[3].coord.get("/brokers/ids/3")
    await cluster[3].coord.set("/brokers/ids/3", node.replace(b"127.0.0.1", b"localhost"))
    await cluster[1].until(lambda: cluster[1].metadata.brokers[3].endpoints[0].host == "localhost")
    assert cluster[1].metadata.brokers[3].broker_epoch == cluster[3].epoch
