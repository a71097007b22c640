"""A real ZooKeeper, started once, and the worlds in which tests of the coordination run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from minikafka.broker.zookeeper.coord import Coord
from minikafka.broker.zookeeper.embedded import ZooKeeperServer
from tests.broker.zookeeper.worlds import MemoryWorld, RealWorld, World


@pytest.fixture(scope="session")
def zookeeper_cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Java's classes are kept between runs, unless pytest is told to keep nothing."""
    cache: pytest.Cache | None = getattr(pytestconfig, "cache", None)
    return tmp_path_factory.mktemp("cache") if cache is None else cache.mkdir("zookeeper")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory, zookeeper_cache: Path) -> Iterator[ZooKeeperServer]:
    """One node. What it acknowledges need not survive a power cut."""
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), is_durable=False, cache=zookeeper_cache)
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.needs("java"))])
def place(request: pytest.FixtureRequest) -> ZooKeeperServer | None:
    # Not by an async fixture: the server is started outside of any test's event loop.
    server: ZooKeeperServer | None = request.getfixturevalue("zookeeper") if request.param == "real" else None
    return server


@pytest.fixture
async def world(place: ZooKeeperServer | None) -> AsyncIterator[World]:
    """A tree of its own, in memory and on a real server in turn."""
    async with MemoryWorld() if place is None else RealWorld(place) as made:
        yield made


@pytest.fixture
async def coord(world: World) -> Coord:
    """The first session in it."""
    return await world.open()


@pytest.fixture
async def real_world(zookeeper: ZooKeeperServer) -> AsyncIterator[RealWorld]:
    async with RealWorld(zookeeper) as made:
        yield made
