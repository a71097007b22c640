"""A session's states, and what becomes of operations meanwhile, on a real ZooKeeper and on the one in memory."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.broker.zookeeper.coord import Closed, ConnectionLoss, Coord, CoordError, SessionState, Set, insist
from tests.broker.zookeeper.worlds import Diary, World

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST


async def test_an_expired_session_is_followed_by_another(coord: Coord, world: World) -> None:
    diary = Diary(coord)
    first = coord.session
    await world.expire(coord)
    assert (await diary.until(LOST)).id == first.id
    second = await coord.connected()
    assert diary.states == [SUSPENDED, LOST, CONNECTED]
    assert second.id not in (first.id, 0)
    assert coord.session == second
    await coord.create("/brief", ephemeral=True)


async def test_a_cut_suspends_the_session_and_fails_what_is_asked(coord: Coord, world: World) -> None:
    await coord.create("/a", b"0")
    diary = Diary(coord)
    first = coord.session
    world.cut(coord)
    assert (await diary.until(SUSPENDED)).id == first.id
    for ask in (coord.get("/a"), coord.set("/a", b"1"), coord.multi(Set("/a", b"1"))):
        with pytest.raises(ConnectionLoss):
            await ask
    world.heal(coord)
    assert await coord.connected() == first
    assert diary.states == [SUSPENDED, CONNECTED]
    assert (await coord.get("/a"))[0] == b"0"


async def test_a_session_that_expires_during_a_cut_is_lost_after_it(coord: Coord, world: World) -> None:
    diary = Diary(coord)
    first = coord.session
    await world.expire(coord)
    world.cut(coord)
    await diary.until(SUSPENDED)
    world.heal(coord)
    assert (await coord.connected()).id != first.id
    assert diary.states == [SUSPENDED, LOST, CONNECTED]


async def test_a_listener_can_be_removed(coord: Coord, world: World) -> None:
    gone, kept = Diary(coord), Diary(coord)
    gone.stop()
    world.drop(coord)
    await kept.until(CONNECTED)
    assert gone.states == []


async def test_a_listener_that_fails_keeps_nobody_from_hearing(coord: Coord, world: World) -> None:
    coord.add_listener(lambda session: 1 // 0)  # type: ignore[arg-type]
    diary = Diary(coord)
    world.drop(coord)
    await diary.until(CONNECTED)


@pytest.mark.parametrize("done", [True, False])
async def test_an_answer_that_is_lost_leaves_the_outcome_open(coord: Coord, world: World, done: bool) -> None:
    await coord.create("/a", b"0")
    diary = Diary(coord)
    session = coord.session
    world.lose_answer(coord, done=done)
    with pytest.raises(ConnectionLoss):
        await coord.set("/a", b"1")
    assert await coord.connected() == session
    assert (await coord.get("/a"))[0] == (b"1" if done else b"0")
    assert diary.states == [SUSPENDED, CONNECTED]


async def test_all_in_flight_fails_with_the_connection(coord: Coord, world: World) -> None:
    world.lose_answer(coord, done=False)
    asked = await asyncio.gather(*(coord.exists(f"/{index}") for index in range(20)), return_exceptions=True)
    assert {type(each) for each in asked} == {ConnectionLoss}


async def test_insisting_asks_until_there_is_an_answer(coord: Coord, world: World) -> None:
    await coord.create("/a", b"0")
    asked = 0

    async def ask() -> bytes:
        nonlocal asked
        asked += 1
        return (await coord.get("/a"))[0]

    world.lose_answer(coord, done=True)
    assert await insist(coord, ask) == b"0"
    # A real connection may break once more on its way back; what is promised is the answer.
    assert asked >= 2


async def test_a_closed_session_is_over_for_good(coord: Coord) -> None:
    diary = Diary(coord)
    waiting = asyncio.gather(coord.get("/"), return_exceptions=True)
    await asyncio.sleep(0)
    await coord.close()
    assert diary.states == [LOST]
    assert isinstance((await waiting)[0], CoordError)
    for ask in (coord.get("/"), coord.create("/a"), coord.connected()):
        with pytest.raises(Closed):
            await ask
    await coord.close()


async def test_closing_ends_waiting_for_a_connection(coord: Coord, world: World) -> None:
    diary = Diary(coord)
    world.cut(coord)
    await diary.until(SUSPENDED)
    waiting = asyncio.create_task(coord.connected())
    await asyncio.sleep(0)
    await coord.close()
    with pytest.raises(Closed):
        await waiting


# Many at a time


async def test_thousands_in_flight(coord: Coord) -> None:
    await coord.create("/n", b"0")
    stats = await asyncio.gather(*(coord.set("/n", b"%d" % index) for index in range(1000)))
    # Sent in the order in which they were asked for.
    assert [stat.version for stat in stats] == list(range(1, 1001))
    assert (await coord.get("/n"))[0] == b"999"


async def test_giving_up_on_an_answer_harms_nobody(coord: Coord) -> None:
    await coord.create("/n", b"0")
    for _ in range(3):
        asked = [asyncio.ensure_future(coord.get("/n")) for _ in range(200)]
        await asyncio.sleep(0)
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    assert (await coord.get("/n"))[0] == b"0"


async def test_sync(coord: Coord, world: World) -> None:
    other = await world.open()
    await other.create("/a")
    await coord.sync()
    assert await coord.exists("/a") is not None
