"""Schedules about log directories: what is made in one while the cluster changes, and one that fails.

L is the leader, F and G follow. Broker C has no replica: it is the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from minikafka.broker.replicas.partitions import Name, Partitions
from minikafka.broker.replicas.turns import Turns
from minikafka.broker.zookeeper import dir_failures
from minikafka.broker.zookeeper.coord import Disconnected
from minikafka.broker.zookeeper.dir_failures import DirFailures
from minikafka.broker.zookeeper.topic_nodes import LOG_DIR_EVENT_PREFIX
from minikafka.broker.zookeeper.znodes import broker_path
from minikafka.storage.errors import StorageError
from minikafka.storage.log_dirs import LogDirs
from tests.schedules.stage import must, must_agree, must_fail, must_hold, play
from tests.sim.client import TOPIC, host_of
from tests.sim.cluster import SimCluster

L, F, G, C = 1, 2, 3, 4

TWO_DIRS = {"log.dirs": "/a,/b"}
SLOW_SECONDS = 4.0
IMPATIENT_SECONDS = 3
IMPATIENT = {"controller.socket.timeout.ms": str(1000 * IMPATIENT_SECONDS)}


def _logs(cluster: SimCluster, broker_id: int, *paths: str) -> list[str]:
    """All that lies in the log directories of a broker and is, or was, the first partition."""
    disk = cluster.nodes[broker_id].disk
    return [f"{path}/{name}" for path in paths for name in disk.list(path) if str(name).startswith(f"{TOPIC}-0")]


async def _make_slowly(cluster: SimCluster) -> None:
    """Have the topic made, with L in the middle of making its log."""
    cluster.nodes[L].slowness_seconds = SLOW_SECONDS
    cluster.background(cluster.client.create_topic(C, [(L, F, G)], {}))
    await cluster.until(lambda: any(each.creating for each in _partitions(cluster, L).log_dirs.dirs))


def _partitions(cluster: SimCluster, broker_id: int) -> Partitions:
    context = cluster.nodes[broker_id].broker.context
    assert context is not None
    return context.partitions


# ------------------------------------------------------------------------------------- a log that is made while ...


async def controller_that_dies_while_a_log_is_made() -> None:
    """C dies while L makes a log, and the connection is lost on which L was told to. The next controller tells all
    roles again. There must be one log in the end: with two, L could never be started again.
    """
    cluster = await SimCluster.start(4, TWO_DIRS)
    await _make_slowly(cluster)
    cluster.kill(C)
    cluster.expire_dead()
    await cluster.until(lambda: cluster.controller_id not in (None, C))
    await cluster.wait(10 * SLOW_SECONDS)
    cluster.nodes[L].slowness_seconds = 0
    must(len(_logs(cluster, L, "/a", "/b")) == 1, f"the log is there as {_logs(cluster, L, '/a', '/b')}")
    await cluster.until_in_sync(L, F, G)
    cluster.kill(L)
    await cluster.boot(L)
    await cluster.until_in_sync(L, F, G)
    await must_agree(cluster, L, F, G)


def work_ends_with_its_request(patch: pytest.MonkeyPatch) -> None:
    def take(self: Turns, act: Callable[[], Awaitable[Any]], name: str) -> asyncio.Future[Any]:
        async def run() -> Any:
            async with self._one_at_a_time:
                return await act()

        return asyncio.ensure_future(run())

    def dir_of(self: LogDirs, name: Name) -> object:
        return next((each for each in self.online if name in each.logs), None)

    patch.setattr(Turns, "take", take)
    patch.setattr(LogDirs, "dir_of", dir_of)


async def session_that_ends_while_a_log_is_made() -> None:
    """L is to lead a new partition, and its session is over before the log is made. F leads; that L has its log now
    is no reason to lead as well.
    """
    cluster = await SimCluster.start(4, TWO_DIRS)
    await _make_slowly(cluster)
    coord = cluster.nodes[L].coord
    assert coord is not None
    cluster.expire(L)
    coord.hold("create", broker_path(L))
    await cluster.until_leads(F)
    await cluster.until(lambda: cluster.has_replica(L))
    await cluster.wait(SLOW_SECONDS)
    must(not cluster.leads(L), "a broker without a session leads")
    cluster.nodes[L].slowness_seconds = 0
    coord.release()
    await cluster.until_in_sync(L, F, G)


def the_fence_is_passed_once(patch: pytest.MonkeyPatch) -> None:
    def drop_roles(self: Partitions) -> None:
        for partition in self.all.values():
            partition.resign()

    patch.setattr(Partitions, "drop_roles", drop_roles)


# ------------------------------------------------------------------------------------------------- a directory fails


def _fail_dir(cluster: SimCluster, broker_id: int) -> None:
    """The disk below the log of the first partition fails; the broker has others."""
    partition = cluster.partition(broker_id)
    cluster.nodes[broker_id].process.run(partition.disk_failure, StorageError("the disk is gone"))


async def directory_that_fails() -> None:
    """One of two disks of L fails. L lives on, and so does its session: it has to say itself that it cannot lead any
    more what was there. F leads then, and has what was acknowledged. What L has on its other disk it still leads.
    """
    cluster = await SimCluster.start(4, TWO_DIRS)
    await cluster.create_topic([(L, F, G), (L, F, G)])
    await cluster.client.produce(L, b"m1")
    _fail_dir(cluster, L)
    await cluster.wait(5)
    must(cluster.state().leader == F and cluster.state().isr == (F, G), f"nobody serves it: {cluster.state()}")
    await cluster.client.produce(F, b"m2")
    must_hold(cluster, F, b"m1", b"m2")
    assert cluster.state(1).leader == L
    await cluster.client.produce(L, b"m3", partition=1)
    must(not _events(cluster), "what the controller has seen to is still there")


async def directory_that_fails_without_zookeeper() -> None:
    """The same while L does not reach ZooKeeper: it says so as soon as it does."""
    cluster = await SimCluster.start(4, TWO_DIRS)
    await cluster.create_topic([(L, F, G), (L, F, G)])
    cluster.cut_zookeeper(L)
    _fail_dir(cluster, L)
    await cluster.wait(1)
    cluster.heal_zookeeper(L)
    await cluster.wait(5)
    must(cluster.state().leader == F, f"nobody serves it: {cluster.state()}")
    assert cluster.state(1).leader == L


async def only_directory_that_fails() -> None:
    """L has one disk, and is about to end when that fails. Whether or not it still says so, the others lead."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    _fail_dir(cluster, L)
    await cluster.wait(0.1)
    cluster.kill(L)
    cluster.expire_dead()
    await cluster.until_leads(F)
    await cluster.client.produce(F, b"m2")
    must_hold(cluster, F, b"m1", b"m2")
    await cluster.boot(L)
    await cluster.until_in_sync(L, F, G)
    await must_agree(cluster, L, F, G)


async def _create_unanswered(cluster: SimCluster) -> None:
    """F has made its log and follows, and has all that is acknowledged; the controller does not know that it has."""
    cluster.network.cut(host_of(F), host_of(C), "controller")
    cluster.background(cluster.client.create_topic(C, [(L, F, G)], {}))
    await cluster.until(lambda: all(map(cluster.has_replica, (L, F, G))) and cluster._is_followed(0, (L, F, G)))
    for value in (b"m1", b"m2"):
        await cluster.client.produce(L, value)


async def _lose_leader(cluster: SimCluster) -> None:
    """L dies, and who is elected has everything."""
    cluster.kill(L)
    await cluster.until(lambda: cluster.state().leader not in (L, -1))
    leader = cluster.state().leader
    await cluster.until_leads(leader)
    must_hold(cluster, leader, b"m1", b"m2")


async def directory_that_fails_before_the_creation_is_answered() -> None:
    """The answer of F that it has made its log is lost. Then the disk below that log fails, and F is asked again, as if
    the partition were new. F has another disk; with an empty log there it would stay in the ISR, and could be elected.
    """
    cluster = await SimCluster.start(4, {**TWO_DIRS, **IMPATIENT})
    await _create_unanswered(cluster)
    _fail_dir(cluster, F)
    await cluster.wait(2 * IMPATIENT_SECONDS)
    cluster.network.heal_all()
    await cluster.wait(2 * IMPATIENT_SECONDS)
    must(not cluster.has_replica(F), "a replica whose directory is offline was made again")
    must(F not in cluster.state().isr, "a replica whose directory is offline is in sync")
    await _lose_leader(cluster)


async def directory_that_is_missing_after_a_restart() -> None:
    """The same, and F is started again without the disk on which its log is. What F had is not known then; F is not
    asked to make the partition as a new one in this registration, and does without.
    """
    cluster = await SimCluster.start(4, TWO_DIRS)
    await _create_unanswered(cluster)
    path = cluster.partition(F).log_dir.path
    cluster.kill(F)
    cluster.nodes[F].disk.fail(lambda op: op.path.startswith(path), is_lasting=True)
    cluster.network.heal_all()
    await cluster.boot(F)
    await cluster.until(lambda: F not in cluster.state().isr)
    await cluster.wait(5)
    must(not cluster.has_replica(F), "a replica whose directory is offline was made again")
    await _lose_leader(cluster)


def offline_partitions_are_made_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogDirs, "check_absent", lambda *_, **__: None)


def _events(cluster: SimCluster) -> list[str]:
    return [path for path in cluster.zookeeper.nodes if path.startswith(LOG_DIR_EVENT_PREFIX)]


def nobody_is_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DirFailures, "add", lambda self, _: None)


def it_is_said_once(patch: pytest.MonkeyPatch) -> None:
    async def once(coord: object, ask: Callable[[], Awaitable[None]]) -> None:
        with suppress(Disconnected):
            await ask()

    patch.setattr(dir_failures, "insist", once)


# ------------------------------------------------------------------------------------------------------------ the tests

STORIES: list[Any] = [
    controller_that_dies_while_a_log_is_made,
    session_that_ends_while_a_log_is_made,
    directory_that_fails,
    directory_that_fails_without_zookeeper,
    only_directory_that_fails,
    directory_that_fails_before_the_creation_is_answered,
    directory_that_is_missing_after_a_restart,
]

MUTANTS: list[Any] = [
    (controller_that_dies_while_a_log_is_made, work_ends_with_its_request),
    (session_that_ends_while_a_log_is_made, the_fence_is_passed_once),
    (directory_that_fails, nobody_is_told),
    (directory_that_fails_without_zookeeper, it_is_said_once),
    (directory_that_fails_before_the_creation_is_answered, offline_partitions_are_made_again),
    (directory_that_is_missing_after_a_restart, offline_partitions_are_made_again),
]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
