"""Requests about topics: what the recordings do not tell, as Apache Kafka was seen to answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from minikafka.broker.network.net import TcpNet
from minikafka.broker.network.peer import Peer
from minikafka.broker.zookeeper.coord import SessionState
from minikafka.broker.zookeeper.topic_nodes import topic_path
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from minikafka.protocol.schema import ZERO_UUID
from tests.broker.controller.fakes import FakeCluster, running
from tests.broker.eventually import eventually
from tests.broker.zookeeper.worlds import Diary, MemoryWorld


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with MemoryWorld() as world, running(world, 2) as made:
        yield made


async def ask(cluster: FakeCluster, request: Any, version: int, of: int = 1) -> Any:
    peer = await Peer.connect(TcpNet(), "127.0.0.1", cluster[of].port, client_id="tests", timeout_seconds=20)
    try:
        return await peer.ask(request, version)
    finally:
        peer.close()


async def create(
    cluster: FakeCluster,
    name: str,
    replicas: list[list[int]] | None = None,
    timeout_ms: int = 10_000,
    configs: dict[str, str] | None = None,
    version: int = 7,
) -> CreatableTopicResult:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=each) for index, each in enumerate(replicas or ())
    ]
    count = -1 if replicas else 1
    topic = CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=count,
        assignments=assignments,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    answer = await ask(cluster, CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), version)
    (result,) = answer.topics
    assert isinstance(result, CreatableTopicResult)
    return result


async def delete(
    cluster: FakeCluster, *topics: str | bytes, timeout_ms: int = 10_000, of: int = 1
) -> list[DeletableTopicResult]:
    asked = [
        DeleteTopicState(name=each, topic_id=ZERO_UUID)
        if isinstance(each, str)
        else DeleteTopicState(name=None, topic_id=each)
        for each in topics
    ]
    answer = await ask(cluster, DeleteTopicsRequest(topics=asked, timeout_ms=timeout_ms), 6, of)
    return list(answer.responses)


async def test_a_topic_is_made_and_served(cluster: FakeCluster) -> None:
    result = await create(cluster, "t", [[1, 2], [2, 1]], configs={"retention.ms": "7"})
    assert (result.error_code, result.num_partitions, result.replication_factor) == (ErrorCode.NONE, 2, 2)
    assert cluster[1].metadata.topics["t"].topic_id == result.topic_id
    assert set(cluster[2].roles) == {("t", 0), ("t", 1)}
    assert result.configs is not None
    assert {each.name: (each.value, each.config_source) for each in result.configs}["retention.ms"] == ("7", 1)
    assert len(result.configs) > 20


async def test_the_name_of_kafkas_quorum(cluster: FakeCluster) -> None:
    result = await create(cluster, "__cluster_metadata")
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    )


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_no_time_to_wait(cluster: FakeCluster, timeout_ms: int) -> None:
    """It is made all the same."""
    result = await create(cluster, "t", timeout_ms=timeout_ms)
    assert (result.error_code, result.topic_id, result.num_partitions) == (ErrorCode.REQUEST_TIMED_OUT, ZERO_UUID, -1)
    await cluster[1].until(lambda: "t" in cluster[1].metadata.topics)


async def test_a_topic_that_nobody_can_lead(cluster: FakeCluster) -> None:
    assert (await create(cluster, "t", [[99]], timeout_ms=50)).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert (await create(cluster, "t")).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    # There is nothing to delete anywhere, so nothing has to be waited for.
    assert [each.error_code for each in await delete(cluster, "t")] == [ErrorCode.NONE]
    assert await cluster[2].coord.exists(topic_path("t")) is None


async def test_zookeeper_is_gone(cluster: FakeCluster) -> None:
    diary = Diary(cluster[1].coord)
    cluster.world.cut(cluster[1].coord)
    await diary.until(SessionState.SUSPENDED)
    assert (await create(cluster, "t", timeout_ms=100)).error_code == ErrorCode.REQUEST_TIMED_OUT
    cluster.world.heal(cluster[1].coord)
    assert (await create(cluster, "u")).error_code == ErrorCode.NONE


async def test_topics_are_deleted(cluster: FakeCluster) -> None:
    first, second = await create(cluster, "t"), await create(cluster, "u")
    results = await delete(cluster, "t", second.topic_id, "t", "no", bytes(range(16)))
    assert [(each.name, each.topic_id, ErrorCode(each.error_code)) for each in results] == [
        ("t", ZERO_UUID, ErrorCode.NONE),
        ("u", second.topic_id, ErrorCode.NONE),
        ("t", ZERO_UUID, ErrorCode.NONE),
        ("no", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, bytes(range(16)), ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert not cluster[1].metadata.topics
    # When it is answered, the name is free.
    again = await create(cluster, "t")
    assert again.error_code == ErrorCode.NONE and again.topic_id != first.topic_id


async def test_a_deletion_that_takes_too_long(cluster: FakeCluster) -> None:
    await create(cluster, "t", [[2]])
    cluster[2].opened.clear()
    (result,) = await delete(cluster, "t", timeout_ms=100)
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    cluster[2].opened.set()
    await cluster[1].until_gone(topic_path("t"))


async def test_a_deletion_that_is_held_back(cluster: FakeCluster) -> None:
    """The topic is out of sight: that is as much as can be had while a broker is down."""
    await create(cluster, "t", [[2, 1]])
    await cluster[2].stop()
    await cluster[1].until_led({("t", 0): 1})
    assert [each.error_code for each in await delete(cluster, "t")] == [ErrorCode.NONE]
    assert (await create(cluster, "t")).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)], timeout_ms=100, validate_only=False
    )
    (grown,) = (await ask(cluster, request, 3)).results
    assert grown.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(("version", "error"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
async def test_deletion_is_disabled(version: int, error: ErrorCode) -> None:
    async with MemoryWorld() as world, running(world, 1, {"delete.topic.enable": "false"}) as cluster:
        await create(cluster, "t")
        answer = await ask(cluster, DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), version)
        assert [each.error_code for each in answer.responses] == [error]
        assert "t" in cluster[1].metadata.topics


async def test_the_controller_changes_while_somebody_waits(cluster: FakeCluster) -> None:
    await create(cluster, "t", [[2]])
    cluster[2].opened.clear()
    deletion = cluster[1].work.spawn(_ignored(delete(cluster, "t")), "deleting")
    await eventually(lambda: cluster[1].task.controller.is_deleted("t"))
    await cluster[2].coord.delete("/controller")
    cluster[2].opened.set()
    await deletion
    await cluster[1].until_gone(topic_path("t"))


async def _ignored(asked: Any) -> None:
    (result,) = await asked
    assert result.error_code in (ErrorCode.NONE, ErrorCode.NOT_CONTROLLER)
