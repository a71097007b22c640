"""Schedules about coordinators that were replaced and cannot know it: they stop to answer.

C coordinates. A client reaches it all the time, whatever else does not.
"""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.broker.contact import Contact
from minikafka.broker.coordinators.confirming import Confirmer
from minikafka.broker.internal_topics import TRANSACTION_STATE
from minikafka.broker.network.peer import PeerGone
from minikafka.protocol.errors import CoordinatorNotAvailableError, ErrorCode, NotCoordinatorError
from tests.schedules.stage import Violation, must, must_fail, play
from tests.sim.cluster import SESSION_SECONDS, SimCluster
from tests.sim.group_client import COORDINATORS, GroupClient

_MARGIN_SECONDS = 1.0


async def _cluster(**settings: str) -> tuple[SimCluster, GroupClient]:
    cluster = await SimCluster.start(4, {**COORDINATORS, **{k.replace("_", "."): v for k, v in settings.items()}})
    await cluster.create_topic()
    client = GroupClient(cluster)
    await client.start()
    await client.commit(10)
    return cluster, client


async def _must_be_silent(client: GroupClient, broker_id: int) -> None:
    """A coordinator answers nothing, and does not name itself."""
    try:
        offset = await client.fetch_from(broker_id)
    except (NotCoordinatorError, CoordinatorNotAvailableError):
        found = await client.find(broker_id)
        must(found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "clients are sent to who does not answer")
    else:
        raise Violation(f"a coordinator that was replaced says {offset}")


async def _replaced(cluster: SimCluster, client: GroupClient) -> int:
    """Wait for another coordinator to be there and to have committed something; who was it before."""
    old = client.coordinator()
    await cluster.until(lambda: client.coordinator() not in (old, -1) and client.is_coordinated())
    await client.commit(500)
    return old


# -------------------------------------------------------------------------------------------------------------- cut off


async def coordinator_cut_off_from_all() -> None:
    """C reaches neither ZooKeeper nor another broker, for minutes; then it does again."""
    await _cut_off_from_all()


async def coordinator_cut_off_from_all_without_min_isr() -> None:
    """The same where one replica is enough to commit: C cannot conclude anything from being one itself."""
    await _cut_off_from_all(min_insync_replicas="1")


async def _cut_off_from_all(**settings: str) -> None:
    cluster, client = await _cluster(**settings)
    old = client.coordinator()
    cluster.cut_zookeeper(old)
    cluster.isolate(old)
    await cluster.wait(_MARGIN_SECONDS)
    assert await client.fetch_from(old) == 10
    await _replaced(cluster, client)
    for seconds in (0, 60, 120):
        await cluster.wait(seconds)
        await _must_be_silent(client, old)
    cluster.network.heal_all()
    cluster.heal_zookeeper(old)
    await cluster.wait(SESSION_SECONDS)
    must(await client.fetch() == 500, "what was committed last is not known")


async def coordinator_cut_off_from_zookeeper_alone() -> None:
    """C is replaced, and its followers have gone over to the next one, but C reaches them as well as ever."""
    cluster, client = await _cluster()
    cluster.cut_zookeeper(client.coordinator())
    old = await _replaced(cluster, client)
    # Its followers have fetched from it until a moment ago.
    try:
        offset = await client.fetch_from(old)
    except NotCoordinatorError:
        pass
    else:
        raise Violation(f"a coordinator that was replaced says {offset}")
    await cluster.wait(SESSION_SECONDS / 3 + _MARGIN_SECONDS)
    for seconds in (0, 60, 120):
        await cluster.wait(seconds)
        await _must_be_silent(client, old)


async def coordinator_that_was_stopped() -> None:
    """C's process is stopped while it is replaced. A request has come meanwhile, and is the first that it sees."""
    cluster, client = await _cluster()
    old = client.coordinator()
    cluster.pause(old)
    await _replaced(cluster, client)
    question = cluster.background(client.fetch_from(old))
    await cluster.wait(_MARGIN_SECONDS)
    cluster.resume(old)
    try:
        offset = await question
    except NotCoordinatorError:
        return
    raise Violation(f"a coordinator that was replaced says {offset}")


async def transaction_coordinator_cut_off_from_all() -> None:
    """The same for transactions."""
    cluster, client = await _cluster()
    await client.init_producer()
    old = client.coordinator(TRANSACTION_STATE)
    cluster.cut_zookeeper(old)
    cluster.isolate(old)
    await cluster.until(lambda: client.coordinator(TRANSACTION_STATE) not in (old, -1))
    code = await client.describe_transaction(old)
    must(code == ErrorCode.NOT_COORDINATOR, f"a coordinator that was replaced answers {code!r}")
    found = await client.find(old, 1)
    must(found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "clients are sent to who does not answer")


async def verification_by_a_coordinator_that_was_replaced() -> None:
    """A transaction has ended at the next coordinator. A leader that has not heard of that one asks the old one whether
    a late batch belongs to it: written, the batch would open a transaction that nobody ends.
    """
    cluster, client = await _cluster()
    producer = await client.init_producer()
    await client.add_partition(producer)
    old = client.coordinator(TRANSACTION_STATE)
    must(await client.verify(old, producer) == ErrorCode.NONE, "a transaction is not known where it was begun")
    cluster.cut_zookeeper(old)
    await cluster.until(
        lambda: client.coordinator(TRANSACTION_STATE) not in (old, -1) and client.is_coordinated(TRANSACTION_STATE)
    )
    try:
        await client.end(producer)
    except PeerGone:
        # The coordinator was loaded after this connection was opened; a client opens another one.
        await client.end(producer)
    code = await client.verify(old, producer)
    must(code == ErrorCode.NOT_COORDINATOR, f"a coordinator that was replaced vouches for a transaction: {code!r}")


# -------------------------------------------------------------------------------------------------------- still serving


async def coordinator_without_zookeeper() -> None:
    """Nobody reaches ZooKeeper for minutes, so nobody can be replaced. Nothing is written meanwhile, and followers
    say nothing of a partition in which nothing happens."""
    cluster, client = await _cluster()
    old = client.coordinator()
    cluster.stop_zookeeper()
    for seconds in (1, 10, 120):
        await cluster.wait(seconds)
        must(await client.fetch_from(old) == 10, "a coordinator does not answer without ZooKeeper")
    await client.commit(11)
    must(await client.fetch_from(old) == 11, "a coordinator does not commit without ZooKeeper")


async def coordinator_without_zookeeper_and_one_follower() -> None:
    """The same, and one of two followers is cut off as well: alone it cannot commit anything."""
    cluster, client = await _cluster()
    old = client.coordinator()
    follower = next(each for each in client.replicas() if each != old)
    cluster.stop_zookeeper()
    cluster.isolate(follower)
    await cluster.wait(2 * SESSION_SECONDS)
    must(await client.fetch_from(old) == 10, "a coordinator does not answer, and nobody else could")


async def coordinator_without_replicas() -> None:
    """Only C has the partition, so nobody else can lead it."""
    cluster, client = await _cluster(offsets_topic_replication_factor="1", min_insync_replicas="1")
    old = client.coordinator()
    cluster.cut_zookeeper(old)
    cluster.isolate(old)
    await cluster.wait(10 * SESSION_SECONDS)
    must(await client.fetch_from(old) == 10, "a coordinator does not answer, and nobody else could")


# --------------------------------------------------------------------------------------------------- rules switched off


def coordinators_always_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Contact, "may_answer", lambda self, partition: True)
    patch.setattr(Confirmer, "is_needed", False)


def a_fetch_a_moment_ago_is_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Confirmer, "is_needed", False)


def zookeeper_is_needed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Contact, "may_answer", lambda self, partition: self.has_zookeeper)


def a_leader_is_enough(patch: pytest.MonkeyPatch) -> None:
    """As if `min.insync.replicas` were enough, the leader included."""

    def may_answer(self: Contact, partition: Any) -> bool:
        followers = len(partition.leadership.followers)
        return self.has_zookeeper or 1 + followers - len(self._silent(partition)) >= partition.min_isr

    patch.setattr(Contact, "may_answer", may_answer)


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    coordinator_cut_off_from_all,
    coordinator_cut_off_from_all_without_min_isr,
    coordinator_cut_off_from_zookeeper_alone,
    coordinator_that_was_stopped,
    transaction_coordinator_cut_off_from_all,
    verification_by_a_coordinator_that_was_replaced,
    coordinator_without_zookeeper,
    coordinator_without_zookeeper_and_one_follower,
    coordinator_without_replicas,
]

MUTANTS: list[Any] = [
    (coordinator_cut_off_from_all, coordinators_always_answer),
    (coordinator_cut_off_from_zookeeper_alone, a_fetch_a_moment_ago_is_enough),
    (verification_by_a_coordinator_that_was_replaced, a_fetch_a_moment_ago_is_enough),
    (coordinator_that_was_stopped, coordinators_always_answer),
    (transaction_coordinator_cut_off_from_all, coordinators_always_answer),
    (coordinator_cut_off_from_all_without_min_isr, a_leader_is_enough),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)


@pytest.mark.parametrize(
    "story",
    [coordinator_without_zookeeper, coordinator_without_zookeeper_and_one_follower, coordinator_without_replicas],
)
def test_serving_without_zookeeper_needs_its_rule(story: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper_is_needed(monkeypatch)
    with pytest.raises(NotCoordinatorError):
        play(story)
