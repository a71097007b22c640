"""Schedules about brokers that are started again with less than they had, and of which somebody does not know.

L is the leader, F and G follow. Broker C has no replica: it is the controller.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.broker.controller.controller import Controller
from minikafka.broker.controller.leader_election import Standing
from minikafka.broker.controller.loading import read_brokers
from minikafka.broker.controller.state import Cluster
from minikafka.broker.controller.state import Partition as ControllerPartition
from minikafka.broker.replicas.flusher import Flusher
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replication.following import Following
from minikafka.broker.zookeeper.topic_nodes import StateNode
from minikafka.broker.zookeeper.znodes import BROKER_IDS, broker_path
from tests.schedules.stage import Attempt, must, must_agree, must_fail, must_hold, play
from tests.sim.client import TOPIC
from tests.sim.cluster import SESSION_SECONDS, SimCluster

L, F, G, C = 1, 2, 3, 4

ONE = {"min.insync.replicas": "1"}


# -------------------------------------------------------------------------------- 21: restarts with less than there was


async def restart_at_one_glance() -> None:
    """F loses power and m1, and is back before the controller has looked. It is in the ISR as the one it was: it has to
    leave it. When L dies there is no leader, rather than one without m1.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)], ONE)
    cluster.nodes[F].disk.settle()
    await cluster.client.produce(L, b"m1")
    cluster.cut(L, F)
    cluster.pause(C)
    booting = _restart_at_once(cluster, F)
    await cluster.wait(1)
    cluster.resume(C)
    await booting
    await _die_and_come_back(cluster)


def only_ids_of_brokers_count(patch: pytest.MonkeyPatch) -> None:
    on_brokers = Controller._on_brokers

    async def on_brokers_by_id(self: Controller) -> None:
        for each in (await read_brokers(self._writer, self._waker)).values():
            if each.broker_id in self.cluster.brokers:
                self.cluster.brokers[each.broker_id] = each
        self._channels.follow_brokers()
        await on_brokers(self)

    patch.setattr(Controller, "_on_brokers", on_brokers_by_id)
    registrations_have_no_age(patch)


async def restart_without_a_controller() -> None:
    """The same while there is no controller. The next one finds F alive and in the ISR; that F has registered after the
    ISR was written tells it that this is another F.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)], ONE)
    cluster.nodes[F].disk.settle()
    await cluster.client.produce(L, b"m1")
    cluster.cut(L, F)
    cluster.kill(C)
    await _restart_at_once(cluster, F)
    await _die_and_come_back(cluster)


async def leader_restarts_without_a_controller() -> None:
    """L itself loses power and m2 while there is no controller, and is back when the next one comes. It must not lead
    on in the same epoch: whatever it wrote would look to F like what it has.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)], ONE)
    await cluster.client.produce(L, b"m1")
    cluster.nodes[L].disk.settle()
    await cluster.client.produce(L, b"m2")
    cluster.kill(C)
    await _restart_at_once(cluster, L)
    await cluster.until(lambda: cluster.leads(cluster.state().leader))
    must_hold(cluster, cluster.state().leader, b"m1", b"m2")
    await cluster.client.produce(cluster.state().leader, b"m3")
    await must_agree(cluster, L, F)


async def state_that_was_written_after_a_restart() -> None:
    """F loses power and m1, and is back while C is cut off from ZooKeeper. When C is back, it first writes what L has
    proposed before: F and G are in sync. Then C and L die. That state is younger than F, but not about this F: the next
    controller must not let F lead, as long as there is G.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    cluster.cut(L, G)
    m1 = Attempt(cluster.client.produce(L, b"m1"))
    await cluster.until_in_sync(L, F)
    await cluster.until(lambda: m1.is_acked)
    await cluster.wait(1)
    cluster.cut_zookeeper(C)
    cluster.kill(F, power=True)
    cluster.expire_dead()
    cluster.nodes[F].boot()
    await cluster.until(lambda: broker_path(F) in cluster.zookeeper.nodes)
    cluster.heal(L, G)
    await cluster.until(lambda: cluster.partition(L).leadership.proposed is not None)  # type: ignore[union-attr]
    coord = cluster.nodes[C].coord
    assert coord is not None
    coord.hold("children", BROKER_IDS)
    cluster.heal_zookeeper(C)
    await cluster.until_in_sync(L, F, G)
    await cluster.until(lambda: cluster.values(G) == [b"m1"])
    for each in (C, L):
        cluster.kill(each)
    cluster.expire_dead()
    await cluster.until(lambda: cluster.state().leader in (F, G) and cluster.leads(cluster.state().leader))
    must_hold(cluster, cluster.state().leader, b"m1")
    await cluster.until(lambda: cluster.has_replica(F))
    await must_agree(cluster, F, G)


def states_do_not_say_for_whom(patch: pytest.MonkeyPatch) -> None:
    completed = Cluster.completed

    def without_epochs(self: Cluster, partition: ControllerPartition, state: StateNode) -> StateNode:
        return completed(self, partition, state)._replace(broker_epochs={})

    patch.setattr(Cluster, "completed", without_epochs)


def registrations_have_no_age(patch: pytest.MonkeyPatch) -> None:
    def standing(self: Cluster, partition: ControllerPartition, broker_id: int) -> Standing:
        return Standing.SAME if self.is_online(partition.name, broker_id) else Standing.AWAY

    patch.setattr(Cluster, "standing", standing)


def _restart_at_once(cluster: SimCluster, broker_id: int) -> Any:
    """Without power and back before anybody has noticed; done when it serves."""
    cluster.expire(broker_id)
    cluster.kill(broker_id, power=True)
    return cluster.nodes[broker_id].boot()


async def _die_and_come_back(cluster: SimCluster) -> None:
    """L dies and comes back."""
    cluster.kill(L)
    await cluster.until(lambda: cluster.state().leader in (-1, F))
    if cluster.state().leader == F:
        await cluster.until_leads(F)
        must_hold(cluster, F, b"m1")
    await cluster.boot(L)
    await cluster.until_leads(L)
    must_hold(cluster, L, b"m1")


async def power_is_gone_everywhere() -> None:
    """With `fsync` all brokers lose power at once, and whatever was not synced. What was acknowledged is there."""
    cluster = await SimCluster.start(4, {"minikafka.durability": "fsync"})
    await cluster.create_topic()
    values = [b"m%d" % number for number in range(5)]
    for value in values:
        await cluster.client.produce(L, value)
    for each in (C, L, F, G):
        cluster.kill(each, power=True)
    await cluster.wait(2 * SESSION_SECONDS)
    await asyncio.gather(*(cluster.nodes[each].boot() for each in (C, L, F, G)))
    await cluster.until(lambda: cluster.state().leader > 0 and cluster.leads(cluster.state().leader))
    must_hold(cluster, cluster.state().leader, *values)
    await must_agree(cluster, L, F, G)
    # It is known to be committed, too, without another record.
    await cluster.until(lambda: cluster.partition(cluster.state().leader).log.high_watermark == len(values))


async def restart_before_the_disk_was_done() -> None:
    """With `fsync` F has m1 in memory only when it is killed. Started again it finds m1, which may still be on no disk:
    it has to be synced before L hears of it. Else m1 is acknowledged, L and F lose power, and F is alone without m1.
    """
    cluster = await SimCluster.start(4, {"minikafka.durability": "fsync"})
    await cluster.create_topic([(L, F)])
    cluster.nodes[F].disk.settle()
    cluster.nodes[F].slowness_seconds = 5
    m1 = Attempt(cluster.client.produce(L, b"m1", timeout_ms=60_000))
    await cluster.until(lambda: cluster.values(F) == [b"m1"])
    cluster.kill(F)
    await cluster.until_in_sync(L)
    await cluster.boot(F)
    await cluster.wait(2)
    is_acked = m1.is_acked or cluster.state().isr == (L, F)
    for each in (L, F):
        cluster.kill(each, power=True)
    await cluster.until(lambda: cluster.state().leader == -1)
    cluster.nodes[F].slowness_seconds = 0
    await cluster.boot(F)
    await cluster.wait(1)
    if cluster.leads(F):
        must_hold(cluster, F, *([b"m1"] if is_acked else []))
    await cluster.boot(L)
    await cluster.until(lambda: cluster.state().leader > 0 and cluster.leads(cluster.state().leader))
    must_hold(cluster, cluster.state().leader, *([b"m1"] if is_acked else []))


def what_is_found_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Following, "is_on_disk", True)


def acks_do_not_wait_for_the_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "own_end_offset", property(lambda self: self.log.log_end_offset))
    patch.setattr(Following, "is_on_disk", True)
    patch.setattr(Flusher, "request", lambda self, log, offset, callback: True)


# ----------------------------------------------------------------------------------------- 20: what was safe is damaged


async def damage_below_the_recovery_point() -> None:
    """While F is down, a bit of m1 flips on its disk, of which F knew that it was synced. That is no torn end, to be
    cut off: F does without its replica and says so. It is not made the leader, and good copies are not cut to its
    length.
    """
    cluster = await SimCluster.start(4, {"log.flush.offset.checkpoint.interval.ms": "500"})
    await cluster.create_topic([(L, F)], {**ONE, "flush.messages": "1"})
    for value in (b"m1", b"m2"):
        await cluster.client.produce(L, value)
    await cluster.until(lambda: cluster.recovery_point_on_disk(F) == 2)
    cluster.kill(F)
    await cluster.until_in_sync(L)
    cluster.nodes[F].disk.flip_bit(f"/data/{TOPIC}-0/00000000000000000000.log", 70)
    await cluster.boot(F)
    await cluster.wait(20)
    must(cluster.state().isr == (L,), "a damaged replica is in sync")
    cluster.kill(L)
    await cluster.until(lambda: cluster.state().leader == -1)
    await cluster.boot(L)
    await cluster.until_leads(L)
    must_hold(cluster, L, b"m1", b"m2")


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    restart_at_one_glance,
    restart_without_a_controller,
    leader_restarts_without_a_controller,
    state_that_was_written_after_a_restart,
    power_is_gone_everywhere,
    restart_before_the_disk_was_done,
    damage_below_the_recovery_point,
]

MUTANTS: list[Any] = [
    (restart_at_one_glance, only_ids_of_brokers_count),
    (restart_without_a_controller, registrations_have_no_age),
    (leader_restarts_without_a_controller, registrations_have_no_age),
    (state_that_was_written_after_a_restart, states_do_not_say_for_whom),
    (power_is_gone_everywhere, acks_do_not_wait_for_the_disk),
    (restart_before_the_disk_was_done, what_is_found_counts),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
