"""Stopping a broker: others lead in its place, or nobody is left to see to that."""

from __future__ import annotations

import asyncio

from tests.schedules.stage import play
from tests.sim.cluster import SimCluster

L, F, G = 1, 2, 3


async def leader_that_stops() -> None:
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    began = asyncio.get_running_loop().time()
    await cluster.stop(L)
    assert cluster.leads(F)
    assert asyncio.get_running_loop().time() - began < 1


async def leader_that_stops_without_zookeeper() -> None:
    """Nobody can decide who leads then, and whoever stops it does not want to wait for that."""
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    await cluster.client.produce(L, b"m1")
    cluster.stop_zookeeper()
    began = asyncio.get_running_loop().time()
    await cluster.stop(L)
    assert asyncio.get_running_loop().time() - began < 10


def test_a_leader_that_stops_is_followed_by_another_at_once() -> None:
    play(leader_that_stops)


def test_a_broker_that_has_lost_zookeeper_stops_soon() -> None:
    play(leader_that_stops_without_zookeeper)
