"""The handlers of groups and offsets, of one broker that leads the partition in which they are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from minikafka.broker.context import Context
from minikafka.broker.handlers import find_coordinator, group_admin, groups, offsets
from minikafka.broker.internal_topics import GROUP_OFFSETS, TRANSACTION_STATE
from minikafka.broker.network.dispatch import Route
from minikafka.broker.zookeeper.topic_nodes import TopicNode, topic_path
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    ListGroupsRequest,
)
from minikafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.broker.handlers.station import Station, coordinators, station


def _routes(context: Context) -> list[Route]:
    all_of_them = coordinators(context)
    coordinator = all_of_them.groups
    context.partitions.on_role_changed = coordinator.shards.on_role_changed
    context.metadata.on_topics_deleted = coordinator.on_topics_deleted
    rows = find_coordinator.routes(context) + groups.routes(coordinator)
    return rows + group_admin.routes(coordinator) + offsets.routes(context, coordinator, all_of_them.confirmer)


@pytest.fixture
async def broker() -> AsyncIterator[Station]:
    settings = {"offsets.topic.replication.factor": "3", "group.initial.rebalance.delay.ms": "0"}
    async with station(_routes, settings) as made:
        yield made


@pytest.fixture
async def coordinator(broker: Station) -> Station:
    await broker.add_topic(GROUP_OFFSETS, replicas=(1,))
    await broker.add_topic("orders", replicas=(1,))

    async with asyncio.timeout(30):
        while (await broker.ask(ListGroupsRequest(), 0)).error_code:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return broker


def _commit(offset: int, group: str = "g", partition: int = 0) -> OffsetCommitRequest:
    one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="m")
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="orders", partitions=[one])])


def _fetch(group: str = "g") -> OffsetFetchRequest:
    return OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])], groups=[]
    )


@pytest.mark.parametrize("version", range(7))
async def test_topic_is_made_when_it_is_first_asked_for(broker: Station, version: int) -> None:
    """A retriable answer, for one key or for each of many, until it is there."""
    answer = await broker.ask(FindCoordinatorRequest(key="a", coordinator_keys=["a", "b"]), version)
    found = [answer] if version < 4 else answer.coordinators
    assert [one.error_code for one in found] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * (1 if version < 4 else 2)
    assert {(one.node_id, one.host, one.port) for one in found} == {(-1, "", -1)}
    path = topic_path(GROUP_OFFSETS)
    async with asyncio.timeout(30):
        while await broker.coord.exists(path) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    node = TopicNode.decode(path, (await broker.coord.get(path))[0])
    assert len(node.partitions) == 50
    assert {len(each.replicas) for each in node.partitions.values()} == {3}


@pytest.mark.parametrize("version", range(7))
async def test_the_leader_coordinates(coordinator: Station, version: int) -> None:
    answer = await coordinator.ask(FindCoordinatorRequest(key="a", coordinator_keys=["a"]), version)
    found = answer if version < 4 else answer.coordinators[0]
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 1, "dialled", 19092)


@pytest.mark.parametrize("version", range(1, 7))
async def test_transactions_have_a_topic_of_their_own(coordinator: Station, version: int) -> None:
    asked = FindCoordinatorRequest(key="a", key_type=1, coordinator_keys=["a"])
    answer = await coordinator.ask(asked, version)
    assert (answer if version < 4 else answer.coordinators[0]).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await coordinator.add_topic(TRANSACTION_STATE, replicas=(1,))
    answer = await coordinator.ask(asked, version)
    assert (answer if version < 4 else answer.coordinators[0]).node_id == 1


async def test_others_do_not_coordinate(broker: Station) -> None:
    await broker.add_topic(GROUP_OFFSETS, replicas=(2, 3))
    asked = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, member_id="", protocol_type="c", protocols=[])
    assert (await broker.ask(asked, 5)).error_code == ErrorCode.NOT_COORDINATOR
    assert (await broker.ask(_fetch(), 5)).error_code == ErrorCode.NOT_COORDINATOR
    old = await broker.ask(_fetch(), 1)
    assert old.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    described = await broker.ask(DescribeGroupsRequest(groups=["g"]), 5)
    assert described.groups[0].error_code == ErrorCode.NOT_COORDINATOR
    deleted = await broker.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert deleted.results[0].error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(10))
async def test_commit_and_fetch(coordinator: Station, version: int) -> None:
    committed = await coordinator.ask(_commit(5), version)
    assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
    asked = _fetch()
    assert asked.topics is not None
    asked.groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
    answer = await coordinator.ask(asked, version)
    found = (answer if version < 8 else answer.groups[0]).topics[0].partitions[0]
    assert (found.committed_offset, found.metadata) == (5, "m")


async def test_repeated_entries_are_answered_once(coordinator: Station) -> None:
    """Else a few kilobytes that name one group a thousand times would be an answer of many megabytes."""
    await coordinator.ask(_commit(5), 8)
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1, 0])] * 1000
    one = await coordinator.ask(OffsetFetchRequest(group_id="g", topics=topics), 7)
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in one.topics] == [
        ("orders", [0, 1])
    ]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=None), OffsetFetchRequestGroup(group_id="h", topics=[])]
    many = await coordinator.ask(OffsetFetchRequest(groups=groups * 1000), 8)
    assert [(group.group_id, len(group.topics)) for group in many.groups] == [("g", 1), ("h", 0)]
    found = await coordinator.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"] * 1000), 4)
    assert [each.key for each in found.coordinators] == ["a", "b"]
    described = await coordinator.ask(DescribeGroupsRequest(groups=["g", "h"] * 1000), 5)
    assert [each.group_id for each in described.groups] == ["g", "h"]


async def test_unknown_partitions_are_not_committed(coordinator: Station) -> None:
    answer = await coordinator.ask(_commit(5, partition=1), 8)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await coordinator.ask(ListGroupsRequest(), 4)).groups == []


async def test_deleted_groups_are_gone(coordinator: Station) -> None:
    await coordinator.ask(_commit(5), 8)
    listed = (await coordinator.ask(ListGroupsRequest(), 4)).groups
    assert [(each.group_id, each.group_state, each.protocol_type) for each in listed] == [("g", "Empty", "")]
    answer = await coordinator.ask(DeleteGroupsRequest(groups_names=["g", "other", "g"]), 2)
    assert [(each.group_id, each.error_code) for each in answer.results] == [
        ("g", ErrorCode.NONE),
        ("other", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert (await coordinator.ask(DescribeGroupsRequest(groups=["g"]), 5)).groups[0].group_state == "Dead"
    assert (await coordinator.ask(_fetch(), 5)).topics[0].partitions[0].committed_offset == -1
