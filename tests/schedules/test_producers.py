"""Schedules about idempotent producers: what a leader knows of them that has not heard them itself.

L is the leader, F and G follow..
"""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.broker.replicas.commits import Promise
from minikafka.broker.replicas.early import PATIENCE_MS, EarlyBatches
from minikafka.broker.replicas.partition import Partition
from minikafka.protocol.control import PartitionState
from minikafka.protocol.errors import (
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
)
from minikafka.storage import replay, trimming
from minikafka.storage.recall import Recall
from tests.schedules.stage import Attempt, Violation, must, must_fail, must_hold, play
from tests.sim.client import Sequence5
from tests.sim.cluster import SimCluster

L, F, G = 1, 2, 3


# --------------------------------------------------------------------------------------- 14: a retry at the next leader


async def retry_at_the_next_leader() -> None:
    """A producer does not hear that m1 was written, and sends it again to the next leader. It must be there once, under
    the offset it had.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    first = Sequence5(7, 0, 0)
    assert await cluster.client.produce(L, b"m1", sequence=first) == 0
    cluster.kill(L)
    await cluster.until_leads(F)
    offset = await cluster.client.produce(F, b"m1", sequence=first)
    must((offset, cluster.values(F)) == (0, [b"m1"]), "a record was written twice")


def only_the_leader_knows_its_producers(patch: pytest.MonkeyPatch) -> None:
    lead = Partition.become_leader

    def become_leader(self: Partition, state: PartitionState) -> None:
        self.log.producers.truncate_fully(0)
        lead(self, state)

    patch.setattr(Partition, "become_leader", become_leader)


async def retry_of_what_is_not_committed() -> None:
    """The same, but the next leader has m1 and cannot commit it. A retry is not to be acknowledged before m1 is."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    first = Sequence5(7, 0, 0)
    await cluster.client.produce(L, b"m0")
    cluster.cut(L, G)
    cluster.cut(F, G)
    Attempt(cluster.client.produce(L, b"m1", sequence=first))
    await cluster.until(lambda: cluster.values(F) == [b"m0", b"m1"])
    cluster.kill(L)
    await cluster.until_leads(F)
    retry = Attempt(cluster.client.produce(F, b"m1", sequence=first))
    await cluster.wait(2)
    is_early = retry.is_acked
    cluster.kill(F)
    await cluster.until_leads(G)
    must_hold(cluster, G, *([b"m1"] if is_early else []))


def duplicates_are_acknowledged_at_once(patch: pytest.MonkeyPatch) -> None:
    promise = Partition.promise

    def promise_at_once(self: Partition, offset: int, acks: int) -> Promise | None:
        assert self.leadership is not None
        return None if offset <= self.leadership.start_offset else promise(self, offset, acks)

    patch.setattr(Partition, "promise", promise_at_once)


async def retry_after_everybody_was_restarted() -> None:
    """A producer has five batches under way, and hears of none: the whole cluster is restarted. Snapshots hold only the
    last of them, and it sends all again.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic(configs={"segment.bytes": "200"})
    values = [b"m%d" % number for number in range(5)]
    for number, value in enumerate(values):
        await cluster.client.produce(L, value, sequence=Sequence5(7, 0, number))
    for broker_id in (F, G, L):
        await cluster.stop(broker_id)
    for broker_id in (L, F, G):
        await cluster.boot(broker_id)
    await cluster.until_leads(L)
    for number, value in enumerate(values):
        try:
            offset = await cluster.client.produce(L, value, sequence=Sequence5(7, 0, number))
        except OutOfOrderSequenceNumberError:
            raise Violation("what a producer has sent is not known any more") from None
        must(offset == number, "a retry has got another offset")
    must(cluster.partition(L).log.log_end_offset == len(values), "a record was written twice")


def only_snapshots_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "plan_recall", lambda *_: Recall({}, [], 0))


# ------------------------------------------------------------- 14: a batch that reaches the next leader before its turn


async def batch_before_its_turn() -> None:
    """A producer has m0, m1 and m2 under way when L dies, and hears of none. It sends m2 to the next leader first. If F
    says that m2 is out of order, it begins a new epoch and sends all under other numbers: then m0 is there twice.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m0", sequence=Sequence5(7, 0, 0))
    cluster.kill(L)
    await cluster.until_leads(F)
    await _must_be_asked_again(cluster, F, b"m2", Sequence5(7, 0, 2))
    for number, value in enumerate((b"m0", b"m1", b"m2")):
        assert await cluster.client.produce(F, value, sequence=Sequence5(7, 0, number)) == number
    # Now it knows where to go, and what it leaves out is lost.
    with pytest.raises(OutOfOrderSequenceNumberError):
        await cluster.client.produce(F, b"m4", sequence=Sequence5(7, 0, 4))


async def batch_behind_one_that_was_refused() -> None:
    """The same without another leader: m1 is refused since L has no follower in sync, and m2 comes when it has one."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m0", sequence=Sequence5(7, 0, 0))
    cluster.cut(L, F)
    cluster.cut(L, G)
    await cluster.client.produce(L, b"another's", acks=1)
    await cluster.until_in_sync(L)
    with pytest.raises(NotEnoughReplicasError):
        await cluster.client.produce(L, b"m1", sequence=Sequence5(7, 0, 1))
    cluster.network.heal_all()
    await cluster.until_in_sync(L, F, G)
    await _must_be_asked_again(cluster, L, b"m2", Sequence5(7, 0, 2))
    for number, value in enumerate((b"m1", b"m2"), 1):
        assert await cluster.client.produce(L, value, sequence=Sequence5(7, 0, number)) == number + 1


async def batch_behind_a_first_that_was_refused() -> None:
    """The same, and m0 is the first that the producer ever sends: if L takes m1, m0 is out of order for good."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    cluster.cut(L, F)
    cluster.cut(L, G)
    await cluster.client.produce(L, b"another's", acks=1)
    await cluster.until_in_sync(L)
    with pytest.raises(NotEnoughReplicasError):
        await cluster.client.produce(L, b"m0", sequence=Sequence5(7, 0, 0))
    cluster.network.heal_all()
    await cluster.until_in_sync(L, F, G)
    await _must_be_asked_again(cluster, L, b"m1", Sequence5(7, 0, 1))
    for number, value in enumerate((b"m0", b"m1")):
        assert await cluster.client.produce(L, value, sequence=Sequence5(7, 0, number)) == number + 1


async def batch_after_one_that_never_comes() -> None:
    """Nobody waits for ever: a producer that has given m1 up is told so in the end."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m0", sequence=Sequence5(7, 0, 0))
    cluster.kill(L)
    await cluster.until_leads(F)
    await _must_be_asked_again(cluster, F, b"m2", Sequence5(7, 0, 2))
    await cluster.wait(PATIENCE_MS / 1000 + 1)
    with pytest.raises(OutOfOrderSequenceNumberError):
        await cluster.client.produce(F, b"m2", sequence=Sequence5(7, 0, 2))


async def second_batch_of_a_new_producer() -> None:
    """The same, and m0 is the first that the producer ever sends. If F takes m1, m0 is out of order for good."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    cluster.kill(L)
    await cluster.until_leads(F)
    await _must_be_asked_again(cluster, F, b"m1", Sequence5(7, 0, 1))
    for number, value in enumerate((b"m0", b"m1")):
        assert await cluster.client.produce(F, value, sequence=Sequence5(7, 0, number)) == number
    # What came before may also have been deleted, and then nobody will send it.
    await cluster.wait(PATIENCE_MS / 1000 + 1)
    assert await cluster.client.produce(F, b"another's", sequence=Sequence5(8, 0, 5)) == 2


async def _must_be_asked_again(cluster: SimCluster, leader: int, value: bytes, sequence: Sequence5) -> None:
    try:
        await cluster.client.produce(leader, value, sequence=sequence)
    except NotLeaderOrFollowerError:
        return
    except OutOfOrderSequenceNumberError:
        raise Violation("a producer was told that something is lost that is on its way") from None
    raise Violation("a batch was written before its turn")


def whoever_is_unknown_is_new(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EarlyBatches, "may_be_first", lambda *_: True)


def gaps_are_never_excused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EarlyBatches, "is_excused", lambda *_: False)


# -------------------------------------------------------------------------------- 15: what is known of what was cut off


async def retry_of_what_was_cut_off() -> None:
    """L has m1 alone and loses it when F leads for a while. Then L leads again, and another record takes its place.
    When the producer sends m1 again, L must not believe that it has it.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    cluster.cut(L, F)
    cluster.cut(L, G)
    first = Sequence5(7, 0, 0)
    await cluster.client.produce(L, b"m1", acks=1, sequence=first)
    cluster.expire(L)
    await cluster.until_leads(F)
    cluster.network.heal_all()
    await cluster.until_in_sync(L, F, G)
    assert cluster.values(L) == []
    cluster.kill(F)
    await cluster.until_leads(L)
    await cluster.client.produce(L, b"m2")
    await cluster.client.produce(L, b"m1", sequence=first)
    must_hold(cluster, L, b"m1")


def producers_are_left_as_they_were(patch: pytest.MonkeyPatch) -> None:
    truncate = trimming.truncate_to

    def truncate_to(log: Any, *args: Any) -> bool:
        producers = log.producers
        was_cut = truncate(log, *args)
        log.producers = producers
        return was_cut

    patch.setattr("minikafka.broker.replication.following.truncate_to", truncate_to)


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    retry_at_the_next_leader,
    retry_of_what_is_not_committed,
    retry_after_everybody_was_restarted,
    batch_before_its_turn,
    batch_behind_one_that_was_refused,
    batch_behind_a_first_that_was_refused,
    batch_after_one_that_never_comes,
    second_batch_of_a_new_producer,
    retry_of_what_was_cut_off,
]

MUTANTS: list[Any] = [
    (retry_at_the_next_leader, only_the_leader_knows_its_producers),
    (retry_of_what_is_not_committed, duplicates_are_acknowledged_at_once),
    (retry_after_everybody_was_restarted, only_snapshots_are_believed),
    (batch_before_its_turn, gaps_are_never_excused),
    (batch_behind_one_that_was_refused, gaps_are_never_excused),
    (batch_behind_a_first_that_was_refused, whoever_is_unknown_is_new),
    (second_batch_of_a_new_producer, whoever_is_unknown_is_new),
    (retry_of_what_was_cut_off, producers_are_left_as_they_were),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
