"""One controller per epoch, and no write of any other, whatever happens to connections and sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

import pytest

from minikafka.broker.zookeeper.coord import (
    BadVersion,
    Coord,
    Create,
    Disconnected,
    MultiFailed,
    NodeExists,
    Op,
    OpResult,
    SessionState,
    Set,
    Waker,
)
from minikafka.broker.zookeeper.election import (
    ControllerFenced,
    Controllership,
    elect,
    find_controller,
    resign,
    write_fenced,
)
from minikafka.broker.zookeeper.znodes import CONTROLLER, CONTROLLER_EPOCH, encode_controller
from tests.broker.zookeeper.worlds import Diary, World
from tests.sim.memory_coord import MemoryCoord
from tests.sim.memory_zookeeper import MemoryZooKeeper

NOW_MS = 1794810104680

losses = pytest.mark.parametrize(("skip", "done"), [(skip, done) for skip in range(4) for done in (True, False)])


async def elected(coord: Coord, broker_id: int) -> Controllership:
    held = await elect(coord, broker_id, NOW_MS)
    assert held is not None
    return held


async def expire(world: World, coord: Coord) -> None:
    """Expire a session, and wait for the next."""
    diary = Diary(coord)
    await world.expire(coord)
    await diary.until(SessionState.LOST)
    await coord.connected()


async def test_the_first_election(coord: Coord) -> None:
    assert await find_controller(coord) is None
    assert await elect(coord, 1, NOW_MS) == (1, 1)
    assert await coord.get(CONTROLLER_EPOCH) == (b"1", await coord.exists(CONTROLLER_EPOCH))
    data, stat = await coord.get(CONTROLLER)
    assert (data, stat.ephemeral_owner) == (encode_controller(1, NOW_MS), coord.session.id)
    assert await find_controller(coord) == 1


async def test_there_is_one_winner(coord: Coord, world: World) -> None:
    coords = [coord, *[await world.open() for _ in range(4)]]
    results = await asyncio.gather(*(elect(each, broker_id, NOW_MS) for broker_id, each in enumerate(coords)))
    (winner,) = [broker_id for broker_id, held in enumerate(results) if held is not None]
    assert results[winner] == (1, 1)
    assert await find_controller(coord) == winner


async def test_epochs_follow_each_other_without_a_gap(coord: Coord, world: World) -> None:
    other = await world.open()
    held = await elected(coord, 1)
    epochs = [held.epoch]
    for old, new, broker_id in ((coord, other, 2), (other, coord, 1), (coord, other, 2)):
        waker = Waker()
        assert await find_controller(new, waker) is not None
        await expire(world, old)
        await waker.wait()
        assert await find_controller(new) is None
        epochs.append((await elected(new, broker_id)).epoch)
    assert epochs == [1, 2, 3, 4]


async def test_kafkas_epoch_is_carried_on(coord: Coord) -> None:
    await coord.create(CONTROLLER_EPOCH, b"11")
    assert (await elected(coord, 1)).epoch == 12


async def test_standing_again_keeps_what_is_held(coord: Coord) -> None:
    held = await elected(coord, 1)
    assert await elect(coord, 1, NOW_MS) == held


@losses
async def test_an_election_with_an_answer_lost(coord: Coord, world: World, skip: int, done: bool) -> None:
    other = await world.open()
    world.lose_answer(coord, skip, done=done)
    held = await elected(coord, 1)
    assert held == (1, 1)
    assert await find_controller(other) == 1
    # In whatever session: it is the version that counts.
    await write_fenced(other, held, Create("/written"))


@pytest.mark.parametrize("done", [True, False])
async def test_an_election_lost_with_its_session(coord: Coord, world: World, done: bool) -> None:
    """Won or not, without an answer; then the session expires, and another broker is elected."""
    other = await world.open()
    await coord.create(CONTROLLER_EPOCH, b"0")
    world.lose_answer(coord, 1, done=done)
    diary = Diary(coord)
    standing = asyncio.create_task(elect(coord, 1, NOW_MS))
    await diary.until(SessionState.SUSPENDED)
    world.cut(coord)
    if await find_controller(other) is None:
        await elected(other, 2)
    world.heal(coord)
    held = await standing
    assert await find_controller(other) == (1 if done else 2)
    assert (held is not None) == done


async def test_writes_of_the_controller(coord: Coord) -> None:
    held = await elected(coord, 1)
    assert await write_fenced(coord, held, Create("/a", b"1"), Create("/b")) == ("/a", "/b")
    (stat,) = await write_fenced(coord, held, Set("/a", b"2", 0))
    assert stat == await coord.exists("/a")


async def test_a_write_that_fails_for_itself(coord: Coord) -> None:
    held = await elected(coord, 1)
    await coord.create("/a")
    for ops, index, cause in (([Create("/a")], 0, NodeExists), ([Create("/b"), Set("/a", b"", 9)], 1, BadVersion)):
        with pytest.raises(MultiFailed) as raised:
            await write_fenced(coord, held, *ops)
        assert (raised.value.index, raised.value.op, type(raised.value.cause)) == (index, ops[index], cause)
    assert await coord.exists("/b") is None


async def test_a_deposed_controller_writes_nothing(coord: Coord, world: World) -> None:
    other = await world.open()
    held = await elected(coord, 1)
    await coord.create("/state", b"of 1")
    await expire(world, coord)
    await elected(other, 2)
    with pytest.raises(ControllerFenced, match="epoch 1 is not the controller's any more"):
        await write_fenced(coord, held, Set("/state", b"of a ghost"))
    # What the check is for: in its new session ZooKeeper would let it write.
    await coord.set("/state", b"unfenced")


async def test_a_controller_that_lost_its_session_writes_until_another_is_elected(coord: Coord, world: World) -> None:
    held = await elected(coord, 1)
    await expire(world, coord)
    await write_fenced(coord, held, Create("/a"))


@losses
async def test_resigning(coord: Coord, world: World, skip: int, done: bool) -> None:
    other = await world.open()
    held = await elected(coord, 1)
    world.lose_answer(coord, skip, done=done)
    await resign(coord, held)
    assert await find_controller(other) is None
    # Nobody else's office is given up by mistake.
    theirs = await elected(other, 2)
    await resign(coord, held)
    assert await find_controller(other) == 2
    assert theirs.epoch == 2


async def test_an_epoch_that_somebody_else_wrote_is_not_ours(coord: Coord) -> None:
    await elected(coord, 1)
    await coord.set(CONTROLLER_EPOCH, b"9")
    assert await elect(coord, 1, NOW_MS) is None


class Slow(MemoryCoord):
    """Things happen between its reading and its writing."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def multi(self, *ops: Op) -> tuple[OpResult, ...]:
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return await super().multi(*ops)


async def test_a_controller_that_came_and_went_meanwhile_keeps_its_epoch() -> None:
    server = MemoryZooKeeper()
    slow, quick = Slow(server), MemoryCoord(server)
    await asyncio.gather(slow.start(), quick.start())

    async def come_and_go() -> None:
        assert (await elected(quick, 2)).epoch == 1
        await quick.close()

    slow.meanwhile = come_and_go
    assert await elect(slow, 1, NOW_MS) is None
    assert (await elected(slow, 1)).epoch == 2


# Anything at any time


class Rivals:
    """Some brokers that want to be the controller and write when they are, on connections that cannot be trusted."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._server = MemoryZooKeeper()
        self.coords = [MemoryCoord(self._server) for _ in range(3)]
        self.winners: dict[int, set[int]] = {}
        self.written: list[int] = []

    async def run(self) -> None:
        await asyncio.gather(*(coord.start() for coord in self.coords))
        await self.coords[0].create("/log", b"0")
        rivals = [asyncio.create_task(self._rival(index, coord)) for index, coord in enumerate(self.coords)]
        for _ in range(300):
            await self._dawdle(20)
            self._harm(self._rng.choice(self.coords))
        for rival in rivals:
            rival.cancel()
        await asyncio.gather(*rivals, return_exceptions=True)

    async def _dawdle(self, turns: int) -> None:
        for _ in range(self._rng.randrange(turns)):
            await asyncio.sleep(0)

    def _harm(self, coord: MemoryCoord) -> None:
        def expire() -> None:
            if self._server.is_alive(coord.session.id):
                self._server.expire(coord.session.id)

        def lose(kind: str) -> None:
            coord.lose_answer(kind, done=self._rng.random() < 0.5)

        harms: list[Callable[[], None]] = [coord.drop, coord.cut, coord.heal, coord.heal, expire]
        harms += [partial(lose, "multi"), partial(lose, "")]
        self._rng.choice(harms)()

    async def _rival(self, index: int, coord: MemoryCoord) -> None:
        waker = Waker()
        held: Controllership | None = None
        while True:
            try:
                if held is not None:
                    await self._write(coord, held)
                elif await find_controller(coord, waker) is not None:
                    await waker.wait()
                elif (held := await elect(coord, index, NOW_MS)) is not None:
                    self.winners.setdefault(held.epoch, set()).add(index)
            except ControllerFenced:
                held = None
            except Disconnected:
                await coord.connected()
            await self._dawdle(3)

    async def _write(self, coord: MemoryCoord, held: Controllership) -> None:
        """Without a version of its own: nothing but the fence keeps an old controller from writing over a new one."""
        await write_fenced(coord, held, Set("/log", b"%d" % held.epoch))
        self.written.append(int(self._server.nodes["/log"].data))


@pytest.mark.parametrize("seed", range(20))
async def test_rivals(seed: int) -> None:
    rivals = Rivals(seed)
    await rivals.run()
    assert all(len(holders) == 1 for holders in rivals.winners.values())
    assert rivals.written == sorted(rivals.written)
    assert len(rivals.winners) > 3
