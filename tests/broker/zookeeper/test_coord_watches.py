"""Watches wake, and the reader reads again: no change is missed, on a real ZooKeeper and on the one in memory."""

from __future__ import annotations

import pytest

from minikafka.broker.zookeeper.coord import ConnectionLoss, Coord, NoNode, Set, Waker
from tests.broker.zookeeper.worlds import World


async def test_a_change_of_data_wakes(coord: Coord, world: World) -> None:
    other = await world.open()
    await coord.create("/a", b"0")
    waker = Waker()
    await coord.get("/a", waker)
    await other.set("/a", b"1")
    assert await waker.wait() == ["/a"]
    assert (await coord.get("/a"))[0] == b"1"


async def test_changes_before_the_next_read_are_one(coord: Coord, world: World) -> None:
    other = await world.open()
    await coord.create("/a", b"0")
    waker = Waker()
    await coord.get("/a", waker)
    for value in (b"1", b"2", b"3"):
        await other.set("/a", value)
    assert await waker.wait() == ["/a"]
    # Not armed since: nothing to wake for, whatever comes.
    await other.set("/a", b"4")
    await coord.sync()
    assert not waker.is_woken
    assert (await coord.get("/a", waker))[0] == b"4"


async def test_a_child_that_comes_or_goes_wakes(coord: Coord, world: World) -> None:
    other = await world.open()
    await coord.create("/a")
    waker = Waker()
    assert await coord.children("/a", waker) == []
    await other.create("/a/b", ephemeral=True)
    assert await waker.wait() == ["/a"]
    assert await coord.children("/a", waker) == ["b"]
    await world.expire(other)
    assert await waker.wait() == ["/a"]
    assert await coord.children("/a", waker) == []


@pytest.mark.parametrize("read", ["get", "exists", "children"])
async def test_a_node_that_is_made_wakes_who_missed_it(coord: Coord, world: World, read: str) -> None:
    other = await world.open()
    waker = Waker()
    if read == "exists":
        assert await coord.exists("/later", waker) is None
    else:
        with pytest.raises(NoNode):
            await getattr(coord, read)("/later", waker)
    await other.create("/later")
    assert await waker.wait() == ["/later"]


@pytest.mark.parametrize("read", ["get", "exists", "children"])
async def test_a_node_that_is_deleted_wakes(coord: Coord, world: World, read: str) -> None:
    other = await world.open()
    await coord.create("/a")
    waker = Waker()
    await getattr(coord, read)("/a", waker)
    await other.delete("/a")
    assert await waker.wait() == ["/a"]


async def test_one_waker_for_many_paths_and_many_wakers_for_one(coord: Coord) -> None:
    both, one = Waker(), Waker()
    for path in ("/a", "/b"):
        await coord.create(path)
        await coord.get(path, both)
    await coord.get("/a", one)
    await coord.multi(Set("/b", b"1"), Set("/a", b"1"))
    woken: set[str] = set()
    while woken != {"/a", "/b"}:
        woken.update(await both.wait())
    assert await one.wait() == ["/a"]


async def test_a_forgotten_path_does_not_wake(coord: Coord) -> None:
    kept, forgotten = Waker(), Waker()
    for path in ("/a", "/b"):
        await coord.create(path)
        await coord.get(path, kept)
        await coord.get(path, forgotten)
    coord.forget(forgotten)
    coord.forget(kept, "/a")
    await coord.set("/a", b"1")
    await coord.set("/b", b"1")
    assert await kept.wait() == ["/b"]
    assert not forgotten.is_woken


async def test_a_new_connection_wakes(coord: Coord, world: World) -> None:
    """What changed meanwhile would else be missed: no watch outlives its connection."""
    other = await world.open()
    await coord.create("/a", b"0")
    waker = Waker()
    await coord.get("/a", waker)
    world.cut(coord)
    await other.set("/a", b"1")
    world.heal(coord)
    assert await waker.wait() == ["/a"]
    assert (await coord.get("/a", waker))[0] == b"1"
    await other.set("/a", b"2")
    assert await waker.wait() == ["/a"]


async def test_a_new_session_wakes(coord: Coord, world: World) -> None:
    other = await world.open()
    await coord.create("/a", b"0")
    waker = Waker()
    await coord.get("/a", waker)
    await world.expire(coord)
    assert await waker.wait() == ["/a"]
    await coord.connected()
    await coord.get("/a", waker)
    await other.set("/a", b"1")
    assert await waker.wait() == ["/a"]


async def test_a_read_that_failed_has_armed_the_waker(coord: Coord, world: World) -> None:
    await coord.create("/a")
    waker = Waker()
    world.lose_answer(coord, done=False)
    with pytest.raises(ConnectionLoss):
        await coord.get("/a", waker)
    assert await waker.wait() == ["/a"]
