"""Schedules about sessions with ZooKeeper that are over, or silent for a while.

L is the leader, F and G follow. Broker C has no replica: it is the controller.
"""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.broker.handlers import control
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.zookeeper.znodes import broker_path
from minikafka.protocol.errors import ErrorCode, NotLeaderOrFollowerError
from tests.schedules.stage import Attempt, must, must_agree, must_fail, must_hold, play
from tests.sim.client import host_of
from tests.sim.cluster import SESSION_SECONDS, SimCluster

L, F, G, C = 1, 2, 3, 4

ONE = {"min.insync.replicas": "1"}


# --------------------------------------------------------------------------------------------------------- 28: sessions


async def leader_without_zookeeper() -> None:
    """L is cut off from ZooKeeper for less than its session lasts: it goes on serving, and nothing changes."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    before = cluster.state()
    cluster.cut_zookeeper(L)
    for number in range(4):
        await cluster.client.produce(L, b"m%d" % number)
        await cluster.wait(1)
    cluster.heal_zookeeper(L)
    await cluster.wait(SESSION_SECONDS)
    must(cluster.state() == before and cluster.leads(L), "a short silence has changed a leader")


async def nobody_with_zookeeper() -> None:
    """ZooKeeper is away for a minute, with all sessions. Leaders go on; but when G dies meanwhile, nothing more is
    acknowledged, as nobody can decide that G does not count. That is decided when ZooKeeper is back.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    cluster.stop_zookeeper()
    await cluster.wait(30)
    await cluster.client.produce(L, b"m1")
    cluster.kill(G)
    m2 = Attempt(cluster.client.produce(L, b"m2", timeout_ms=60_000))
    await cluster.wait(30)
    must(not m2.is_acked, "an ISR has changed without ZooKeeper")
    cluster.start_zookeeper()
    await cluster.until(lambda: m2.is_over)
    assert m2.is_acked or isinstance(m2.error, NotLeaderOrFollowerError)
    await cluster.until_in_sync(L, F)
    await cluster.client.produce(L, b"m3")
    must_hold(cluster, F, b"m1", b"m3")


async def leader_whose_session_is_over() -> None:
    """L is cut off from ZooKeeper for longer than its session lasts, and F leads. Of what L writes by itself nothing is
    acknowledged by all; and when it learns that its session is over it stops leading at once, though nobody tells it.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    cluster.cut_zookeeper(L)
    cluster.network.cut(host_of(C), host_of(L), "controller")
    await cluster.until_leads(F)
    m1 = Attempt(cluster.client.produce(L, b"m1"))
    await cluster.wait(5)
    assert not m1.is_over
    cluster.heal_zookeeper(L)
    await cluster.wait(0.1)
    must(not cluster.leads(L), "a broker without a session leads")
    assert isinstance(m1.error, NotLeaderOrFollowerError)
    cluster.network.heal_all()
    await cluster.until_in_sync(L, F, G)
    await must_agree(cluster, L, F, G)


def roles_outlive_their_session(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partitions, "drop_roles", lambda self: None)


async def roles_for_a_session_that_is_over() -> None:
    """C makes L the leader, of which L hears only after its session is over, and before it has another. By then
    somebody else may lead: what is said to a broker is for one registration.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(F, L)], ONE)
    cluster.network.cut(host_of(C), host_of(L), "controller")
    cluster.kill(F)
    await cluster.until(lambda: cluster.state().leader == L)
    coord, context = cluster.nodes[L].coord, cluster.nodes[L].broker.context
    assert coord is not None and context is not None
    cluster.expire(L)
    coord.hold("create", broker_path(L))
    await cluster.until(lambda: coord.held)
    assert not context.membership.is_registered
    cluster.network.heal_all()
    await cluster.wait(1)
    must(not cluster.leads(L), "a broker without a session was made a leader")
    coord.release()
    await cluster.until_leads(L)


def roles_are_for_any_registration(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(control._ControlHandler, "_fence", lambda *_: ErrorCode.NONE)


async def broker_that_is_alone() -> None:
    """The only broker, controller and leader of all, loses its session. In the next one it is all that again."""
    cluster = await SimCluster.start(1, {**ONE, "default.replication.factor": "1"})
    await cluster.create_topic([(L,)])
    await cluster.client.produce(L, b"m1")
    cluster.expire(L)
    await cluster.wait(1)
    await cluster.until_leads(L)
    await cluster.client.produce(L, b"m2")
    must_hold(cluster, L, b"m1", b"m2")


async def deaths_in_a_row() -> None:
    """Watches are for one change. Brokers die one after the other, each while the controller is reading who is left."""
    cluster = await SimCluster.start(4, ONE)
    await cluster.create_topic()
    for each in (L, F):
        cluster.kill(each)
        await cluster.wait(0.0007)
    await cluster.until_leads(G)
    assert cluster.state().isr == (G,)


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    leader_without_zookeeper,
    nobody_with_zookeeper,
    leader_whose_session_is_over,
    roles_for_a_session_that_is_over,
    broker_that_is_alone,
    deaths_in_a_row,
]

MUTANTS: list[Any] = [
    (leader_whose_session_is_over, roles_outlive_their_session),
    (roles_for_a_session_that_is_over, roles_are_for_any_registration),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
