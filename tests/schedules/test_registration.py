"""Schedules about registrations: what is meant for one incarnation of a broker is never accepted by another (KIP-380).

A process that was killed leaves its registration behind until its session expires. Whatever the controller sends in the
meantime is meant for the process that died. The next one has lost the unsynced tail of its log, and must neither lead
nor serve before it is registered itself and the controller has reacted to that.

L is the leader, F and G follow. Broker C has no replica: it is the controller.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

from minikafka.broker.handlers import control
from minikafka.broker.network.peer import PeerGone
from minikafka.broker.node import Broker
from minikafka.broker.zookeeper.znodes import broker_path
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from tests.schedules.stage import must, must_agree, must_fail, must_hold, play
from tests.sim.cluster import SESSION_SECONDS, SimCluster

L, F, G, C = 1, 2, 3, 4

ONE = {"min.insync.replicas": "1"}
OFTEN_SYNCED = {"flush.ms": "1000"}
RETRY_SECONDS = 2.0
"""Longer than a channel of the controller pauses between two attempts."""


def _is_registered(cluster: SimCluster, broker_id: int) -> bool:
    context = cluster.nodes[broker_id].broker.context
    return context is not None and context.membership.is_registered


async def _quietly(request: Coroutine[Any, Any, Any]) -> None:
    with suppress(KafkaError, PeerGone):
        await request


async def _lose_power(cluster: SimCluster) -> None:
    """L is back long before its last session expires, with what it had synced."""
    cluster.kill(L, power=True)
    await cluster.wait(0.3)
    cluster.nodes[L].boot()


async def _must_wait_for_registration(cluster: SimCluster) -> None:
    """L has no role and answers nobody until it is registered."""
    while not _is_registered(cluster, L):
        must(not cluster.has_replica(L), "a broker that is not registered has a role")
        with suppress(PeerGone):
            await cluster.client.ask(L, ApiVersionsRequest(), 3)
            must(_is_registered(cluster, L), "a broker that is not registered serves")
        await cluster.wait(0.01)


async def _must_have_all(cluster: SimCluster, *acked: bytes) -> None:
    await cluster.until_in_sync(L, F, G)
    must_hold(cluster, cluster.state().leader, *acked)
    await must_agree(cluster, L, F, G)


# --------------------------------------------------------------------------------------------- R11: a quick restart


async def restart_during_controller_failover() -> None:
    """L loses power with m3, which all have, and F and G do not know yet to be committed. L is back before its session
    expires, and the next controller sends L's roles to the registration of the process that died. If L accepted them,
    it would lead on in the same epoch without m3, and F and G would truncate it.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic(configs=OFTEN_SYNCED)
    for value in (b"m0", b"m1", b"m2"):
        await cluster.client.produce(L, value)
    await cluster.wait(4)
    await cluster.client.produce(L, b"m3")
    await _lose_power(cluster)
    await cluster.wait(0.5)
    cluster.depose_controller()
    await cluster.until(lambda: _is_registered(cluster, L))
    await _must_have_all(cluster, b"m0", b"m1", b"m2", b"m3")


async def restart_with_roles_on_the_way() -> None:
    """L is elected as the preferred leader, and loses power before the controller's request has arrived. The controller
    sends it again, to the registration that L had.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic(configs=OFTEN_SYNCED)
    await cluster.stop(L)
    await cluster.boot(L)
    await cluster.until_in_sync(L, F, G)
    await cluster.wait(4)
    await cluster.client.produce(F, b"m1")
    cluster.background(_quietly(cluster.client.elect_preferred(C)))
    await cluster.until(lambda: cluster.state().leader == L)
    await _lose_power(cluster)
    await _must_wait_for_registration(cluster)
    await _must_have_all(cluster, b"m1")


async def restart_meets_fetches_of_the_old_epoch() -> None:
    """F and G do not hear of another leader for a while: they fetch from L, in the epoch in which L led before it lost
    power. L is registered and has no role in that epoch: nothing is truncated, and m1 is there.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic(configs=OFTEN_SYNCED)
    await cluster.wait(4)
    await cluster.client.produce(L, b"m1")
    for each in (F, G):
        cluster.network.cut(f"broker-{C}", f"broker-{each}", "controller")
    await _lose_power(cluster)
    await _must_wait_for_registration(cluster)
    await cluster.wait(5)
    must(not cluster.leads(L), "a broker leads that lost its log and was replaced")
    for each in (F, G):
        must_hold(cluster, each, b"m1")
    cluster.network.heal_all()
    await _must_have_all(cluster, b"m1")


def port_opens_before_registration(patch: pytest.MonkeyPatch) -> None:
    """And whatever comes is accepted while there is no broker epoch, as it was before KIP-380."""
    replicate = Broker._replicate
    fence = control._ControlHandler._fence

    def listen_early(self: Broker, context: Any) -> None:
        replicate(self, context)
        assert self._server is not None
        self._spawn(self._server.listen(), "a port that opens too early")

    def fence_loosely(self: Any, request: Any) -> ErrorCode:
        if not self._context.membership.is_registered:
            return ErrorCode.NONE
        return fence(self, request)

    patch.setattr(Broker, "_replicate", listen_early)
    patch.setattr(control._ControlHandler, "_fence", fence_loosely)


# ------------------------------------------------------------------------------------- registering in a new session


async def roles_before_the_registration_is_known() -> None:
    """L registers in a new session, and ZooKeeper's answer takes long. The controller sees the registration, elects L
    and sends the role to an epoch of which L does not know yet. L refuses, the controller's channel retries, and L
    leads once it has the answer: the role is neither accepted too early nor lost.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L,)], ONE)
    await cluster.client.produce(L, b"m1")
    coord = cluster.nodes[L].coord
    assert coord is not None
    coord.hold_answer("create", broker_path(L))
    cluster.expire(L)
    await cluster.until(lambda: cluster.state().leader == -1)
    await cluster.until(lambda: cluster.state().leader == L)
    await cluster.wait(1)
    must(not cluster.leads(L), "a broker leads that is not known to be registered")
    coord.release()
    await cluster.wait(RETRY_SECONDS)
    must(cluster.leads(L), "a role was lost that was sent before the registration was known")
    await cluster.client.produce(L, b"m2")
    must_hold(cluster, L, b"m1", b"m2")


def newer_epochs_are_accepted(patch: pytest.MonkeyPatch) -> None:
    def fence(self: Any, request: Any) -> ErrorCode:
        stale = request.broker_epoch < self._context.membership.broker_epoch
        return ErrorCode.STALE_BROKER_EPOCH if stale else ErrorCode.NONE

    patch.setattr(control._ControlHandler, "_fence", fence)


def unknown_epochs_are_stale(patch: pytest.MonkeyPatch) -> None:
    def fence(self: Any, request: Any) -> ErrorCode:
        stale = request.broker_epoch != self._context.membership.broker_epoch
        return ErrorCode.STALE_BROKER_EPOCH if stale else ErrorCode.NONE

    patch.setattr(control._ControlHandler, "_fence", fence)


async def registration_that_is_over_before_it_is_known() -> None:
    """L's answer is on its way when the session of that registration expires as well. What was meant for it does not
    count; L registers a third time, and leads in that registration.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L,)], ONE)
    coord = cluster.nodes[L].coord
    assert coord is not None
    coord.hold_answer("create", broker_path(L))
    cluster.expire(L)
    await cluster.until(lambda: coord.held)
    cluster.expire(L)
    coord.release()
    await cluster.wait(SESSION_SECONDS)
    must(cluster.leads(L), "a broker that registered again got no role")
    await cluster.client.produce(L, b"m1")


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    restart_during_controller_failover,
    restart_with_roles_on_the_way,
    restart_meets_fetches_of_the_old_epoch,
    roles_before_the_registration_is_known,
    registration_that_is_over_before_it_is_known,
]

MUTANTS: list[Any] = [
    (restart_during_controller_failover, port_opens_before_registration),
    (restart_with_roles_on_the_way, port_opens_before_registration),
    (roles_before_the_registration_is_known, newer_epochs_are_accepted),
    (roles_before_the_registration_is_known, unknown_epochs_are_stale),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
