"""Replicas are moved: in steps that any controller can go on with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from minikafka.broker.controller.reassignment import reassigned
from minikafka.broker.controller.state import Partition
from minikafka.broker.zookeeper import coord
from minikafka.broker.zookeeper.topic_nodes import Assignment, StateNode, TopicNode, topic_path
from minikafka.protocol.control import AlterPartitionRequest, IsrMember, ProposedPartition
from minikafka.protocol.errors import (
    InvalidReplicaAssignmentError,
    KafkaError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from tests.broker.controller.fakes import FakeBroker, FakeCluster, running
from tests.broker.eventually import eventually
from tests.broker.zookeeper.worlds import World


@pytest.mark.parametrize(
    ("now", "target", "expected"),
    [
        (Assignment((1, 2)), (3, 4), Assignment((3, 4, 1, 2), (3, 4), (1, 2))),
        (Assignment((1, 2)), (2, 3), Assignment((2, 3, 1), (3,), (1,))),
        (Assignment((1, 2)), (2, 1), Assignment((2, 1))),
        (Assignment((1,)), (1, 2, 3), Assignment((1, 2, 3), (2, 3))),
        (Assignment((1, 2, 3)), (2,), Assignment((2, 1, 3), (), (1, 3))),
        # Another one while the first is under way: what it was going to add is not of the origin.
        (Assignment((3, 4, 1, 2), (3, 4), (1, 2)), (3, 5), Assignment((3, 5, 1, 2), (3, 5), (1, 2))),
        # And back.
        (Assignment((3, 4, 1, 2), (3, 4), (1, 2)), (1, 2), Assignment((1, 2))),
    ],
)
def test_plans(now: Assignment, target: Sequence[int], expected: Assignment) -> None:
    assert reassigned(now, target) == expected


@pytest.fixture
async def cluster(world: World) -> AsyncIterator[FakeCluster]:
    async with running(world, 4) as made:
        await made[1].create("t", {0: [1, 2], 1: [2, 3]})
        for broker in made.brokers.values():
            await broker.until_led({("t", 0): 1, ("t", 1): 2})
        yield made


def controller_of(cluster: FakeCluster) -> FakeBroker:
    (found,) = [each for each in cluster.brokers.values() if each.task.is_active]
    return found


def known(cluster: FakeCluster, index: int) -> Partition:
    found = controller_of(cluster).task.controller.cluster.partition(("t", index))
    assert found is not None
    return found


async def move(cluster: FakeCluster, index: int, target: Sequence[int] | None) -> KafkaError | None:
    name = ("t", index)
    return (await controller_of(cluster).task.controller.reassign({name: target})).get(name)


async def catch_up(cluster: FakeCluster, index: int, *isr: int) -> None:
    """The leader finds these replicas in sync."""
    partition = known(cluster, index)
    assert partition.state is not None
    proposed = ProposedPartition(
        topic="t",
        topic_id=partition.topic.topic_id,
        partition=index,
        leader_epoch=partition.state.leader_epoch,
        partition_epoch=partition.version,
        isr=[IsrMember(broker_id=each, broker_epoch=cluster[each].epoch) for each in isr],
    )
    leader = partition.state.leader
    request = AlterPartitionRequest(broker_id=leader, broker_epoch=cluster[leader].epoch, partitions=[proposed])
    answer = await controller_of(cluster).task.controller.alter_partition(request)
    assert [each.error_code for each in answer.partitions] == [0]


async def assignment(cluster: FakeCluster, index: int) -> Assignment:
    """What stands in ZooKeeper."""
    data, _ = await controller_of(cluster).read(topic_path("t"))
    return TopicNode.decode(topic_path("t"), data).partitions[index]


async def until_moved(cluster: FakeCluster, index: int, *replicas: int) -> None:
    await eventually(lambda: known(cluster, index).assignment == Assignment(replicas))
    assert await assignment(cluster, index) == Assignment(replicas)


async def test_all_replicas_are_moved(cluster: FakeCluster) -> None:
    assert await move(cluster, 0, [3, 4]) is None
    assert await assignment(cluster, 0) == Assignment((3, 4, 1, 2), (3, 4), (1, 2))
    assert await cluster[1].state("t", 0) == StateNode(1, 1, (1, 2), 1)
    await eventually(lambda: all(("t", 0) in cluster[each].roles for each in (3, 4)))
    assert cluster[3].roles["t", 0].is_new and not cluster[1].roles["t", 0].is_new
    assert await cluster[1].task.controller.reassignments() == [(("t", 0), Assignment((3, 4, 1, 2), (3, 4), (1, 2)))]
    await catch_up(cluster, 0, 1, 2, 3)
    assert (await assignment(cluster, 0)).is_reassigned
    await catch_up(cluster, 0, 1, 2, 3, 4)
    await until_moved(cluster, 0, 3, 4)
    assert await cluster[1].state("t", 0) == StateNode(3, 2, (3, 4), 1)
    await cluster[2].until_led({("t", 0): 3})
    await eventually(lambda: cluster[1].stopped == cluster[2].stopped == {("t", 0): True})
    assert await cluster[1].task.controller.reassignments() == []
    # The other partition has not been touched.
    assert await cluster[1].state("t", 1) == StateNode(2, 0, (2, 3), 1)


async def test_more_replicas(cluster: FakeCluster) -> None:
    assert await move(cluster, 0, [1, 2, 3]) is None
    await catch_up(cluster, 0, 1, 2, 3)
    await until_moved(cluster, 0, 1, 2, 3)
    assert not cluster[3].stopped
    assert (await cluster[1].state("t", 0)).leader == 1


async def test_fewer_replicas(cluster: FakeCluster) -> None:
    """There is nothing to wait for, and the leader has to go."""
    assert await move(cluster, 0, [2]) is None
    await until_moved(cluster, 0, 2)
    await cluster[3].until_led({("t", 0): 2})
    assert (await cluster[1].state("t", 0)).isr == (2,)


async def test_another_order(cluster: FakeCluster) -> None:
    assert await move(cluster, 0, [2, 1]) is None
    await until_moved(cluster, 0, 2, 1)
    assert (await cluster[1].state("t", 0)).leader == 1


async def test_a_move_is_cancelled(cluster: FakeCluster) -> None:
    assert await move(cluster, 0, [3, 4]) is None
    await catch_up(cluster, 0, 1, 2, 3)
    assert await move(cluster, 0, None) is None
    await until_moved(cluster, 0, 1, 2)
    # What was in sync already is out again.
    assert (await cluster[1].state("t", 0)).isr == (1, 2)
    await eventually(lambda: cluster[3].stopped == cluster[4].stopped == {("t", 0): True})


async def test_a_move_is_replaced(cluster: FakeCluster) -> None:
    assert await move(cluster, 0, [3, 1]) is None
    await catch_up(cluster, 0, 1, 2, 3)
    await until_moved(cluster, 0, 3, 1)
    assert await move(cluster, 0, [2, 1]) is None
    assert await move(cluster, 0, [4, 1]) is None
    await eventually(lambda: cluster[2].stopped == {("t", 0): True})
    await catch_up(cluster, 0, 3, 1, 4)
    await until_moved(cluster, 0, 4, 1)


@pytest.mark.parametrize(
    ("index", "target", "error"),
    [
        (0, [], InvalidReplicaAssignmentError),
        (0, [1, 1], InvalidReplicaAssignmentError),
        (0, [-1], InvalidReplicaAssignmentError),
        (0, [1, 9], InvalidReplicaAssignmentError),
        (0, None, NoReassignmentInProgressError),
        (7, [1], UnknownTopicOrPartitionError),
    ],
)
async def test_what_cannot_be_moved(
    cluster: FakeCluster, index: int, target: list[int] | None, error: type[KafkaError]
) -> None:
    assert isinstance(await move(cluster, index, target), error)
    assert await assignment(cluster, 0) == Assignment((1, 2))


async def test_a_move_that_zookeeper_does_not_take(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked for too much is refused, and the controller goes on."""
    controller = controller_of(cluster).task.controller
    with monkeypatch.context() as patch:
        patch.setattr(coord, "REQUEST_BYTES_MAX", 100)
        assert isinstance(await move(cluster, 0, [3, 4]), InvalidReplicaAssignmentError)
    assert known(cluster, 0).assignment == await assignment(cluster, 0) == Assignment((1, 2))
    assert await move(cluster, 0, [2]) is None
    await until_moved(cluster, 0, 2)
    assert controller_of(cluster).task.controller is controller


async def test_a_topic_whose_node_makes_no_sense_is_not_moved(cluster: FakeCluster) -> None:
    controller = controller_of(cluster).task.controller
    data, _ = await cluster[1].read(topic_path("t"))
    await cluster[2].coord.set(topic_path("t"), b"{")
    assert isinstance(await move(cluster, 0, [3, 4]), UnknownTopicOrPartitionError)
    await cluster[2].coord.set(topic_path("t"), data)
    assert await move(cluster, 0, [2]) is None
    await until_moved(cluster, 0, 2)
    assert controller_of(cluster).task.controller is controller


async def test_a_broker_that_holds_up_the_move(cluster: FakeCluster) -> None:
    """It goes on when the broker is back and in sync, or is cancelled."""
    assert await move(cluster, 0, [3, 4]) is None
    await cluster[4].stop()
    await cluster[1].until(lambda: 4 not in cluster[1].metadata.brokers)
    await catch_up(cluster, 0, 1, 2, 3)
    assert (await assignment(cluster, 0)).is_reassigned
    await (await cluster.add(4)).until_led({("t", 0): 1})
    await catch_up(cluster, 0, 1, 2, 3, 4)
    await until_moved(cluster, 0, 3, 4)


async def test_another_controller_goes_on(cluster: FakeCluster) -> None:
    assert await move(cluster, 0, [3, 4]) is None
    await cluster[1].stop()
    await cluster[2].until_led({("t", 0): 2})
    # One epoch since broker 1 is gone, and one since it was being moved.
    assert await cluster[2].state("t", 0) == StateNode(2, 3, (2,), 2)
    await catch_up(cluster, 0, 2, 3, 4)
    await until_moved(cluster, 0, 3, 4)
    await cluster[2].until_led({("t", 0): 3})


async def test_another_controller_finds_it_done_but_for_the_node(world: World) -> None:
    """The old one died between the state and the topic's node."""
    cluster = FakeCluster(world)
    try:
        broker = await cluster.add(1, stands=False)
        await cluster.add(2, stands=False)
        await broker.create("t", {0: [1]})
        data, _ = await broker.coord.get(topic_path("t"))
        node = TopicNode.decode(topic_path("t"), data)
        half = TopicNode(node.topic_id, {0: Assignment((2, 1), (2,), (1,))})
        await broker.coord.set(topic_path("t"), half.encode())
        for path in ("", "/0"):
            await broker.coord.create(f"{topic_path('t')}/partitions{path}")
        await broker.coord.create(f"{topic_path('t')}/partitions/0/state", StateNode(2, 4, (2,), 7).encode())
        broker.stand()
        await broker.until_led({("t", 0): 2})
        await until_moved(cluster, 0, 2)
        await eventually(lambda: cluster[1].stopped == {("t", 0): True})
    finally:
        await cluster.close()


@pytest.mark.parametrize(("skip", "done"), [(skip, done) for skip in range(6) for done in (True, False)])
async def test_with_an_answer_lost(world: World, skip: int, done: bool) -> None:
    async with running(world, 2) as cluster:
        await cluster[2].create("t", {0: [1], 1: [2]})
        await cluster[2].until_led({("t", 0): 1, ("t", 1): 2})
        world.lose_answer(cluster[1].coord, skip, done=done)
        await cluster[1].task.controller.reassign({("t", 0): [2], ("t", 1): [2, 1]})
        await catch_up(cluster, 0, 1, 2)
        await until_moved(cluster, 0, 2)
        assert (await assignment(cluster, 1)) == Assignment((2, 1), (1,))
        state = await cluster[2].state("t", 0)
        assert (state.leader, state.isr) == (2, (2,))


async def test_partitions_are_added_meanwhile(cluster: FakeCluster) -> None:
    """Somebody else writes the same node: both writes hold."""
    await cluster[3].admin.add_partitions("t", 3, [[4, 3]])
    assert await move(cluster, 0, [2]) is None
    await until_moved(cluster, 0, 2)
    await cluster[2].until_led({("t", 0): 2, ("t", 2): 4})
    assert await assignment(cluster, 2) == Assignment((4, 3))
