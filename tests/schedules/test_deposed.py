"""Schedules about leaders that were replaced and cannot know it: what they let clients read has a bound in time.

L is the leader, F and G follow. Broker C has no replica: it is the controller. Clients reach L all the time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from minikafka.broker.contact import Contact
from minikafka.broker.replicas.waiting import DataWatch
from minikafka.protocol.errors import ErrorCode, KafkaError, NotLeaderOrFollowerError
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from minikafka.protocol.messages.groups import ListGroupsRequest
from minikafka.protocol.messages.list_offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersTopic,
    ListTransactionsRequest,
)
from tests.schedules.stage import Violation, must, must_fail, play
from tests.sim.client import LATEST, TOPIC
from tests.sim.cluster import SESSION_SECONDS, SimCluster
from tests.sim.group_client import COORDINATORS, GroupClient

L, F, G, C = 1, 2, 3, 4

_MARGIN_SECONDS = 1.0


async def _cluster() -> SimCluster:
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    return cluster


def _cut_off(cluster: SimCluster, broker_id: int) -> None:
    cluster.cut_zookeeper(broker_id)
    cluster.isolate(broker_id)


async def _replaced(cluster: SimCluster) -> None:
    """Another leader has committed m2."""
    await cluster.until(lambda: cluster.state().leader in (F, G) and cluster.leads(cluster.state().leader))
    await cluster.client.produce(cluster.state().leader, b"m2")


async def _end_of_epoch(cluster: SimCluster) -> int:
    wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=[wanted])]
    )
    return int((await cluster.client.ask(L, request, 4)).topics[0].partitions[0].error_code)


async def _producers(cluster: SimCluster) -> int:
    request = DescribeProducersRequest(topics=[DescribeProducersTopic(name=TOPIC, partition_indexes=[0])])
    return int((await cluster.client.ask(L, request, 0)).topics[0].partitions[0].error_code)


async def _must_not_be_read(cluster: SimCluster) -> None:
    """L answers nothing that depends on leading, and names no leader."""
    questions: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("records", lambda: cluster.client.fetch(L, 0)),
        ("records to who may read followers", lambda: cluster.client.fetch(L, 0, version=11)),
        ("its end", lambda: cluster.client.list_offset(L, LATEST)),
    ]
    for what, ask in questions:
        try:
            answer = await ask()
        except NotLeaderOrFollowerError:
            continue
        raise Violation(f"a leader that was replaced tells {what}: {answer}")
    for what, code in (("epochs", await _end_of_epoch(cluster)), ("producers", await _producers(cluster))):
        must(code == ErrorCode.NOT_LEADER_OR_FOLLOWER, f"a leader that was replaced tells {what}")
    described = await cluster.client.ask(L, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9)
    part = described.topics[0].partitions[0]
    must(part.leader_id == -1, "clients are sent to who does not answer")
    assert part.error_code == ErrorCode.LEADER_NOT_AVAILABLE


# -------------------------------------------------------------------------------------------------------------- cut off


async def leader_cut_off_from_all() -> None:
    """L reaches neither ZooKeeper nor another broker, for minutes; then it does again, and follows."""
    cluster = await _cluster()
    _cut_off(cluster, L)
    await cluster.wait(_MARGIN_SECONDS)
    assert [each.value for each in await cluster.client.fetch(L, 0)] == [b"m1"]
    await _replaced(cluster)
    for seconds in (0, 60, 120):
        await cluster.wait(seconds)
        await _must_not_be_read(cluster)
    cluster.network.heal_all()
    cluster.heal_zookeeper(L)
    await cluster.until_in_sync(L, F, G)
    assert cluster.values(L) == [b"m1", b"m2"]


async def leader_that_was_stopped() -> None:
    """L's process is stopped while it is replaced. A fetch has come meanwhile, and is the first that it sees."""
    cluster = await _cluster()
    cluster.pause(L)
    await _replaced(cluster)
    question = cluster.background(cluster.client.fetch(L, 0))
    await cluster.wait(_MARGIN_SECONDS)
    cluster.resume(L)
    try:
        records = await question
    except NotLeaderOrFollowerError:
        return
    raise Violation(f"a leader that was replaced tells of {records}")


async def reader_with_a_session() -> None:
    """A consumer has read all that L has, in a session, and names nothing any more. It must hear that L is cut off."""
    cluster = await _cluster()
    session, code = await _continue(cluster, 0, 0)
    assert (session > 0, code) == (True, ErrorCode.NONE)
    session, code = await _continue(cluster, session, 1)
    assert code is None
    _cut_off(cluster, L)
    await _replaced(cluster)
    session, code = await _continue(cluster, session, 2)
    must(code == ErrorCode.NOT_LEADER_OR_FOLLOWER, f"a consumer is told {code!r}, and goes on waiting")


async def reader_that_waits() -> None:
    """A consumer's fetch waits at L for longer than it takes to replace L."""
    cluster = await _cluster()
    _cut_off(cluster, L)
    wait_ms = int(2000 * SESSION_SECONDS)
    question = cluster.background(_continue(cluster, 0, 0, wait_ms=wait_ms))
    await _replaced(cluster)
    _, code = await question
    must(code == ErrorCode.NOT_LEADER_OR_FOLLOWER, f"a consumer is told {code!r}, after a long wait")


async def _continue(cluster: SimCluster, session: int, epoch: int, *, wait_ms: int = 0) -> tuple[int, ErrorCode | None]:
    """The id of a fetch session, and what its answer says of the partition, if anything."""
    wanted = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_id=session,
        session_epoch=epoch,
        topics=[] if epoch else [FetchTopic(topic=TOPIC, partitions=[wanted])],
    )
    response: FetchResponse = await cluster.client.ask(L, request, 12)
    assert not response.error_code
    codes = [ErrorCode(part.error_code) for topic in response.responses for part in topic.partitions]
    return response.session_id, codes[0] if codes else None


async def lists_of_a_coordinator_that_was_replaced() -> None:
    """Whoever coordinated groups and transactions lists neither when it is cut off from all."""
    cluster = await SimCluster.start(4, COORDINATORS)
    await cluster.create_topic()
    client = GroupClient(cluster)
    await client.start()
    await client.commit(10)
    await client.init_producer()
    for topic, request in (
        ("__consumer_offsets", ListGroupsRequest()),
        ("__transaction_state", ListTransactionsRequest(state_filters=[], producer_id_filters=[])),
    ):
        old = client.coordinator(topic)
        response = await cluster.client.ask(old, request, 0)
        assert not response.error_code
        _cut_off(cluster, old)
        await cluster.until(lambda old=old, topic=topic: client.coordinator(topic) not in (old, -1))  # type: ignore[misc]
        response = await cluster.client.ask(old, request, 0)
        must(response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{old} lists what it had in {topic}")
        cluster.network.heal_all()
        cluster.heal_zookeeper(old)
        await cluster.wait(SESSION_SECONDS)


# -------------------------------------------------------------------------------------------------------- still serving


async def leader_without_zookeeper() -> None:
    """Nobody reaches ZooKeeper for minutes, so nobody can be replaced: L is read and written to as ever."""
    cluster = await _cluster()
    cluster.stop_zookeeper()
    for number, seconds in enumerate((1, 10, 120), 2):
        await cluster.wait(seconds)
        try:
            assert len(await cluster.client.fetch(L, 0)) == number - 1
            assert await cluster.client.list_offset(L, LATEST) == number - 1
        except KafkaError as error:
            must(False, f"a leader is not read without ZooKeeper: {error}")
        await cluster.client.produce(L, b"m%d" % number)
    described = await cluster.client.ask(L, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9)
    assert described.topics[0].partitions[0].leader_id == L


# --------------------------------------------------------------------------------------------------- rules switched off


def leaders_always_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Contact, "is_doubtful", lambda self, partition: False)


def sessions_hear_of_records_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DataWatch, "mark_where", lambda self, holds: None)


def zookeeper_is_needed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Contact, "suffices", lambda self, partition, silent: False)


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    leader_cut_off_from_all,
    leader_that_was_stopped,
    reader_with_a_session,
    reader_that_waits,
    lists_of_a_coordinator_that_was_replaced,
    leader_without_zookeeper,
]

MUTANTS: list[Any] = [
    (leader_cut_off_from_all, leaders_always_answer),
    (leader_that_was_stopped, leaders_always_answer),
    (reader_with_a_session, sessions_hear_of_records_only),
    (reader_that_waits, leaders_always_answer),
    (lists_of_a_coordinator_that_was_replaced, leaders_always_answer),
    (leader_without_zookeeper, zookeeper_is_needed),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
