"""Schedules about sessions with ZooKeeper: what brokers are when all of them have ended."""

from __future__ import annotations

import pytest

from minikafka.broker.replicas.partition import Partition
from tests.schedules.stage import must, must_agree, must_fail, must_hold, play
from tests.sim.cluster import SimCluster

L, F, G, C = 1, 2, 3, 4


async def all_sessions_end_at_once() -> None:
    """ZooKeeper was away for so long that every session is over when it is back. All brokers register anew before
    there is a controller, so it finds everything as it should be and elects nobody. L has given up leading, and has to
    take it up again in the same epoch.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    assert cluster.controller_id == C
    # What a session that ends does to L, and a new controller that finds nobody missing who has a replica.
    cluster.partition(L).resign()
    cluster.kill(C)
    await cluster.until(lambda: cluster.controller_id not in (None, C))
    await cluster.wait(10)
    must(cluster.leads(L), "nobody leads, and nobody will")
    await cluster.client.produce(L, b"m2")
    must_hold(cluster, L, b"m1", b"m2")
    await must_agree(cluster, L, F, G)


def the_same_is_never_news(patch: pytest.MonkeyPatch) -> None:
    def resign(self: Partition) -> None:
        self.leadership = None

    patch.setattr(Partition, "resign", resign)


def test_a_leader_leads_again_after_all_sessions_have_ended() -> None:
    play(all_sessions_end_at_once)


def test_it_would_not_if_it_took_nothing_twice() -> None:
    must_fail(all_sessions_end_at_once, the_same_is_never_news)
