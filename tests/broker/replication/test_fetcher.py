"""Fetchers of real brokers in a simulated world: when they fetch, and when they do not."""

from __future__ import annotations

from tests.schedules.stage import Attempt, play
from tests.sim.cluster import SimCluster

L, F, G, C = 1, 2, 3, 4


async def leader_that_was_away() -> None:
    """G has found L dead and pauses before it tries again. When it is told to follow L, it knows better."""
    cluster = await SimCluster.start(4, {"replica.fetch.backoff.ms": "600000"})
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    cluster.kill(L)
    await cluster.until_leads(F)
    await cluster.boot(L)
    await cluster.until_in_sync(L, F, G)
    await cluster.client.elect_preferred(C)
    await cluster.until_leads(L)
    m2 = Attempt(cluster.client.produce(L, b"m2"))
    await cluster.wait(1)
    assert m2.is_acked


def test_a_fetcher_does_not_pause_when_there_is_something_to_follow() -> None:
    play(leader_that_was_away)
