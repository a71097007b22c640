"""Nobody hears of a leader before it has, unless it takes too long."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.controller import gate
from minikafka.protocol.control import LeaderAndIsrRequest, UpdateMetadataRequest
from tests.broker.controller.fakes import FakeBroker, FakeCluster, running
from tests.broker.eventually import eventually
from tests.broker.zookeeper.worlds import MemoryWorld

LEADERS = {("t", 0): 3}


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with MemoryWorld() as world, running(world, 3) as made:
        await made[1].create("t", {0: [3, 2]})
        for broker in made.brokers.values():
            await broker.until_led(LEADERS)
            broker.told.clear()
        yield made


def tell(cluster: FakeCluster) -> None:
    """As after an election."""
    controller = cluster[1].task.controller
    partitions = list(controller.cluster.topics["t"].partitions.values())
    controller._channels.tell_roles(partitions)
    controller._channels.tell_metadata(partitions)


def has_heard(broker: FakeBroker, kind: type[object]) -> bool:
    return any(isinstance(each, kind) for each in broker.told)


async def test_others_hear_of_a_leader_when_it_has(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SHUT_SECONDS", 60.0)
    cluster[3].opened.clear()
    tell(cluster)
    await eventually(lambda: has_heard(cluster[2], LeaderAndIsrRequest))
    # A follower that has heard of its role is told of nothing else yet, nor is a broker without a role.
    tell(cluster)
    await eventually(lambda: len(cluster[2].told) == 2)
    assert not has_heard(cluster[2], UpdateMetadataRequest)
    assert cluster[1].told == []
    cluster[3].opened.set()
    await eventually(lambda: all(has_heard(each, UpdateMetadataRequest) for each in cluster.brokers.values()))


async def test_a_leader_that_does_not_answer_is_not_waited_for(cluster: FakeCluster) -> None:
    cluster[3].opened.clear()
    tell(cluster)
    await eventually(lambda: has_heard(cluster[1], UpdateMetadataRequest))
    assert cluster[3].told == []


async def test_a_leader_that_is_gone_is_not_waited_for(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SHUT_SECONDS", 60.0)
    cluster[3].opened.clear()
    tell(cluster)
    await cluster[3].stop()
    await eventually(lambda: has_heard(cluster[1], UpdateMetadataRequest))
