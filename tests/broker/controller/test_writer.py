"""What the controller writes when it does not hear whether it was written, or when others write as well."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.broker.controller.state import Cluster, Partition
from minikafka.broker.controller.writer import Move, Writer
from minikafka.broker.zookeeper.coord import Create, Session, SessionState
from minikafka.broker.zookeeper.election import elect
from minikafka.broker.zookeeper.registration import ensure_path
from minikafka.broker.zookeeper.topic_nodes import Assignment, StateNode, TopicNode, state_path, topic_path
from tests.sim.memory_coord import MemoryCoord
from tests.sim.memory_zookeeper import MemoryZooKeeper


class CountedPartitions(dict[int, Partition]):
    """The partitions of a topic; counts how often somebody looks through all of them."""

    scans = 0

    def values(self) -> Any:
        self.scans += 1
        return super().values()


@pytest.mark.parametrize("count", [100, 200, 400])
async def test_create_states_looks_once_through_the_partitions_of_a_topic(count: int) -> None:
    coord = MemoryCoord(MemoryZooKeeper())
    await coord.start()
    held = await elect(coord, 1, 0)
    assert held is not None
    for path in ("/brokers/topics", topic_path("t")):
        await ensure_path(coord, path)
    node = TopicNode(bytes(16), {index: Assignment((1,)) for index in range(count)})
    partitions = Cluster().put_topic("t", node, 0)
    topic = partitions[0].topic
    topic.partitions = counted = CountedPartitions(topic.partitions)
    state = StateNode(1, 0, (1,), held.epoch)
    assert await Writer(coord, held).create_states([(each, state) for each in partitions]) == []
    assert all(each.state == state for each in partitions)
    assert counted.scans == 1
    await coord.close()


async def test_delete_tree_leaves_alone_what_was_made_meanwhile() -> None:
    """The answer to the deletion is lost, and before the controller looks another broker makes the topic again."""
    server = MemoryZooKeeper()
    coord, other = MemoryCoord(server), MemoryCoord(server)
    for each in (coord, other):
        await each.start()
    held = await elect(coord, 1, 0)
    assert held is not None
    await ensure_path(coord, "/topics/t/partitions/0")

    def make_again(session: Session) -> None:
        if session.state is SessionState.SUSPENDED:
            server.multi(other.session.id, (Create("/topics/t", b"new"), Create("/topics/t/partitions")))

    coord.add_listener(make_again)
    coord.lose_answer("multi", path="/topics/t", done=True)
    await Writer(coord, held).delete_tree("/topics/t")
    assert server.nodes["/topics/t"].data == b"new"
    assert "/topics/t/partitions" in server.nodes
    for each in (coord, other):
        await each.close()


async def test_write_moves_keeps_partitions_that_were_added_meanwhile() -> None:
    """A broker adds partitions to the topic's node, and the controller moves another one before it reads of that."""
    coord = MemoryCoord(MemoryZooKeeper())
    await coord.start()
    held = await elect(coord, 1, 0)
    assert held is not None
    writer, cluster = Writer(coord, held), Cluster()
    node = TopicNode(bytes(16), {0: Assignment((1,))})
    (partition,) = cluster.put_topic("t", node, 0)
    for path in ("/brokers/topics", topic_path("t")):
        await ensure_path(coord, path)
    await ensure_path(coord, state_path("t", 0).removesuffix("/state"))
    state = StateNode(1, 0, (1,), held.epoch)
    await coord.create(state_path("t", 0), state.encode())
    await writer.adopt_states([partition])
    added = TopicNode(bytes(16), {**node.partitions, 1: Assignment((2,))})
    await coord.set(topic_path("t"), added.encode())

    topic = partition.topic
    moved = Assignment((1, 3), adding=(3,))
    assert not await writer.write_moves(topic, [Move(partition, moved, state._replace(leader_epoch=1))])
    assert await writer.write_moves(topic, [Move(partition, moved, state._replace(leader_epoch=1))])
    written = TopicNode.decode(topic_path("t"), (await coord.get(topic_path("t")))[0])
    assert written.partitions == {0: moved, 1: Assignment((2,))}
    await coord.close()
