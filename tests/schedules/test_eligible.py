"""Schedules about who may lead when nobody in sync does: eligible leader replicas, and unclean stops (KIP-966).

L is the leader, F and G follow. Broker C has no replica: it is the controller. Two replicas have to be in sync.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.broker.controller.leaders import Leaders
from minikafka.broker.controller.state import Cluster, Partition
from minikafka.broker.replicas.leadership import Leadership
from minikafka.broker.zookeeper.config_nodes import topic_entity
from minikafka.broker.zookeeper.config_store import write_config
from minikafka.broker.zookeeper.topic_nodes import StateNode
from minikafka.broker.zookeeper.znodes import BrokerNode
from minikafka.storage.log_dirs import LogDirs
from tests.schedules.stage import Attempt, must, must_agree, must_fail, must_hold, play
from tests.sim.client import TOPIC
from tests.sim.cluster import SESSION_SECONDS, NotSo, SimCluster
from tests.sim.memory_disk import MemoryDisk

L, F, G, C = 1, 2, 3, 4


async def _until_led(cluster: SimCluster) -> int:
    """Until somebody leads, and knows it."""
    try:
        await cluster.until(lambda: cluster.state().leader > 0 and cluster.leads(cluster.state().leader))
    except NotSo:
        must(False, f"nobody leads: {cluster.state()}")
    return cluster.state().leader


async def last_replica_standing() -> None:
    """F and G do not reach L and leave the ISR. Alone L commits nothing, so both keep all that is committed. L loses
    power and everything: one of them leads at once, and L gets it all back.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    values = [b"m%d" % number for number in range(3)]
    for value in values:
        await cluster.client.produce(L, value)
    for each in (F, G):
        cluster.cut(L, each)
    await cluster.client.produce(L, b"x", acks=1)
    await cluster.until_in_sync(L)
    must(set(cluster.state().elr) == {F, G}, f"who left the ISR is not eligible: {cluster.state()}")
    cluster.kill(L, power=True)
    for each in (F, G):
        cluster.heal(L, each)
    leader = await _until_led(cluster)
    must_hold(cluster, leader, *values)
    await cluster.until_in_sync(F, G)
    await cluster.client.produce(leader, b"m3")
    await cluster.boot(L)
    await cluster.until_in_sync(L, F, G)
    assert cluster.state().elr == ()
    must_hold(cluster, cluster.state().leader, *values, b"m3")
    await must_agree(cluster, L, F, G)


async def eligible_replica_that_lost_power() -> None:
    """F leaves the ISR of L and F and is eligible. Then it loses power and m1, and is back. It is not eligible any
    more: when L dies, L is waited for. L was not stopped in good order either, but nobody else is left.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)])
    cluster.nodes[F].disk.settle()
    await cluster.client.produce(L, b"m1")
    cluster.cut(L, F)
    await cluster.client.produce(L, b"x", acks=1)
    await cluster.until_in_sync(L)
    assert cluster.state().elr == (F,)
    cluster.kill(F, power=True)
    await cluster.wait(2 * SESSION_SECONDS)
    await cluster.boot(F)
    await cluster.wait(1)
    cluster.kill(L)
    await cluster.wait(2 * SESSION_SECONDS)
    if cluster.state().leader == F:
        await cluster.until_leads(F)
        must_hold(cluster, F, b"m1")
    assert cluster.state().leader == -1
    await cluster.boot(L)
    must_hold(cluster, await _until_led(cluster), b"m1")


async def eligible_replica_that_was_stopped() -> None:
    """F leaves the ISR by stopping in good order. L dies for good. F is back, has lost nothing, and leads."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)])
    await cluster.client.produce(L, b"m1")
    await cluster.stop(F)
    await cluster.until_in_sync(L)
    cluster.kill(L, power=True)
    await cluster.until(lambda: cluster.state().leader == -1)
    await cluster.boot(F)
    must_hold(cluster, await _until_led(cluster), b"m1")


async def session_of_an_eligible_replica_ends() -> None:
    """The same if F was not restarted at all, but has registered twice since it was in sync."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)])
    await cluster.client.produce(L, b"m1")
    cluster.cut(L, F)
    cluster.kill(C)
    for _ in range(2):
        before = cluster.broker_epoch(F)
        cluster.expire(F)
        await cluster.until(lambda before=before: cluster.broker_epoch(F) > before)  # type: ignore[misc]
    await cluster.until_in_sync(L)
    cluster.kill(L, power=True)
    must_hold(cluster, await _until_led(cluster), b"m1")


async def everybody_is_killed() -> None:
    """kill -9 of all brokers at once: none was stopped in good order, so all are waited for, and who led last leads."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    values = [b"m%d" % number for number in range(5)]
    for value in values:
        await cluster.client.produce(L, value)
    for each in (C, L, F, G):
        cluster.kill(each)
    await cluster.wait(2 * SESSION_SECONDS)
    await asyncio.gather(*(cluster.nodes[each].boot() for each in (C, G, F, L)))
    leader = await _until_led(cluster)
    must(leader == L, f"broker {leader} leads, not who led last")
    must_hold(cluster, leader, *values)
    await cluster.until_in_sync(L, F, G)
    await cluster.client.produce(leader, b"m5")
    await must_agree(cluster, L, F, G)


async def everybody_is_stopped() -> None:
    """All brokers are stopped in good order. Whichever is back first has everything."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    await asyncio.gather(*(cluster.stop(each) for each in (C, L, F, G)))
    last = cluster.state()
    for each in (C, *last.isr):
        await cluster.boot(each)
    must_hold(cluster, await _until_led(cluster), b"m1")


async def fewer_have_to_be_in_sync() -> None:
    """F is eligible. Then one replica in sync is enough, which L hears before the controller does. L commits nothing
    until the controller has let go of F: F would lead without it.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)])
    cluster.cut(L, F)
    await cluster.client.produce(L, b"x", acks=1)
    await cluster.until_in_sync(L)
    cluster.pause(C)
    node = cluster.nodes[L]
    assert node.coord is not None
    await node.process.spawn(write_config(node.coord, topic_entity(TOPIC), {"min.insync.replicas": "1"}), "config")
    await cluster.until(lambda: cluster.partition(L).min_isr == 1)
    m1 = Attempt(cluster.client.produce(L, b"m1"))
    await cluster.wait(1)
    is_acked = m1.is_acked
    cluster.kill(C)
    cluster.kill(L, power=True)
    cluster.expire_dead()
    must_hold(cluster, await _until_led(cluster), *([b"m1"] if is_acked else []))


async def fewer_have_to_be_in_sync_from_now_on() -> None:
    """The same with a controller that hears of it: L goes on alone."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)])
    cluster.cut(L, F)
    await cluster.client.produce(L, b"x", acks=1)
    await cluster.until_in_sync(L)
    node = cluster.nodes[L]
    assert node.coord is not None
    await node.process.spawn(write_config(node.coord, topic_entity(TOPIC), {"min.insync.replicas": "1"}), "config")
    await cluster.until(lambda: cluster.state().elr == ())
    await cluster.client.produce(L, b"m1")


async def controller_that_has_not_heard_of_the_topic() -> None:
    """One replica in sync is enough by the config of the topic, which the next controller has never read. When L is
    alone it must not believe that F is eligible: L would wait for F for ever.
    """
    cluster = await SimCluster.start(5)
    await cluster.create_topic([(L, F)], {"min.insync.replicas": "1"})
    cluster.kill(5)
    await cluster.until(lambda: cluster.controller_id not in (None, 5))
    assert cluster.controller_id in (G, C)
    cluster.cut(L, F)
    m1 = Attempt(cluster.client.produce(L, b"m1", timeout_ms=25_000))
    await cluster.until(lambda: m1.is_over)
    must(m1.is_acked, f"{m1.error}: {cluster.state()}")


# ------------------------------------------------------------------------------------------------------------- mutants


async def disk_that_was_replaced() -> None:
    """With `fsync` a stop loses nothing, but a disk that is replaced does. All are killed, and L comes back first, with
    an empty disk: F or G is waited for, which have m1.
    """
    cluster = await SimCluster.start(4, {"minikafka.durability": "fsync"})
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    for broker_id in (L, F, G):
        cluster.kill(broker_id)
    cluster.nodes[L].disk = MemoryDisk()
    await cluster.wait(2 * SESSION_SECONDS)
    await cluster.boot(L)
    await cluster.wait(3)
    must(cluster.state().leader != L, f"a broker with an empty disk leads: {cluster.state()}")
    # Nor does it when the directory is not new any more.
    cluster.kill(L)
    await cluster.wait(2 * SESSION_SECONDS)
    await cluster.boot(L)
    await cluster.wait(3)
    must(cluster.state().leader != L, f"a broker that had an empty disk leads: {cluster.state()}")
    for broker_id in (F, G):
        await cluster.boot(broker_id)
    must_hold(cluster, await _until_led(cluster), b"m1")
    await cluster.until_in_sync(L, F, G)
    await must_agree(cluster, L, F, G)


def only_the_isr_may_lead(patch: pytest.MonkeyPatch) -> None:
    completed = Cluster.completed

    def without_elr(self: Cluster, partition: Partition, state: StateNode, *args: Any) -> StateNode:
        return completed(self, partition, state, *args)._replace(elr=())

    patch.setattr(Cluster, "completed", without_elr)


def every_stop_is_clean(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerNode, "has_kept", lambda *_: True)


def new_directories_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogDirs, "has_new", False)


def no_stop_is_clean(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogDirs, "clean_epoch", -1)


def every_registration_is_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerNode, "has_kept", lambda *_: False)


def leaders_commit_without_the_eligible(patch: pytest.MonkeyPatch) -> None:
    accept = Leadership.accept
    patch.setattr(Leadership, "accept", lambda self, isr, epoch, eligible: accept(self, isr, epoch))


def configs_are_known(patch: pytest.MonkeyPatch) -> None:
    async def learn_nothing(*_: Any) -> None:
        """What this broker happens to know has to do."""

    patch.setattr(Leaders, "_learn_min_isr", learn_nothing)


STORIES: list[Any] = [
    last_replica_standing,
    eligible_replica_that_lost_power,
    eligible_replica_that_was_stopped,
    session_of_an_eligible_replica_ends,
    everybody_is_killed,
    everybody_is_stopped,
    fewer_have_to_be_in_sync,
    fewer_have_to_be_in_sync_from_now_on,
    controller_that_has_not_heard_of_the_topic,
    disk_that_was_replaced,
]

MUTANTS: list[Any] = [
    (last_replica_standing, only_the_isr_may_lead),
    (eligible_replica_that_lost_power, every_stop_is_clean),
    (eligible_replica_that_was_stopped, no_stop_is_clean),
    (session_of_an_eligible_replica_ends, every_registration_is_a_restart),
    (controller_that_has_not_heard_of_the_topic, configs_are_known),
    (fewer_have_to_be_in_sync, leaders_commit_without_the_eligible),
    (disk_that_was_replaced, new_directories_count),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
