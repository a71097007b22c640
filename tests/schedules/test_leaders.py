"""Schedules about leaders that come and go: what the next one knows, and what the last one must not do any more.

L is the leader, F and G follow. Broker C has no replica: it is the controller.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from minikafka.broker.handlers import list_offsets
from minikafka.broker.replicas import reading
from minikafka.broker.replicas.commits import Promise
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replication.following import Following
from minikafka.protocol.control import PartitionState
from minikafka.protocol.errors import (
    KafkaError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
)
from tests.schedules.stage import Attempt, must, must_agree, must_fail, must_hold, play
from tests.sim.client import EARLIEST, LATEST, host_of
from tests.sim.cluster import SimCluster

L, F, G, C = 1, 2, 3, 4


# ------------------------------------------------------------------------------ 4: a high watermark that goes backwards


async def new_leader_knows_of_less() -> None:
    """A consumer has seen m2. L dies, and F, which has m2 but does not know that it is committed, leads. Until it does,
    it must not say where the log ends: the consumer would believe that m2 is gone.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    for value in (b"m1", b"m2"):
        await cluster.client.produce(L, value)
    assert await cluster.client.list_offset(L, LATEST) == 2
    cluster.kill(L)
    cluster.cut(F, G)
    await cluster.until_leads(F)
    assert cluster.partition(F).log.high_watermark == 1
    with suppress(OffsetNotAvailableError):
        must(await cluster.client.list_offset(F, LATEST) == 2, "the end of the log went backwards")
    # Where it begins is known, and a consumer that is further is not told that there is no such offset.
    assert await cluster.client.list_offset(F, EARLIEST) == 0
    assert await cluster.client.fetch(F, 2) == []
    cluster.heal(F, G)
    await cluster.until(lambda: cluster.partition(F).log.high_watermark == 2)
    assert await cluster.client.list_offset(F, LATEST) == 2


def end_is_told_before_it_is_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(list_offsets, "_check_known", lambda *_: None)


# ---------------------------------------------------------------------------------------- 5: followers of another epoch


async def follower_of_an_earlier_epoch() -> None:
    """G has a record of an earlier epoch, which all others have cut off, and has not heard that L leads anew. That it
    has as many records as L must not count: when L dies, m1 would be gone.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    cluster.network.cut(host_of(C), host_of(G), "controller")
    await _lose_a_record(cluster)
    await _lead_again(cluster)
    m1 = Attempt(cluster.client.produce(L, b"m1"))
    await cluster.wait(3)
    cluster.kill(L)
    cluster.network.heal_all()
    await cluster.until_leads(G)
    must_hold(cluster, G, *([b"m1"] if m1.is_acked else []))


def epochs_of_fetches_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "check_epoch", lambda self, epoch: None)
    patch.setattr(reading, "_diverging", lambda partition, wanted: None)


async def follower_as_it_was_in_an_earlier_epoch() -> None:
    """The same, but G has heard of everything, and has cut off its record as well. Until it has fetched from L in the
    new epoch, what L knew of it before must not count.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await _lose_a_record(cluster)
    cluster.cut(L, G)
    await _lead_again(cluster)
    m1 = Attempt(cluster.client.produce(L, b"m1"))
    await cluster.wait(3)
    cluster.kill(L)
    await cluster.until_leads(G)
    must_hold(cluster, G, *([b"m1"] if m1.is_acked else []))


async def _lose_a_record(cluster: SimCluster) -> None:
    """L loses its session and the leadership, and with it a record that it and G have; then it follows."""
    cluster.cut(L, F)
    await cluster.client.produce(L, b"lost", acks=1)
    await cluster.until(lambda: cluster.values(G) == [b"lost"])
    await cluster.wait(0.1)
    cluster.expire(L)
    await cluster.until_leads(F)
    cluster.heal(L, F)
    await cluster.until_in_sync(L, F, G)
    await cluster.until(lambda: cluster.values(L) == [])


async def _lead_again(cluster: SimCluster) -> None:
    cluster.kill(F)
    await cluster.until_leads(L)


def followers_are_remembered(patch: pytest.MonkeyPatch) -> None:
    lead, promise = Partition.become_leader, Partition.promise
    known: dict[Partition, dict[int, Any]] = {}

    def become_leader(self: Partition, state: PartitionState) -> None:
        lead(self, state)
        assert self.leadership is not None
        self.leadership.followers.update(known.get(self, {}))
        known[self] = self.leadership.followers

    def promise_by_all_that_is_known(self: Partition, offset: int, acks: int) -> Promise | None:
        self.advance_high_watermark()
        return promise(self, offset, acks)

    patch.setattr(Partition, "become_leader", become_leader)
    patch.setattr(Partition, "promise", promise_by_all_that_is_known)


# ---------------------------------------------------------------------------- 10: an ack that belongs to another leader


async def producer_that_waits_for_a_lost_leadership() -> None:
    """A producer waits for m1 to be committed when L loses the leadership. L follows F, which has another record at
    that offset; when that is committed, it must not be taken for m1.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    cluster.cut(L, F)
    cluster.cut(L, G)
    m1 = Attempt(cluster.client.produce(L, b"m1"))
    await cluster.until(lambda: cluster.values(L) == [b"m1"])
    cluster.expire(L)
    await cluster.until_leads(F)
    await cluster.client.produce(F, b"m2")
    cluster.network.heal_all()
    await must_agree(cluster, L, F, G)
    await cluster.client.produce(F, b"m3")
    await cluster.wait(1)
    must(not m1.is_acked, "what was cut off was acknowledged")
    assert isinstance(m1.error, NotLeaderOrFollowerError)


def acks_go_by_the_offset_alone(patch: pytest.MonkeyPatch) -> None:
    def outcome(self: Promise) -> KafkaError | bool:
        return self.partition.log.high_watermark >= self.offset

    patch.setattr(Promise, "outcome", outcome)


# -------------------------------------------------------------------------------- 27: a role that changes during a wait


async def leader_by_the_time_of_the_cut() -> None:
    """G is about to cut off what its leader F does not have, and has to wait for its disk. Meanwhile F dies, and G
    leads and commits m2. It must not cut any more.
    """
    often = {"log.flush.offset.checkpoint.interval.ms": "500"}
    cluster = await SimCluster.start(4, {"min.insync.replicas": "1", **often})
    await cluster.create_topic(configs={"flush.messages": "1"})
    cluster.cut(L, F)
    await cluster.client.produce(L, b"m1", acks=1)
    await cluster.until(lambda: cluster.values(G) == [b"m1"])
    # Its recovery point is on disk as well, and has to be taken back before the cut.
    await cluster.until(lambda: cluster.recovery_point_on_disk(G) == 1)
    cluster.nodes[G].slowness_seconds = 20
    cluster.kill(L)
    await cluster.until_leads(F)
    await cluster.until(lambda: cluster.partition(G).log.recovery_point == 0)
    cluster.kill(F)
    await cluster.until_leads(G)
    await cluster.client.produce(G, b"m2")
    cluster.nodes[G].slowness_seconds = 0
    await cluster.wait(30)
    must_hold(cluster, G, b"m2")


def roles_are_looked_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Following, "is_current", property(lambda self: True))


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    new_leader_knows_of_less,
    follower_of_an_earlier_epoch,
    follower_as_it_was_in_an_earlier_epoch,
    producer_that_waits_for_a_lost_leadership,
    leader_by_the_time_of_the_cut,
]

MUTANTS: list[Any] = [
    (new_leader_knows_of_less, end_is_told_before_it_is_known),
    (follower_of_an_earlier_epoch, epochs_of_fetches_are_ignored),
    (follower_as_it_was_in_an_earlier_epoch, followers_are_remembered),
    (producer_that_waits_for_a_lost_leadership, acks_go_by_the_offset_alone),
    (leader_by_the_time_of_the_cut, roles_are_looked_at_once),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
