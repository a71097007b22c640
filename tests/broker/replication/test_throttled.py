"""Replicas that catch up at a rate, in simulated time: by a throttle of their leader, and by their own."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from tests.schedules.stage import play
from tests.sim.cluster import SimCluster

L, F, G = 1, 2, 3

RATE = 100_000
RECORD_BYTES = 10_000
RECORDS = 50
SECONDS = RECORD_BYTES * RECORDS / RATE


async def catch_up(settings: dict[str, str], configs: dict[str, str]) -> tuple[float, float]:
    """How long a replica takes to catch up, and the longest that a producer has to wait meanwhile."""
    cluster = await SimCluster.start(3, {"replica.fetch.max.bytes": str(RECORD_BYTES + 100), **settings})
    await cluster.create_topic(configs=configs)
    cluster.kill(G)
    await cluster.until_in_sync(L, F)
    for _ in range(RECORDS):
        await cluster.client.produce(L, bytes(RECORD_BYTES))
    # What went to F counts, too.
    await cluster.wait(SECONDS)
    await cluster.boot(G)
    loop = asyncio.get_running_loop()
    began, longest = loop.time(), 0.0
    while G not in cluster.state().isr:
        assert loop.time() < began + 10 * SECONDS
        asked = loop.time()
        await cluster.client.produce(L, b"small")
        longest = max(longest, loop.time() - asked)
        await cluster.wait(0.037)
    return loop.time() - began, longest


async def throttled(side: str, replicas: str) -> None:
    settings = {f"{side}.replication.throttled.rate": str(RATE)}
    took, longest = await catch_up(settings, {f"{side}.replication.throttled.replicas": replicas})
    assert 0.9 * SECONDS < took < 1.2 * SECONDS
    # Nobody waits for a replica that is not in sync, and those that are keep up.
    assert longest < 0.05


async def unthrottled(side: str, replicas: str) -> None:
    settings = {f"{side}.replication.throttled.rate": str(RATE)}
    took, _ = await catch_up(settings, {f"{side}.replication.throttled.replicas": replicas})
    assert took < 0.2 * SECONDS


async def in_sync(side: str) -> None:
    """All replicas are in sync, and ten times as much is written as the rate allows."""
    configs = {f"{side}.replication.throttled.replicas": "*"}
    cluster = await SimCluster.start(3, {f"{side}.replication.throttled.rate": str(RATE)})
    await cluster.create_topic(configs=configs)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(RECORDS):
        await cluster.client.produce(L, bytes(RECORD_BYTES))
    assert loop.time() - began < 0.1 * SECONDS
    await cluster.wait(1)
    assert set(cluster.state().isr) == {L, F, G}


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_replicas_in_sync_are_never_held_back(side: str) -> None:
    play(partial(in_sync, side))


@pytest.mark.parametrize(
    ("side", "replicas"), [("leader", "*"), ("leader", "0:1"), ("follower", "*"), ("follower", "0:3")]
)
def test_a_replica_catches_up_at_the_rate(side: str, replicas: str) -> None:
    play(partial(throttled, side, replicas))


@pytest.mark.parametrize(("side", "replicas"), [("leader", ""), ("leader", "0:3"), ("follower", "0:1,0:2")])
def test_others_catch_up_as_fast_as_they_can(side: str, replicas: str) -> None:
    play(partial(unthrottled, side, replicas))
