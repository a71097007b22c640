"""Telling brokers: the latest, in order, and until they have heard."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.zookeeper.topic_nodes import NO_LEADER
from minikafka.protocol.control import (
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from minikafka.protocol.errors import ErrorCode
from tests.broker.controller.fakes import FakeCluster, running
from tests.broker.eventually import eventually
from tests.broker.zookeeper.worlds import MemoryWorld


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with MemoryWorld() as world, running(world, 3) as made:
        await made[1].create("t", {0: [3, 2], 1: [1, 3]})
        await made[1].until_led({("t", 0): 3, ("t", 1): 1})
        for broker in made.brokers.values():
            await broker.until_led({("t", 0): 3, ("t", 1): 1})
            broker.told.clear()
        yield made


async def test_roles_come_before_metadata_and_stops_come_last(cluster: FakeCluster) -> None:
    cluster[3].opened.clear()
    controller = cluster[1].task.controller
    partitions = controller.cluster.topics["t"].partitions
    controller._channels.tell_metadata(partitions.values())
    await eventually(lambda: is_under_way(cluster))
    controller._channels.stop_replicas(3, [partitions[1]], delete=False)
    controller._channels.tell_metadata(partitions.values())
    controller._channels.tell_roles([partitions[0]])
    cluster[3].opened.set()
    await eventually(lambda: ("t", 1) in cluster[3].stopped)
    assert [type(each) for each in cluster[3].told] == [
        UpdateMetadataRequest,
        LeaderAndIsrRequest,
        UpdateMetadataRequest,
        StopReplicaRequest,
    ]


async def test_what_is_new_stays_new_until_it_was_heard(cluster: FakeCluster) -> None:
    cluster[3].opened.clear()
    await cluster[1].create("first", {0: [1]})
    await cluster[1].until_led({("first", 0): 1})
    await cluster[1].create("u", {0: [3, 2]})
    await eventually(lambda: has_state(cluster, "u"))
    request = ControlledShutdownRequest(broker_id=2, broker_epoch=cluster[2].epoch)
    await cluster[1].task.controller.controlled_shutdown(request)
    cluster[3].opened.set()
    await cluster[3].until_led({("u", 0): 3})
    assert (cluster[3].roles["u", 0].leader_epoch, cluster[3].roles["u", 0].is_new) == (1, True)


def has_state(cluster: FakeCluster, topic: str) -> bool:
    partition = cluster[1].task.controller.cluster.partition((topic, 0))
    return partition is not None and partition.state is not None


def is_under_way(cluster: FakeCluster) -> bool:
    """Whether broker 3 is being told something, and has not answered."""
    channel, _ = cluster[1].task.controller._channels._open[3]
    return not channel._metadata and not channel._news.is_set()


async def test_a_slow_broker_is_told_the_latest_once(cluster: FakeCluster) -> None:
    cluster[3].opened.clear()
    for index in range(20):
        await cluster[1].create(f"more{index}", {0: [3]})
    await cluster[1].create("last", {0: [1]})
    await cluster[1].until_led({("last", 0): 1})
    cluster[3].opened.set()
    await cluster[3].until_led({("last", 0): 1, **{(f"more{index}", 0): 3 for index in range(20)}})
    told = [type(each) for each in cluster[3].told]
    assert told.count(LeaderAndIsrRequest) <= 3
    assert told.count(UpdateMetadataRequest) <= 3
    assert all(cluster[3].roles[f"more{index}", 0].is_new for index in range(20))


@pytest.mark.parametrize("refusal", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR])
async def test_a_broker_in_trouble_is_told_again(cluster: FakeCluster, refusal: ErrorCode) -> None:
    cluster[3].refusal = refusal
    await cluster[1].create("u", {0: [3, 1], 1: [1]})
    # The others do not wait for ever.
    await cluster[1].until_led({("u", 0): 3, ("u", 1): 1})
    assert not cluster[3].told
    cluster[3].refusal = ErrorCode.NONE
    await cluster[3].until_led({("u", 0): 3, ("u", 1): 1})
    assert cluster[3].roles["u", 0].is_new


async def test_a_broker_that_registered_anew_is_told_all_by_another_channel(cluster: FakeCluster) -> None:
    """What was meant for the one before is not for it."""
    cluster[3].refusal = ErrorCode.STALE_BROKER_EPOCH
    await cluster[1].create("u", {0: [3]})
    await cluster[1].until_led({("u", 0): 3})
    assert not cluster[3].told
    await cluster.world.expire(cluster[3].coord)
    await cluster[3].coord.connected()
    cluster[3].refusal = ErrorCode.NONE
    await cluster[3].register()
    await cluster[3].until_led({("u", 0): 3, ("t", 0): 2})
    full = cluster[3].told[0]
    assert isinstance(full, LeaderAndIsrRequest) and full.is_full
    assert {each.broker_epoch for each in cluster[3].told} == {cluster[3].epoch}


async def test_a_request_for_who_was_there_before_a_bounce_changes_nothing(cluster: FakeCluster) -> None:
    """The broker registers anew while a request is under way: it refuses it, and is told all."""
    cluster[3].opened.clear()
    before = cluster[3].epoch
    await cluster[1].create("u", {0: [3]})
    await eventually(lambda: cluster[1].task.controller.cluster.partition(("u", 0)))
    await cluster.world.expire(cluster[3].coord)
    await cluster[3].coord.connected()
    await cluster[3].register()
    cluster[3].opened.set()
    await cluster[3].until_led({("u", 0): 3, ("t", 0): 2})
    stale = [each for each in cluster[3].told if each.broker_epoch == before]
    fresh = [each for each in cluster[3].told if each.broker_epoch == cluster[3].epoch]
    assert len(stale) == 1
    assert isinstance(fresh[0], LeaderAndIsrRequest) and fresh[0].is_full
    assert cluster[3].roles["u", 0].leader_epoch == 2


async def test_a_broker_that_cannot_be_reached(cluster: FakeCluster) -> None:
    """Registered and not there: the others go on without it."""
    assert cluster[3]._server is not None
    await cluster[3]._server.stop(0)
    await cluster[1].create("u", {0: [1, 3], 1: [2]})
    await cluster[2].until_led({("u", 0): 1, ("u", 1): 2})
    await cluster[3].coord.close()
    await cluster[2].until_led({("u", 0): 1, ("u", 1): 2, ("t", 0): 2, ("t", 1): 1})
    assert cluster[2].leader("t") != NO_LEADER
