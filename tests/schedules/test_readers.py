"""Schedules about readers whose log changes under them.

L is the leader, F follows. Broker C has no replica: it is the controller.
"""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.broker.replicas.reading import PartitionRead
from minikafka.protocol.errors import CorruptMessageError, CorruptRecord
from tests.schedules.stage import Violation, must, must_agree, must_fail, play
from tests.sim.client import Entry, SimClient
from tests.sim.cluster import SimCluster

L, F, C = 1, 2, 4


# ------------------------------------------------------------------------------- 26: a log that is cut while it is read


async def cut_under_a_reader() -> None:
    """A consumer reads from F what has to come from the disk, and that takes long. Meanwhile F follows a leader that
    was elected out of sync, cuts off what is being read, and gets other records in its place. What the consumer gets
    must be records, and not pieces of two.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic([(L, F)], {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    cluster.nodes[L].disk.settle()
    for number in range(8):
        await cluster.client.produce(L, b"old %d " % number * 20)
    await cluster.until(lambda: cluster.partition(F).log.high_watermark == 8)
    reading = cluster.background(_read(cluster))
    await cluster.wait(1)
    cluster.kill(L, power=True)
    cluster.cut(L, F)
    cluster.expire_dead()
    await cluster.until_leads(F)
    cluster.cut_zookeeper(F)
    await cluster.until(lambda: cluster.state().leader == -1)
    await cluster.boot(L)
    await cluster.until_leads(L)
    for number in range(5):
        await cluster.client.produce(L, b"new %d " % number * 33)
    cluster.heal(L, F)
    cluster.heal_zookeeper(F)
    await must_agree(cluster, L, F)
    assert not reading.done()
    got = await reading
    must(set(got) <= set(cluster.log(F)), f"a reader got {got}")


async def _read(cluster: SimCluster) -> list[Entry]:
    """All that F has, off a slow disk."""
    node = cluster.nodes[F]
    node.disk.is_cold, node.slowness_seconds = True, 30
    try:
        asked = cluster.background(SimClient(cluster.network, "consumer").fetch(F, 1, version=11))
        await cluster.wait(0.1)
        node.disk.is_cold, node.slowness_seconds = False, 0
        return await asked
    except (CorruptRecord, CorruptMessageError) as error:
        raise Violation(f"a reader got what is no record: {error}") from error


def positions_are_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionRead, "_is_same_log", lambda self: True)


STORIES: list[Any] = [cut_under_a_reader]

MUTANTS: list[Any] = [(cut_under_a_reader, positions_are_for_ever)]


@pytest.mark.parametrize("story", STORIES)
def test_schedule(story: Any) -> None:
    play(story)


@pytest.mark.parametrize(("story", "mutation"), MUTANTS)
def test_rule_is_needed(story: Any, mutation: Any) -> None:
    must_fail(story, mutation)
