"""Elections that somebody asks for, and those by which leaders go back to where they should be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from minikafka.broker.network.net import TcpNet
from minikafka.broker.network.peer import Peer
from minikafka.broker.zookeeper.topic_nodes import NO_LEADER, StateNode
from minikafka.protocol.control import AlterPartitionRequest, IsrMember, ProposedPartition
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersTopic,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.broker.controller.fakes import FakeCluster, running
from tests.broker.zookeeper.worlds import MemoryWorld

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Broker 2 was away: it should lead t-1 and t-2, is in sync in t-1 only, and leads neither."""
    async with MemoryWorld() as world, running(world, 3) as made:
        await made[1].create("t", {0: [1, 2], 1: [2, 1], 2: [2, 3], 3: [3, 1]})
        await made[1].until_led({("t", 0): 1, ("t", 1): 2, ("t", 2): 2, ("t", 3): 3})
        await made[2].stop()
        await made[1].until_led({("t", 0): 1, ("t", 1): 1, ("t", 2): 3, ("t", 3): 3})
        again = await made.add(2)
        await again.until_led({("t", 0): 1, ("t", 1): 1, ("t", 2): 3, ("t", 3): 3})
        await put_in_sync(made, 1, 1, 2)
        yield made


async def put_in_sync(cluster: FakeCluster, index: int, *isr: int) -> None:
    partition = cluster[1].task.controller.cluster.partition(("t", index))
    assert partition is not None and partition.state is not None
    proposed = ProposedPartition(
        topic="t",
        topic_id=partition.topic.topic_id,
        partition=index,
        leader_epoch=partition.state.leader_epoch,
        partition_epoch=partition.version,
        isr=[IsrMember(broker_id=each, broker_epoch=cluster[each].epoch) for each in isr],
    )
    leader = partition.leader
    request = AlterPartitionRequest(broker_id=leader, broker_epoch=cluster[leader].epoch, partitions=[proposed])
    answer = await cluster[1].task.controller.alter_partition(request)
    assert [each.error_code for each in answer.partitions] == [0]


async def ask(cluster: FakeCluster, request: Any, version: int, of: int = 1) -> Any:
    peer = await Peer.connect(TcpNet(), "127.0.0.1", cluster[of].port, client_id="tests", timeout_seconds=20)
    try:
        return await peer.ask(request, version)
    finally:
        peer.close()


async def elect(
    cluster: FakeCluster, kind: int, *indexes: int, version: int = 2, of: int = 1, everything: bool = False
) -> dict[tuple[str, int], ErrorCode]:
    topics = None if everything else [ElectLeadersTopic(topic="t", partitions=list(indexes))]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=10_000)
    answer = await ask(cluster, request, version, of)
    return {
        (topic.topic, each.partition_id): ErrorCode(each.error_code)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_first_replica_leads_again(cluster: FakeCluster, version: int) -> None:
    assert await elect(cluster, PREFERRED, 0, 1, 2, 9, version=version) == {
        ("t", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("t", 1): ErrorCode.NONE,
        ("t", 2): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    # Whoever asked can see it.
    assert cluster[1].leader("t", 1) == 2
    assert await cluster[1].state("t", 1) == StateNode(2, 2, (1, 2), 1)


async def test_of_all_partitions(cluster: FakeCluster) -> None:
    assert await elect(cluster, PREFERRED, everything=True) == {
        ("t", 1): ErrorCode.NONE,
        ("t", 2): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }


async def test_asked_of_another_broker(cluster: FakeCluster) -> None:
    assert await elect(cluster, PREFERRED, 0, 1, of=3) == {
        ("t", 0): ErrorCode.NOT_CONTROLLER,
        ("t", 1): ErrorCode.NOT_CONTROLLER,
    }
    assert len(await elect(cluster, PREFERRED, everything=True, of=3)) == 4


async def test_no_such_election(cluster: FakeCluster) -> None:
    assert await elect(cluster, 7, 1) == {("t", 1): ErrorCode.UNKNOWN_SERVER_ERROR}


async def test_an_unclean_election(cluster: FakeCluster) -> None:
    await cluster[3].stop()
    await cluster[1].until_led({("t", 2): NO_LEADER, ("t", 3): 1})
    assert await elect(cluster, UNCLEAN, 0, 2) == {
        ("t", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("t", 2): ErrorCode.NONE,
    }
    assert await cluster[1].state("t", 2) == StateNode(2, 3, (2,), 1, is_recovering=True, unclean_epoch=3)


async def test_an_unclean_election_without_anybody(cluster: FakeCluster) -> None:
    await cluster[3].stop()
    await cluster[2].stop()
    await cluster[1].until_led({("t", 2): NO_LEADER})
    assert await elect(cluster, UNCLEAN, 2) == {("t", 2): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


async def test_balance(cluster: FakeCluster) -> None:
    """Broker 2 leads nothing of what it should; what it can lead, it is given back."""
    await cluster[1].task.controller._leaders.balance()
    await cluster[1].until_led({("t", 0): 1, ("t", 1): 2, ("t", 2): 3, ("t", 3): 3})


async def test_a_small_imbalance_is_let_be(cluster: FakeCluster) -> None:
    cluster[1].config.set_broker(cluster[1].config.broker._replace(leader_imbalance_per_broker_percentage=100))
    await cluster[1].task.controller._leaders.balance()
    assert (await cluster[1].state("t", 1)).leader == 1


async def test_a_reassignment_by_request(cluster: FakeCluster) -> None:
    topic = ReassignableTopic(
        name="t",
        partitions=[
            ReassignablePartition(partition_index=0, replicas=[1, 3]),
            ReassignablePartition(partition_index=1, replicas=[9]),
        ],
    )
    answer = await ask(cluster, AlterPartitionReassignmentsRequest(timeout_ms=5_000, topics=[topic]), 0)
    assert answer.error_code == ErrorCode.NONE
    (result,) = answer.responses
    assert {each.partition_index: each.error_code for each in result.partitions} == {
        0: ErrorCode.NONE,
        1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }
    listed = await ask(cluster, ListPartitionReassignmentsRequest(timeout_ms=5_000, topics=None), 0)
    ((ongoing,),) = [each.partitions for each in listed.topics]
    assert (ongoing.replicas, ongoing.adding_replicas, ongoing.removing_replicas) == ([1, 3, 2], [3], [2])
