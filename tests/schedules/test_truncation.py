"""Schedules about followers that have to cut their logs: where, and where not.

L is the leader, F and G follow. Broker C has no replica: it is the controller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from minikafka.broker.controller import leader_election
from minikafka.broker.controller.state import Cluster
from minikafka.broker.replicas import reading
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replication.following import Following
from minikafka.broker.zookeeper.topic_nodes import StateNode
from minikafka.protocol.control import PartitionState
from minikafka.protocol.messages.fetch import EpochEndOffset
from minikafka.storage.log import Log
from minikafka.storage.trimming import truncate_to
from tests.schedules.stage import Attempt, must, must_agree, must_fail, must_hold, play
from tests.sim.clock import WALL_MS
from tests.sim.cluster import NotSo, SimCluster

L, F, G, C = 1, 2, 3, 4

ONE = {"min.insync.replicas": "1"}
"""A leader that is alone in sync commits, and nobody else is eligible to lead."""


# ----------------------------------------------------------------------------------------- 1: cut to the high watermark


async def high_watermark_is_late() -> None:
    """L and F hold m1 and m2, both committed; F knows that of m1 only, as it hears of it one fetch later. F gets to
    follow anew, and L dies before F has fetched again. F leads, and m2 must be there.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    for value in (b"m1", b"m2"):
        await cluster.client.produce(L, value)
    cluster.cut(L, F)
    assert cluster.partition(F).log.high_watermark == 1
    cluster.kill(G)
    await cluster.until(lambda: cluster.partition(F).leader_epoch == 1)
    cluster.kill(L)
    await cluster.until_leads(F)
    must_hold(cluster, F, b"m1", b"m2")


def cut_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    follow = Partition.become_follower

    def become_follower(self: Partition, state: PartitionState) -> None:
        truncate_to(self.log, self.log.high_watermark, WALL_MS)
        follow(self, state)

    patch.setattr(Partition, "become_follower", become_follower)


# ------------------------------------------------------------------------------------ 2: other records at equal offsets


async def other_record_at_the_same_offset() -> None:
    """L and F lose power. F comes back first, without m2, leads and writes m3 in its place. When L comes back with m2
    it has as many records as F, and must still find out that its last one is another.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)], ONE)
    await cluster.client.produce(L, b"m1")
    await cluster.until(lambda: cluster.partition(F).log.high_watermark == 1)
    cluster.nodes[F].disk.settle()
    await cluster.client.produce(L, b"m2")
    cluster.nodes[L].disk.settle()
    cluster.kill(L, power=True)
    await cluster.until_leads(F)
    cluster.kill(F, power=True)
    await cluster.until(lambda: cluster.state().leader == -1)
    await cluster.boot(F)
    await cluster.until_leads(F)
    assert cluster.values(F) == [b"m1"]
    await cluster.client.produce(F, b"m3", acks=1)
    await cluster.boot(L)
    assert cluster.values(L) == [b"m1", b"m2"]
    await must_agree(cluster, L, F)
    must_hold(cluster, L, b"m1", b"m3")


def no_comparison_of_epochs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "_diverging", lambda partition, wanted: None)


# ----------------------------------------------------------------------------------------------- 3: two failovers, fast


async def failover_and_back() -> None:
    """A writes m2 in an epoch, B m3 in the next one, and A leads again in a third, all without the other. When B comes
    back, A knows nothing of the epoch of m3: it tells of the one before, and B has to cut back to its own end of that.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)], {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    await _leave_apart(cluster)
    await cluster.boot(L)
    await cluster.until_leads(L)
    await cluster.client.produce(L, b"m4")
    await cluster.boot(F)
    await must_agree(cluster, L, F)
    assert cluster.values(F) == [b"m1", b"m2", b"m4"]


async def failover_and_back_without_a_record() -> None:
    """The same, but A writes nothing in the third epoch. That it has begun must be known all the same: else the largest
    epoch of A is smaller than the one B asks for, and A cannot tell where to cut.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)], {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    await _leave_apart(cluster)
    await cluster.boot(L)
    await cluster.until_leads(L)
    await cluster.boot(F)
    await must_agree(cluster, L, F)
    assert cluster.values(F) == [b"m1", b"m2"]


async def _leave_apart(cluster: SimCluster) -> None:
    """L ends with m1 and m2, F with m1 and m3; both are dead."""
    await cluster.client.produce(L, b"m1")
    cluster.cut(L, F)
    Attempt(cluster.client.produce(L, b"m2", acks=1))
    await cluster.until(lambda: cluster.values(L) == [b"m1", b"m2"])
    cluster.kill(L)
    await cluster.until_leads(F)
    cluster.network.heal_all()
    await cluster.client.produce(F, b"m3")
    cluster.kill(F)
    await cluster.until(lambda: cluster.state().leader == -1)


def cut_only_where_the_leader_says(patch: pytest.MonkeyPatch) -> None:
    async def cut_at(self: Following, diverging: EpochEndOffset) -> None:
        await self._truncate(min(diverging.end_offset, self.partition.log.log_end_offset))

    patch.setattr(Following, "cut_at", cut_at)


def epochs_begin_with_a_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "start_epoch", lambda self, epoch: None)


# ------------------------------------------------------------------------------------- 18: what is committed is not cut


async def leader_that_lost_its_tail() -> None:
    """The last replica in sync loses power and with it m2, which was acknowledged, and leads again. G still has m2 and
    knows that it is committed. It must not throw it away because its leader has less: it stops, for somebody to decide.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, G)], ONE)
    cluster.nodes[L].disk.settle()
    for value in (b"m1", b"m2"):
        await cluster.client.produce(L, value)
    await cluster.until(lambda: cluster.partition(G).log.high_watermark == 2)
    cluster.cut(L, G)
    await cluster.client.produce(L, b"m3", acks=1)
    await cluster.until_in_sync(L)
    cluster.kill(L, power=True)
    await cluster.until(lambda: cluster.state().leader == -1)
    await cluster.boot(L)
    await cluster.until_leads(L)
    assert cluster.values(L) == []
    cluster.network.heal_all()
    await cluster.until(lambda: cluster.partition(G).leader_epoch == cluster.state().leader_epoch)
    await cluster.wait(5)
    must_hold(cluster, G, b"m1", b"m2")
    assert cluster.state().isr == (L,)


def committed_or_not_it_is_cut(patch: pytest.MonkeyPatch) -> None:
    truncate = Following._truncate

    async def _truncate(self: Following, offset: int) -> None:
        self.partition.log.high_watermark = min(offset, self.partition.log.high_watermark)
        await truncate(self, offset)

    patch.setattr(Following, "_truncate", _truncate)


async def _lose_power_together(cluster: SimCluster) -> None:
    """G leaves the ISR of a topic in which two have to be in sync; it knows that m1 is committed. Then L and F lose
    power and all that they had, and L leads.
    """
    await cluster.create_topic()
    for each in (L, F):
        cluster.nodes[each].disk.settle()
    await cluster.client.produce(L, b"m1")
    await cluster.until(lambda: cluster.partition(G).log.high_watermark == 1)
    cluster.cut(L, G)
    await cluster.client.produce(L, b"m2")
    await cluster.until_in_sync(L, F)
    for each in (L, F):
        cluster.kill(each, power=True)
    await cluster.until(lambda: cluster.state().leader == -1)
    for each in (L, F):
        await cluster.boot(each)
    await cluster.until_leads(L)
    assert cluster.values(L) == []


async def leader_after_overlapping_power_losses_is_followed() -> None:
    """Everybody who had all that was committed has lost power. G has m1, which no leader has any more. It follows all
    the same, and the ISR becomes whole.
    """
    cluster = await SimCluster.start(4)
    await _lose_power_together(cluster)
    cluster.network.heal_all()
    await cluster.client.produce(L, b"m3", acks=1)
    try:
        await cluster.until_in_sync(L, F, G)
    except NotSo:
        must(False, f"the ISR does not become whole: {cluster.state()}")
    await must_agree(cluster, L, F, G)
    assert cluster.values(G) == [b"m3"]
    assert not cluster.state().is_recovering


async def replica_that_was_away_for_long_follows_it() -> None:
    """The same if G comes back only when L and F are in sync for long, and F leads by a clean election."""
    cluster = await SimCluster.start(4)
    await _lose_power_together(cluster)
    cluster.kill(G)
    await cluster.until_in_sync(L, F)
    await cluster.client.produce(L, b"m3")
    await cluster.stop(L)
    await cluster.until_leads(F)
    cluster.network.heal_all()
    await cluster.boot(G)
    await cluster.boot(L)
    try:
        await cluster.until_in_sync(L, F, G)
    except NotSo:
        must(False, f"the ISR does not become whole: {cluster.state()}")
    await must_agree(cluster, L, F, G)


async def unclean_leader_may_be_followed() -> None:
    """Where the topic prefers availability, the same replica follows, and ends with what its leader has."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, G)], {"unclean.leader.election.enable": "true"})
    cluster.nodes[L].disk.settle()
    await cluster.client.produce(L, b"m1")
    await cluster.until(lambda: cluster.partition(G).log.high_watermark == 1)
    cluster.kill(G)
    await cluster.until_in_sync(L)
    cluster.kill(L, power=True)
    await cluster.until(lambda: cluster.state().leader == -1)
    await cluster.boot(L)
    await cluster.until_leads(L)
    await cluster.boot(G)
    await must_agree(cluster, L, G)
    assert cluster.values(G) == []


async def _elect_by_request(cluster: SimCluster) -> None:
    """L alone commits m2 and m3, and dies. G, which lacks them, is made the leader on request, and writes m4."""
    await cluster.create_topic([(L, F, G)], {"min.insync.replicas": "1"})
    await cluster.client.produce(L, b"m1")
    for each in (F, G):
        cluster.kill(each)
    await cluster.until_in_sync(L)
    for value in (b"m2", b"m3"):
        await cluster.client.produce(L, value)
    # So that L knows after its restart what was committed.
    await cluster.wait(6)
    cluster.kill(L)
    await cluster.until(lambda: cluster.state().leader == -1)
    await cluster.boot(G)
    await cluster.client.elect_unclean(C)
    await cluster.until_leads(G)
    await cluster.client.produce(G, b"m4")
    await cluster.until(lambda: not cluster.state().is_recovering)


async def unclean_leader_by_request_is_followed() -> None:
    """Who comes back after an unclean election that somebody asked for follows the leader that it brought about, though
    that costs what was acknowledged: it was asked for. Neither a restart nor another leader later changes that.
    """
    cluster = await SimCluster.start(4)
    await _elect_by_request(cluster)
    await cluster.boot(F)
    await cluster.until_in_sync(F, G)
    cluster.kill(G)
    await cluster.until_leads(F)
    await cluster.boot(L)
    await must_agree(cluster, L, F)
    assert cluster.values(L) == [b"m1", b"m4"]
    await cluster.until_in_sync(L, F)


async def leader_that_lost_its_tail_after_an_unclean_one() -> None:
    """L follows the leader that was asked for. Later that one loses power, and with it m5, which L has as committed:
    that nobody has asked for.
    """
    cluster = await SimCluster.start(4)
    await _elect_by_request(cluster)
    await cluster.boot(L)
    await cluster.until_in_sync(L, G)
    await cluster.client.produce(G, b"m5")
    await cluster.until(lambda: cluster.partition(L).log.high_watermark == 3)
    cluster.cut(L, G)
    cluster.kill(L)
    await cluster.until_in_sync(G)
    cluster.kill(G, power=True)
    await cluster.until(lambda: cluster.state().leader == -1)
    await cluster.boot(G)
    await cluster.until_leads(G)
    assert b"m5" not in cluster.values(G)
    cluster.network.heal_all()
    await cluster.boot(L)
    await cluster.wait(5)
    must_hold(cluster, L, b"m5")


def who_was_asked_for_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    encode = StateNode.encode
    patch.setattr(StateNode, "encode", lambda self: encode(self._replace(unclean_epoch=-1)))
    patch.setattr(Cluster, "wire_state", _without_unclean_epoch(Cluster.wire_state))


def _without_unclean_epoch(wire_state: Callable[..., PartitionState]) -> Callable[..., PartitionState]:
    return lambda *args, **named: replace(wire_state(*args, **named), unclean_epoch=-1)


def one_power_loss_is_enough(patch: pytest.MonkeyPatch) -> None:
    recovering = leader_election._recovering
    patch.setattr(leader_election, "_recovering", lambda *args, **_: recovering(*args, may_lose=True))


def who_was_asked_for_may_do_anything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Following, "_may_lose_committed", property(lambda self: self.partition.unclean_epoch >= 0))


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    high_watermark_is_late,
    other_record_at_the_same_offset,
    failover_and_back,
    failover_and_back_without_a_record,
    leader_that_lost_its_tail,
    leader_after_overlapping_power_losses_is_followed,
    replica_that_was_away_for_long_follows_it,
    unclean_leader_may_be_followed,
    unclean_leader_by_request_is_followed,
    leader_that_lost_its_tail_after_an_unclean_one,
]

MUTANTS: list[Any] = [
    (high_watermark_is_late, cut_to_the_high_watermark),
    (other_record_at_the_same_offset, no_comparison_of_epochs),
    (failover_and_back, cut_only_where_the_leader_says),
    (failover_and_back_without_a_record, epochs_begin_with_a_record),
    (leader_that_lost_its_tail, committed_or_not_it_is_cut),
    (leader_that_lost_its_tail, one_power_loss_is_enough),
    (leader_after_overlapping_power_losses_is_followed, who_was_asked_for_is_forgotten),
    (replica_that_was_away_for_long_follows_it, who_was_asked_for_is_forgotten),
    (unclean_leader_by_request_is_followed, who_was_asked_for_is_forgotten),
    (leader_that_lost_its_tail_after_an_unclean_one, who_was_asked_for_may_do_anything),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
