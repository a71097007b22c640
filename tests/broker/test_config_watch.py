"""Stored configs on their way into a broker: at its start, when they change, and after trouble with the connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from minikafka.broker.config_watch import CHANGES_KEPT_MS, ConfigWatch, refresh, refresh_topics
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.zookeeper.config_nodes import (
    ALL_BROKERS,
    CHANGES,
    Entity,
    broker_entity,
    encode_config,
    topic_entity,
    user_entity,
)
from minikafka.broker.zookeeper.config_store import names_below, write_config
from minikafka.broker.zookeeper.coord import Coord, NoAuth, NoNode, SessionState, Waker
from minikafka.broker.zookeeper.registration import ensure_path, ensure_persistent_paths
from tests.broker.config.recorded import config_of
from tests.broker.zookeeper.worlds import Diary, MemoryWorld, World

TOPIC = topic_entity("t")
SIZE = "max.message.bytes"


class FixedClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def uptime_ms(self) -> int:
        return self.now_ms


class Watched:
    """A broker's configuration, and a way to wait for it to be something."""

    def __init__(self, coord: Coord) -> None:
        self.coord = coord
        self.clock = FixedClock()
        self.live = LiveConfig(config_of({"broker.id": "1"}))
        self.watch = ConfigWatch(coord, self.live, self.clock)
        self.told: list[str | None] = []
        self._news = asyncio.Event()
        self.live.add_listener(self._take)

    def _take(self, topic: str | None) -> None:
        self.told.append(topic)
        self._news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._news.clear()
            await self._news.wait()

    async def until_size(self, size: int, topic: str = "t") -> None:
        await self.until(lambda: self.size(topic) == size)

    def size(self, topic: str = "t") -> int:
        return self.live.topic(topic).log.max_message_bytes


@asynccontextmanager
async def running(coord: Coord) -> AsyncIterator[Watched]:
    await ensure_persistent_paths(coord)
    watched = Watched(coord)
    await watched.watch.load()
    task = asyncio.create_task(watched.watch.run())
    try:
        yield watched
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def store(coord: Coord, entity: Entity, size: int, key: str = SIZE) -> None:
    await write_config(coord, entity, {key: str(size)})


async def test_everything_that_concerns_us_is_there_at_the_start(coord: Coord) -> None:
    await ensure_persistent_paths(coord)
    await store(coord, TOPIC, 5)
    await store(coord, topic_entity("u"), 6)
    await store(coord, ALL_BROKERS, 7, "message.max.bytes")
    await store(coord, broker_entity(1), 8, "log.retention.ms")
    await store(coord, broker_entity(2), 9, "message.max.bytes")
    await store(coord, user_entity("someone"), 10)
    watched = Watched(coord)
    await watched.watch.load()
    assert [watched.size(each) for each in ("t", "u", "other")] == [5, 6, 7]
    assert watched.live.topic("t").log.retention_ms == 8
    assert set(watched.live.stored_topics) == {"t", "u"}


async def test_changes_of_others_come_through(world: World) -> None:
    other = await world.open()
    async with running(await world.open()) as watched:
        await store(other, TOPIC, 5)
        await watched.until_size(5)
        await store(other, ALL_BROKERS, 7, "message.max.bytes")
        await watched.until_size(7, "u")
        await store(other, broker_entity(1), 8, "message.max.bytes")
        await watched.until_size(8, "u")
        await write_config(other, TOPIC, {})
        await watched.until_size(8)
        assert watched.told == ["t", None, None, "t"]


async def test_what_changed_often_is_read_once() -> None:
    async with MemoryWorld() as world:
        coord, other = await world.open(), await world.open()
        async with running(coord) as watched:
            world.cut(coord)
            for size in range(1, 21):
                await store(other, TOPIC, size)
            coord.requests.clear()
            world.heal(coord)
            await watched.until_size(20)
            assert watched.told == ["t"]
            assert len([each for each in coord.requests if each.paths == (TOPIC.node,)]) == 1


async def test_what_changed_without_a_connection_is_made_up_for(world: World) -> None:
    coord, other = await world.open(), await world.open()
    async with running(coord) as watched:
        diary = Diary(coord)
        world.cut(coord)
        await diary.until(SessionState.SUSPENDED)
        await store(other, TOPIC, 5)
        await store(other, broker_entity(1), 6, "message.max.bytes")
        world.heal(coord)
        await watched.until(lambda: (watched.size(), watched.size("u")) == (5, 6))


async def test_after_another_session_everything_is_read(world: World) -> None:
    coord, other = await world.open(), await world.open()
    await ensure_persistent_paths(coord)
    await store(coord, topic_entity("gone"), 3)
    async with running(coord) as watched:
        assert watched.size("gone") == 3
        diary = Diary(coord)
        # Neither is told of in a notification that is still there.
        await ensure_path(other, TOPIC.node, encode_config({SIZE: "5"}))
        await other.delete("/config/topics/gone")
        await world.expire(coord)
        await diary.until(SessionState.LOST)
        await watched.until_size(5)
        assert watched.size("gone") == 1048588
        # And the watch goes on.
        await store(other, TOPIC, 6)
        await watched.until_size(6)


async def test_a_notification_that_nobody_can_read_any_more(world: World) -> None:
    coord, other = await world.open(), await world.open()

    class Forgetful:
        """A Coord on which every notification is gone before it is read."""

        def __getattr__(self, name: str) -> object:
            return getattr(coord, name)

        async def get(self, path: str, waker: object = None) -> object:
            if path.startswith(CHANGES):
                raise NoNode(path)
            return await coord.get(path)

    async with running(Forgetful()) as watched:  # type: ignore[arg-type]
        await store(other, TOPIC, 5)
        await watched.until_size(5)


async def test_a_notification_that_is_none_of_our_business(world: World) -> None:
    """One that may neither be read nor deleted is not the end of the watch."""
    coord, other = await world.open(), await world.open()
    await ensure_persistent_paths(other)
    forbidden = (await other.create(f"{CHANGES}/config_change_", b"", sequence=True)).path

    class Strict:
        """A Coord with an access list on it."""

        def __getattr__(self, name: str) -> object:
            return getattr(coord, name)

        async def get(self, path: str, waker: object = None) -> object:
            if path == forbidden:
                raise NoAuth(path)
            return await coord.get(path)

        async def delete(self, path: str, version: int = -1) -> None:
            if path == forbidden:
                raise NoAuth(path)
            await coord.delete(path, version)

    async with running(Strict()) as watched:  # type: ignore[arg-type]
        watched.clock.now_ms = await made_ms(other, forbidden.rpartition("/")[2]) + CHANGES_KEPT_MS + 1
        for size in (5, 6):
            await store(other, TOPIC, size)
            await watched.until_size(size)


async def test_nonsense_is_told_once_and_changes_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    coord, other = await world.open(), await world.open()
    caplog.set_level(logging.WARNING, "minikafka.broker.config_watch")
    async with running(coord) as watched:
        await store(other, TOPIC, 5)
        await watched.until_size(5)
        await other.set(TOPIC.node, b"nonsense")
        for _ in range(2):
            await other.create(f"{CHANGES}/config_change_", b'{"version":2,"entity_path":"topics/t"}', sequence=True)
        await other.create(f"{CHANGES}/config_change_", b"nonsense, too", sequence=True)
        await other.create(f"{CHANGES}/something", b"")
        await other.create(f"{CHANGES}/config_change_", b'{"version":2,"entity_path":"topics/../ids"}', sequence=True)
        await write_config(other, topic_entity("u"), {SIZE: "many", "retention.ms": "7"})
        await watched.until(lambda: watched.live.overrides("u") == {"retention.ms": "7"})
        await write_config(other, topic_entity("u"), {SIZE: "many", "retention.ms": "8"})
        await watched.until(lambda: watched.live.overrides("u") == {"retention.ms": "8"})
        assert watched.size() == 5
        told = sorted(record.getMessage() for record in caplog.records)
        assert [("/config/changes" in each, "topics/t holds" in each, "topic u" in each) for each in told] == [
            (True, False, False),
            (False, True, False),
            (False, False, True),
        ]


async def test_old_notifications_are_deleted(coord: Coord) -> None:
    await ensure_persistent_paths(coord)
    await store(coord, TOPIC, 1)
    async with running(coord) as watched:
        (old,) = await names_below(coord, CHANGES)
        watched.clock.now_ms = await made_ms(coord, old) + CHANGES_KEPT_MS
        # When the second has come through, all that the first brought about is done.
        for size in (2, 3):
            await store(coord, TOPIC, size)
            await watched.until_size(size)
        assert old in await names_below(coord, CHANGES)
        watched.clock.now_ms += 1
        await store(coord, TOPIC, 4)
        waker = Waker()
        while old in await coord.children(CHANGES, waker):
            await waker.wait()


async def made_ms(coord: Coord, name: str) -> int:
    _, stat = await coord.get(f"{CHANGES}/{name}")
    return stat.ctime_ms


async def test_it_waits_for_the_place_to_be_made(coord: Coord) -> None:
    watched = Watched(coord)
    await watched.watch.load()
    task = asyncio.create_task(watched.watch.run())
    await ensure_persistent_paths(coord)
    await store(coord, TOPIC, 5)
    await watched.until_size(5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_it_ends_with_the_session(coord: Coord) -> None:
    watched = Watched(coord)
    await watched.watch.load()
    await coord.close()
    watched.watch._waker.wake(CHANGES)
    await watched.watch.run()


async def test_reading_again_on_demand(coord: Coord) -> None:
    watched = Watched(coord)
    for name in ("t", "u"):
        await ensure_path(coord, f"/config/topics/{name}", encode_config({SIZE: "5", "nonsense": "1"}))
    (complaint,) = await refresh(coord, watched.live, TOPIC)
    assert "nonsense" in complaint and watched.size() == 5
    assert len(await refresh_topics(coord, watched.live, ["t", "u", "none"])) == 2
    assert watched.told == ["t", "u"]
    assert await refresh(coord, watched.live, user_entity("u")) == ()
    assert await refresh(coord, watched.live, broker_entity(2)) == ()
