"""Schedules about the controller, sessions with ZooKeeper, and restarts of which somebody does not know.

L is the leader, F and G follow. Broker C has no replica: it is the controller.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.broker.controller import writer
from minikafka.broker.controller.controller import Controller
from minikafka.broker.controller.leaders import Leaders
from minikafka.broker.controller.loading import read_brokers
from minikafka.broker.handlers import control
from minikafka.broker.membership import Membership
from minikafka.broker.replicas import partitions
from minikafka.broker.replicas.flusher import Flusher
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.replication.following import Following
from minikafka.broker.zookeeper.coord import Coord, Op, OpResult, Set
from minikafka.broker.zookeeper.election import Controllership
from minikafka.broker.zookeeper.topic_nodes import state_path
from minikafka.broker.zookeeper.znodes import broker_path
from minikafka.protocol.errors import ErrorCode, NotLeaderOrFollowerError
from tests.schedules.stage import Attempt, must, must_agree, must_fail, must_hold, play
from tests.sim.client import TOPIC, host_of
from tests.sim.cluster import SESSION_SECONDS, SimCluster

L, F, G, C = 1, 2, 3, 4

ONE = {"min.insync.replicas": "1"}


# ------------------------------------------------------------------------------- 19: a controller that is none any more


async def roles_of_a_controller_that_is_none() -> None:
    """C tells L that it leads, which takes long to arrive; then C is stopped, and another controller makes G the
    leader. When L hears what C had to say, that must not count any more; nor what C does when it goes on.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    cluster.network.cut(host_of(C), host_of(L), "controller")
    cluster.kill(F)
    await cluster.until(lambda: cluster.state().leader_epoch == 1)
    cluster.pause(C)
    await cluster.until(lambda: cluster.controller_id not in (None, C))
    await cluster.until(lambda: cluster.partition(L).leader_epoch == 1)
    cluster.expire(L)
    await cluster.until_leads(G)
    await cluster.until(lambda: cluster.partition(L).leader_epoch == cluster.state().leader_epoch)
    cluster.network.heal_all()
    await cluster.wait(0.1)
    must(not cluster.leads(L), "a controller of an earlier epoch was heard")
    cluster.resume(C)
    await cluster.until_in_sync(L, G)
    await cluster.client.produce(G, b"m1")
    must(cluster.controller_id != C and not cluster.nodes[C].broker.is_controller, "there are two controllers")


def whoever_says_it_is_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(control._ControlHandler, "_fence", lambda *_: ErrorCode.NONE)
    patch.setattr(partitions, "_is_news", lambda *_: True)


async def write_of_a_controller_that_is_none() -> None:
    """C writes that F is gone, and that takes long to arrive at ZooKeeper. Meanwhile somebody deposes C, another
    controller is elected, F is back and L gone. What arrives then must not be written, though it is of a live session.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    coord = cluster.nodes[C].coord
    assert coord is not None
    coord.hold("multi", state_path(TOPIC, 0))
    cluster.kill(F)
    await cluster.until(lambda: coord.held)
    cluster.depose_controller()
    await cluster.until(lambda: cluster.controller_id not in (None, C))
    await cluster.boot(F)
    await cluster.until_in_sync(L, F, G)
    cluster.kill(L)
    await cluster.until_leads(F)
    await cluster.client.produce(F, b"m1")
    coord.release()
    await cluster.wait(2)
    must(cluster.state().controller_epoch > 1, "a controller of an earlier epoch has written")
    must_hold(cluster, cluster.state().leader, b"m1")


def writes_are_unconditional(patch: pytest.MonkeyPatch) -> None:
    async def write_fenced(coord: Coord, held: Controllership, *ops: Op) -> tuple[OpResult, ...]:
        return await coord.multi(*(Set(each.path, each.data) if isinstance(each, Set) else each for each in ops))

    patch.setattr(writer, "write_fenced", write_fenced)


async def _election_of_which_the_answer_is_lost(*, is_written: bool) -> None:
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    coord = cluster.nodes[C].coord
    assert coord is not None
    coord.lose_answer("multi", path=state_path(TOPIC, 0), done=is_written)
    cluster.kill(L)
    await cluster.until_leads(F)
    must(cluster.partition(F).leader_epoch == cluster.state().leader_epoch == 1, "an epoch was given twice")
    await cluster.client.produce(F, b"m2")
    await must_agree(cluster, F, G)


async def election_that_was_written_unheard() -> None:
    """8: the controller writes who leads, and does not hear whether it is written. It was: that is found by reading."""
    await _election_of_which_the_answer_is_lost(is_written=True)


async def election_that_was_not_written() -> None:
    """8: the controller writes who leads, and does not hear whether it is written. It was not: it writes again."""
    await _election_of_which_the_answer_is_lost(is_written=False)


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


def registrations_have_no_age(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leaders, "take_over", Leaders.repair)


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
    patch.setattr(Membership, "lost_epoch", property(lambda self: -1, lambda self, epoch: None), raising=False)


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
    roles_of_a_controller_that_is_none,
    write_of_a_controller_that_is_none,
    election_that_was_written_unheard,
    election_that_was_not_written,
    restart_at_one_glance,
    restart_without_a_controller,
    leader_restarts_without_a_controller,
    power_is_gone_everywhere,
    restart_before_the_disk_was_done,
    leader_without_zookeeper,
    nobody_with_zookeeper,
    leader_whose_session_is_over,
    roles_for_a_session_that_is_over,
    broker_that_is_alone,
    deaths_in_a_row,
]

MUTANTS: list[Any] = [
    (roles_of_a_controller_that_is_none, whoever_says_it_is_heard),
    (write_of_a_controller_that_is_none, writes_are_unconditional),
    (restart_at_one_glance, only_ids_of_brokers_count),
    (restart_without_a_controller, registrations_have_no_age),
    (leader_restarts_without_a_controller, registrations_have_no_age),
    (power_is_gone_everywhere, acks_do_not_wait_for_the_disk),
    (restart_before_the_disk_was_done, what_is_found_counts),
    (leader_whose_session_is_over, roles_outlive_their_session),
    (roles_for_a_session_that_is_over, roles_are_for_any_registration),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
