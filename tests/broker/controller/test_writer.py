"""What the controller writes when it does not hear whether it was written."""

from __future__ import annotations

from minikafka.broker.controller.writer import Writer
from minikafka.broker.zookeeper.coord import Create, Session, SessionState
from minikafka.broker.zookeeper.election import elect
from minikafka.broker.zookeeper.registration import ensure_path
from tests.sim.memory_coord import MemoryCoord
from tests.sim.memory_zookeeper import MemoryZooKeeper


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
