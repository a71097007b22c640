"""Schedules about who is in sync, and so about what is committed.

L is the leader, F and G follow. Broker C has no replica: it is the controller.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest

from minikafka.broker.controller import proposals
from minikafka.broker.controller.state import Cluster
from minikafka.broker.replicas.commits import Promise
from minikafka.broker.replicas.leadership import Leadership
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.zookeeper.topic_nodes import StateNode
from minikafka.protocol.control import ProposedPartition
from minikafka.protocol.errors import RequestTimedOutError
from tests.schedules.stage import Attempt, must, must_fail, must_hold, play
from tests.sim.client import host_of
from tests.sim.cluster import LAG_SECONDS, SimCluster

L, F, G, C = 1, 2, 3, 4


# ------------------------------------------------------------------------- 6: a smaller ISR counts before it is decided


async def smaller_isr_that_nobody_wrote() -> None:
    """G does not fetch any more, so L asks the controller for an ISR without it, and gets no answer. What L and F have
    by then must not count as committed: when both die, the controller still has G in the ISR, and makes it the leader.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    cluster.cut(L, G)
    cluster.network.cut(host_of(L), host_of(C))
    m1 = Attempt(cluster.client.produce(L, b"m1"))
    await cluster.wait(2 * LAG_SECONDS)
    assert _leadership(cluster, L).proposed == (L, F)
    acked = [b"m1"] if m1.is_acked else []
    await _elect_without_two(cluster, L, F)
    must_hold(cluster, G, *acked)


def smaller_isr_counts_at_once(patch: pytest.MonkeyPatch) -> None:
    shrink = Partition.shrink_isr

    def propose(self: Leadership, isr: tuple[int, ...]) -> None:
        self.isr = self.proposed = isr
        self.maximal_isr = frozenset(isr)

    def shrink_isr(self: Partition) -> None:
        shrink(self)
        self.advance_high_watermark()

    patch.setattr(Leadership, "propose", propose)
    patch.setattr(Partition, "shrink_isr", shrink_isr)


# --------------------------------------------------------------------------- 6: a larger ISR counts after it is decided


async def larger_isr_of_which_nobody_heard() -> None:
    """G has caught up, and the controller takes it into the ISR; L does not hear the answer. From then on nothing may
    count as committed that G does not have: when L and F die, G leads.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await _drop_out(cluster, G)
    cluster.network.cut(host_of(C), host_of(L))
    cluster.heal(L, G)
    await cluster.until(lambda: cluster.state().isr == (L, F, G))
    assert _leadership(cluster, L).isr == (L, F)
    cluster.cut(L, G)
    m2 = Attempt(cluster.client.produce(L, b"m2"))
    # Until then G looks as if it were about to join anyway.
    await cluster.wait(2 * LAG_SECONDS)
    await cluster.client.produce(L, b"m3", acks=1)
    await cluster.wait(1)
    await _elect_without_two(cluster, L, F)
    must_hold(cluster, G, *([b"m2"] if m2.is_acked else []))


def larger_isr_counts_when_heard_of(patch: pytest.MonkeyPatch) -> None:
    def propose(self: Leadership, isr: tuple[int, ...]) -> None:
        self.proposed = isr

    patch.setattr(Leadership, "propose", propose)


# ------------------------------------------------------------------------------ 7: in sync with less than was committed


async def in_sync_before_the_epoch() -> None:
    """m1 is committed by L and F, of which F has not heard. L dies, F leads with m1 above its high watermark. G, which
    was out of sync, has all below the high watermark, but not m1: it must not come into the ISR before it has.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    # What G will ask F is heard, what it is answered is not.
    cluster.network.cut(host_of(F), host_of(G), "follower")
    await _drop_out(cluster, G)
    cluster.kill(L)
    await cluster.until_leads(F)
    log = cluster.partition(F).log
    assert (log.high_watermark, log.log_end_offset) == (1, 2)
    await cluster.wait(3)
    is_elected = cluster.state().isr == (F, G)
    cluster.kill(F)
    if is_elected:
        await cluster.until_leads(G)
        must_hold(cluster, G, b"m1")
    await cluster.until(lambda: cluster.state().leader == -1)
    # Both have lost nothing, but nobody can know. So both are waited for, and then F goes on, which led last.
    for each in (L, F):
        await cluster.boot(each)
    await cluster.until_leads(F)
    must_hold(cluster, F, b"m1")


def committed_is_enough_to_join(patch: pytest.MonkeyPatch) -> None:
    may_join = Leadership.may_join

    def may_join_early(self: Leadership, *args: Any) -> bool:
        start, self.start_offset = self.start_offset, 0
        try:
            return may_join(self, *args)
        finally:
            self.start_offset = start

    patch.setattr(Leadership, "may_join", may_join_early)


# ---------------------------------------------------------------------------- 7: in sync as who it was before a restart


async def in_sync_before_a_restart() -> None:
    """G has caught up, and L asks for it to be in the ISR; the request is on its way for long. Meanwhile G loses power
    and its records, and comes back. The request was about another G, and must not be granted.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await _drop_out(cluster, G)
    cluster.network.cut(host_of(L), host_of(C), "broker")
    cluster.heal(L, G)
    await cluster.until(lambda: _leadership(cluster, L).proposed == (L, F, G))
    cluster.kill(G, power=True)
    await cluster.until(lambda: G not in _known_brokers(cluster))
    await cluster.boot(G)
    # It is to be taken for who it is: it says so with every fetch.
    cluster.cut(L, G)
    cluster.network.heal(host_of(L), host_of(C), "broker")
    await cluster.wait(1)
    if cluster.state().isr == (L, F, G):
        await _elect_without_two(cluster, L, F)
        must_hold(cluster, G, b"m1")
    assert cluster.state().isr == (L, F)


async def in_sync_after_a_restart() -> None:
    """The same, but the request is lost, and asked again when G is back and fetches: it still is about the G of before,
    whoever has fetched since.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await _drop_out(cluster, G)
    cluster.network.cut(host_of(L), host_of(C), "broker")
    cluster.heal(L, G)
    await cluster.until(lambda: _leadership(cluster, L).proposed == (L, F, G))
    cluster.kill(G, power=True)
    await cluster.until(lambda: G not in _known_brokers(cluster))
    # What it asks is heard, what it is answered is not.
    cluster.network.cut(host_of(L), host_of(G), "follower")
    await cluster.boot(G)
    await cluster.until(lambda: _leadership(cluster, L).followers[G].log_end_offset == 0)
    cluster.network.reset(host_of(L), host_of(C))
    cluster.network.heal(host_of(L), host_of(C), "broker")
    await cluster.wait(1)
    if cluster.state().isr == (L, F, G):
        await _elect_without_two(cluster, L, F)
        must_hold(cluster, G, b"m1")
    assert cluster.state().isr == (L, F)


def any_process_of_a_broker_will_do(patch: pytest.MonkeyPatch) -> None:
    def check_isr(*_: object) -> None:
        return

    patch.setattr(proposals, "_check_isr", check_isr)


# ------------------------------------------------------------------------------- 8: an ISR that is written over another


async def proposal_of_a_deposed_leader() -> None:
    """L proposes an ISR without G; it is on its way for long. Meanwhile F is made the leader, and commits m2 with G.
    What L has proposed was about another time: written now, it would make L a leader that lacks m2.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(F, L, G)])
    await _restart(cluster, F)
    await cluster.until_in_sync(L, F, G)
    cluster.cut(L, G)
    await cluster.client.produce(L, b"m1", acks=1)
    cluster.network.cut(host_of(L), host_of(C), "broker")
    await cluster.until(lambda: _leadership(cluster, L).proposed == (L, F))
    # L does not hear that it is not the leader any more, and is reached by nobody.
    cluster.network.cut(host_of(C), host_of(L))
    cluster.cut(L, F)
    await cluster.client.elect_preferred(C)
    await cluster.until_leads(F)
    await cluster.until_in_sync(F, G)
    await cluster.client.produce(F, b"m2")
    cluster.network.heal(host_of(L), host_of(C), "broker")
    await cluster.wait(1)
    cluster.kill(F)
    cluster.network.heal_all()
    await cluster.until(lambda: cluster.state().leader not in (F, -1) and cluster.leads(cluster.state().leader))
    must_hold(cluster, cluster.state().leader, b"m2")


def proposals_are_written_as_they_come(patch: pytest.MonkeyPatch) -> None:
    def decide(
        cluster: Cluster, broker_id: int, proposed: ProposedPartition, controller_epoch: int
    ) -> StateNode | None:
        partition = proposals.find(cluster, proposed)
        assert partition.state is not None
        isr = tuple(each.broker_id for each in proposed.isr)
        return StateNode(broker_id, partition.state.leader_epoch, isr, controller_epoch)

    patch.setattr(proposals, "decide", decide)


# ---------------------------------------------------------------------------- 9: too few in sync by the time of the ack


async def too_few_in_sync_after_the_append() -> None:
    """m1 is written while two are in sync, then it is L alone. That is no ack: L loses power, F leads without m1."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)])
    cluster.nodes[L].disk.settle()
    cluster.cut(L, F)
    m1 = Attempt(cluster.client.produce(L, b"m1", timeout_ms=25_000))
    await cluster.until(lambda: m1.is_over)
    assert cluster.state().isr == (L,)
    cluster.kill(L, power=True)
    await cluster.until_leads(F)
    must_hold(cluster, F, *([b"m1"] if m1.is_acked else []))
    assert isinstance(m1.error, RequestTimedOutError)


def enough_at_the_append_is_enough(patch: pytest.MonkeyPatch) -> None:
    """Min ISR is then a matter of `append` only."""
    advance = Partition.advance_high_watermark

    def advance_anyway(self: Partition) -> None:
        wanted, self.min_isr = self.min_isr, 1
        if self.leadership is not None:
            self.leadership.eligible = ()
        try:
            advance(self)
        finally:
            self.min_isr = wanted

    patch.setattr(Partition, "advance_high_watermark", advance_anyway)
    patch.setattr(Promise, "outcome", lambda self: self.partition.log.high_watermark >= self.offset)


# ------------------------------------------------------------------------------------------------------------ the parts


def _leadership(cluster: SimCluster, broker_id: int) -> Leadership:
    leadership = cluster.partition(broker_id).leadership
    assert leadership is not None
    return leadership


def _known_brokers(cluster: SimCluster) -> Container[int]:
    """The brokers that L believes to be alive."""
    return cluster.nodes[L].broker.metadata.brokers


async def _drop_out(cluster: SimCluster, broker_id: int) -> None:
    """A follower has m0, is cut off from L, and falls out of sync: m1 is committed without it."""
    await cluster.client.produce(L, b"m0")
    cluster.cut(L, broker_id)
    await cluster.client.produce(L, b"m1")
    assert broker_id not in cluster.state().isr


async def _restart(cluster: SimCluster, broker_id: int) -> None:
    cluster.kill(broker_id)
    await cluster.until(lambda: broker_id not in cluster.state().isr)
    await cluster.boot(broker_id)


async def _elect_without_two(cluster: SimCluster, one: int, other: int) -> None:
    """Two die at once, and G is made the leader if it is in the ISR."""
    cluster.kill(one)
    cluster.kill(other)
    await cluster.until_leads(G)


# --------------------------------------------------------------------- nothing more to say, and not in sync


async def caught_up_at_the_wrong_moment() -> None:
    """F and G come back with all there is. They say so once, and that may be before L knows that they are alive, or
    while L is asking for the other. Nothing is written, so they have nothing more to fetch.
    """
    cluster = await SimCluster.start(4)
    # Else they were eligible, and the leader gets another epoch when they are not any more.
    await cluster.create_topic(configs={"min.insync.replicas": "1"})
    await cluster.client.produce(L, b"m1")
    await cluster.wait(1)
    for broker_id in (F, G):
        cluster.kill(broker_id)
    await cluster.until_in_sync(L)
    # So that L hears of them last.
    cluster.network.cut(host_of(C), host_of(L))
    for broker_id in (F, G):
        await cluster.boot(broker_id)
    await cluster.wait(2)
    cluster.network.heal(host_of(C), host_of(L))
    await cluster.wait(10)
    must(set(cluster.state().isr) == {L, F, G}, "nobody gets into the ISR, and so nothing can be written")
    await cluster.client.produce(L, b"m2")
    must_hold(cluster, L, b"m1", b"m2")


def looked_at_when_they_fetch_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "expand_isr", lambda self: None)


STORIES: list[Any] = [
    smaller_isr_that_nobody_wrote,
    larger_isr_of_which_nobody_heard,
    in_sync_before_the_epoch,
    in_sync_before_a_restart,
    in_sync_after_a_restart,
    proposal_of_a_deposed_leader,
    too_few_in_sync_after_the_append,
    caught_up_at_the_wrong_moment,
]

MUTANTS: list[Any] = [
    (smaller_isr_that_nobody_wrote, smaller_isr_counts_at_once),
    (larger_isr_of_which_nobody_heard, larger_isr_counts_when_heard_of),
    (in_sync_before_the_epoch, committed_is_enough_to_join),
    (in_sync_before_a_restart, any_process_of_a_broker_will_do),
    (in_sync_after_a_restart, any_process_of_a_broker_will_do),
    (proposal_of_a_deposed_leader, proposals_are_written_as_they_come),
    (too_few_in_sync_after_the_append, enough_at_the_append_is_enough),
    (caught_up_at_the_wrong_moment, looked_at_when_they_fetch_only),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
