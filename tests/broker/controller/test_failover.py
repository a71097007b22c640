"""One controller after the other, and what goes wrong with its session: nothing is lost, nothing is done twice."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.controller.state import Cluster, Partition
from minikafka.broker.controller.writer import Writer
from minikafka.broker.zookeeper.coord import Create, SessionState
from minikafka.broker.zookeeper.election import ControllerFenced, Controllership, elect
from minikafka.broker.zookeeper.topic_nodes import (
    NO_LEADER,
    TOPICS,
    StateNode,
    TopicNode,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)
from minikafka.broker.zookeeper.znodes import CONTROLLER
from minikafka.protocol.errors import ErrorCode, NotControllerError
from tests.broker.controller.fakes import FakeBroker, FakeCluster, running
from tests.broker.eventually import eventually
from tests.broker.zookeeper.worlds import Diary, MemoryWorld, World

losses = pytest.mark.parametrize(("skip", "done"), [(skip, done) for skip in range(8) for done in (True, False)])


@pytest.fixture
async def cluster(world: World) -> AsyncIterator[FakeCluster]:
    async with running(world, 3) as made:
        yield made


async def is_consistent(broker: FakeBroker, topic: str) -> bool:
    """Whether the controller knows just what stands in ZooKeeper."""
    for partition in broker.task.controller.cluster.topics[topic].partitions.values():
        path = state_path(*partition.name)
        data, stat = await broker.read(path)
        if (partition.state, partition.version) != (StateNode.decode(path, data), stat.version):
            return False
    return True


async def test_the_controller_dies(cluster: FakeCluster) -> None:
    await cluster[1].create("t", {0: [1, 2], 1: [2, 3], 2: [3, 1]})
    await cluster[3].until_led({("t", 0): 1, ("t", 1): 2, ("t", 2): 3})
    await cluster[1].stop()
    for broker in (cluster[2], cluster[3]):
        await broker.until_led({("t", 0): 2, ("t", 1): 2, ("t", 2): 3})
        assert broker.metadata.controller_epoch == 2
    assert await cluster[2].state("t", 0) == StateNode(2, 1, (2,), 2)
    assert await cluster[2].state("t", 1) == StateNode(2, 0, (2, 3), 1)
    assert sum(each.task.is_active for each in cluster.brokers.values()) == 1


async def test_the_node_of_a_controllers_last_session_is_not_waited_for() -> None:
    """ZooKeeper was known to remove the nodes of a session late, when all of it was away."""
    async with MemoryWorld() as world, running(world, 2) as cluster:
        assert cluster[1].task.is_active
        ghost, above = world.server.nodes[CONTROLLER], world.server.nodes["/"]
        await world.expire(cluster[1].coord)
        world.server.nodes.update({CONTROLLER: ghost, "/": above})
        await eventually(lambda: not cluster[1].task.is_active and cluster[2].task.is_active)
        assert cluster[2].task.controller.epoch == 2


async def test_a_topic_made_without_a_controller(world: World) -> None:
    cluster = FakeCluster(world)
    try:
        broker = await cluster.add(1, stands=False)
        await broker.create("t", {0: [1], 1: [1]})
        assert await broker.coord.children(topic_path("t")) == []
        broker.stand()
        await broker.until_led({("t", 0): 1, ("t", 1): 1})
    finally:
        await cluster.close()


@pytest.mark.parametrize("made", range(4))
async def test_a_creation_half_done(world: World, made: int) -> None:
    """By a controller that makes one node after the other, as Kafka does, and died on the way."""
    cluster = FakeCluster(world)
    try:
        broker = await cluster.add(1, stands=False)
        await broker.create("t", {0: [1, 2], 1: [1, 2]})
        old = StateNode(1, 7, (1,), 3)
        ops = [
            Create(partitions_path("t")),
            Create(partition_path("t", 0)),
            Create(state_path("t", 0), old.encode()),
        ]
        for op in ops[:made]:
            await broker.coord.create(op.path, op.data)
        broker.stand()
        await broker.until_led({("t", 0): 1, ("t", 1): 1})
        assert await broker.state("t", 0) == (old if made == 3 else StateNode(1, 0, (1,), 1))
        assert await broker.state("t", 1) == StateNode(1, 0, (1,), 1)
        assert await is_consistent(broker, "t")
    finally:
        await cluster.close()


@pytest.mark.parametrize("removed", range(4))
async def test_a_deletion_half_done(world: World, removed: int) -> None:
    cluster = FakeCluster(world)
    try:
        broker = await cluster.add(1)
        await broker.create("t", {0: [1], 1: [1]})
        await broker.until_led({("t", 0): 1, ("t", 1): 1})
        await broker.stop()
        broker = await cluster.add(2, stands=False)
        await broker.admin.request_deletion("t")
        for path in [state_path("t", 1), partition_path("t", 1), state_path("t", 0)][:removed]:
            await broker.coord.delete(path)
        broker.stand()
        await broker.until(lambda: broker.metadata.is_known)
        # The replicas are of broker 1.
        assert broker.leader("t") is None
        await cluster.add(1)
        await broker.until_gone("/admin/delete_topics/t")
        assert await broker.coord.children(TOPICS) == []
    finally:
        await cluster.close()


@losses
async def test_a_creation_with_an_answer_lost(world: World, skip: int, done: bool) -> None:
    async with running(world, 2) as cluster:
        world.lose_answer(cluster[1].coord, skip, done=done)
        await cluster[2].create("t", {0: [1, 2], 1: [2, 1]})
        for broker in cluster.brokers.values():
            await broker.until_led({("t", 0): 1, ("t", 1): 2})
        assert await cluster[2].state("t", 0) == StateNode(1, 0, (1, 2), 1)
        assert await is_consistent(cluster[1], "t")


@losses
async def test_an_election_with_an_answer_lost(world: World, skip: int, done: bool) -> None:
    async with running(world, 2) as cluster:
        await cluster[2].create("t", {0: [2, 1], 1: [2]})
        await cluster[1].until_led({("t", 0): 2, ("t", 1): 2})
        world.lose_answer(cluster[1].coord, skip, done=done)
        await cluster[2].stop()
        await cluster[1].until_led({("t", 0): 1, ("t", 1): NO_LEADER})
        assert await cluster[1].state("t", 0) == StateNode(1, 1, (1,), 1)
        assert await is_consistent(cluster[1], "t")


@losses
async def test_a_deletion_with_an_answer_lost(world: World, skip: int, done: bool) -> None:
    async with running(world, 2) as cluster:
        await cluster[2].create("t", {0: [2, 1], 1: [2]})
        await cluster[2].until_led({("t", 0): 2, ("t", 1): 2})
        world.lose_answer(cluster[1].coord, skip, done=done)
        await cluster[2].admin.request_deletion("t")
        await cluster[2].until_gone("/admin/delete_topics/t")
        assert await cluster[2].coord.children(TOPICS) == []
        assert await cluster[2].coord.exists("/config/topics/t") is None


async def test_nothing_is_decided_without_a_connection(cluster: FakeCluster) -> None:
    await cluster[1].create("t", {0: [3, 1]})
    await cluster[1].until_led({("t", 0): 3})
    diary = Diary(cluster[1].coord)
    cluster.world.cut(cluster[1].coord)
    await diary.until(SessionState.SUSPENDED)
    await cluster[3].stop()
    await cluster[2].until_gone("/brokers/ids/3")
    assert (await cluster[2].state("t")).leader == 3
    assert cluster[1].leader("t") == 3
    cluster.world.heal(cluster[1].coord)
    await cluster[1].until_led({("t", 0): 1})
    assert cluster[1].metadata.controller_epoch == 1


async def test_a_session_that_expires(cluster: FakeCluster) -> None:
    """The old controller stops deciding, and becomes a broker like others when it has registered again."""
    await cluster[1].create("t", {0: [1, 2]})
    await cluster[2].until_led({("t", 0): 1})
    old = cluster[1].task.controller
    await cluster.world.expire(cluster[1].coord)
    await cluster[2].until_led({("t", 0): 2})
    await eventually(lambda: not cluster[1].task.is_active)
    with pytest.raises(NotControllerError):
        await old.wait_deleted("t")
    await cluster[1].register()
    await cluster[1].until_led({("t", 0): 2})
    assert cluster[1].metadata.controller_id in (2, 3)


async def test_only_a_broker_that_others_know_of_is_elected(cluster: FakeCluster) -> None:
    """The registration of broker 1 goes with its session; until it is there again, it does not stand."""
    for broker_id in (2, 3):
        await cluster[broker_id].stop()
    # What is under way to itself would make it believe that it still is the controller.
    await cluster[1].until(lambda: list(cluster[1].metadata.brokers) == [1])
    diary = Diary(cluster[1].coord)
    await cluster.world.expire(cluster[1].coord)
    await diary.until(SessionState.LOST)
    await cluster[1].coord.connected()
    await cluster[1].until(lambda: cluster[1].metadata.controller_id is None)
    other = await cluster.world.open()
    for _ in range(50):
        assert await other.exists(CONTROLLER) is None
    await cluster[1].register()
    await cluster[1].until(lambda: cluster[1].metadata.controller_epoch == 2)


async def test_a_task_that_is_started_again(cluster: FakeCluster) -> None:
    """In the same session: it is the controller still, and has to do the work."""
    await cluster[1].sit_down()
    cluster[1].stand()
    await cluster[2].create("t", {0: [3]})
    await cluster[2].until_led({("t", 0): 3})
    assert cluster[1].task.is_active and cluster[1].task.controller.epoch == 1


async def test_an_operator_removes_the_controller(cluster: FakeCluster) -> None:
    await cluster[2].coord.delete(CONTROLLER)
    await cluster[2].until(lambda: cluster[2].metadata.controller_epoch == 2)
    assert sum(each.task.is_active for each in cluster.brokers.values()) == 1


async def test_a_broker_that_knows_a_newer_controller(cluster: FakeCluster) -> None:
    """It is believed: another election settles it."""
    cluster[2].refusal = ErrorCode.STALE_CONTROLLER_EPOCH
    await cluster[1].create("t", {0: [2]})
    await cluster[3].until(lambda: cluster[3].metadata.controller_epoch == 2)


async def test_a_deposed_controller_changes_nothing(world: World) -> None:
    coord, other = await world.open(), await world.open()
    cluster = FakeCluster(world)
    try:
        broker = await cluster.add(1, stands=False)
        await broker.create("t", {0: [1]})
        old = await elect(coord, 7, 1)
        assert old is not None
        await coord.delete(CONTROLLER)
        new = await elect(other, 8, 1)
        assert new == Controllership(2, 2)
        partition = await adopted(broker, "t")
        for writer in (Writer(coord, old), Writer(other, old)):
            with pytest.raises(ControllerFenced):
                await writer.create_states([(partition, StateNode(1, 0, (1,), 1))])
            with pytest.raises(ControllerFenced):
                await writer.delete_tree(topic_path("t"))
        assert await coord.children(topic_path("t")) == []
        await Writer(other, new).create_states([(partition, StateNode(1, 0, (1,), 2))])
        with pytest.raises(ControllerFenced):
            await Writer(coord, old).write_states([(partition, StateNode(1, 1, (1,), 1))])
        assert (await broker.state("t")).controller_epoch == 2
    finally:
        await cluster.close()


async def adopted(broker: FakeBroker, topic: str) -> Partition:
    data, stat = await broker.coord.get(topic_path(topic))
    cluster = Cluster()
    cluster.put_topic(topic, TopicNode.decode(topic_path(topic), data), stat.version)
    return cluster.topics[topic].partitions[0]
