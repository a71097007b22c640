"""Random operations on a real ZooKeeper and on the one in memory: the same answers, the same wakes, the same tree."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.broker.zookeeper.coord import (
    Check,
    Coord,
    CoordError,
    Create,
    Created,
    Delete,
    MultiFailed,
    Op,
    SessionState,
    Set,
    Stat,
    Waker,
)
from minikafka.broker.zookeeper.embedded import ZooKeeperServer
from tests.broker.zookeeper.worlds import Diary, MemoryWorld, RealWorld, World

T = TypeVar("T")

SESSIONS = 2
PATHS = ("/a", "/a/x", "/a/y", "/a/x/z")
# Begun with, or random steps would mostly find nothing.
GIVEN = PATHS[:2]


@dataclass(frozen=True)
class Read:
    """A question, perhaps with a waker."""

    kind: str
    path: str
    is_watching: bool


@dataclass(frozen=True)
class Write:
    """One operation, or several in a transaction."""

    ops: tuple[Op, ...]


@dataclass(frozen=True)
class Trouble:
    """The session expires, or only the connection breaks."""

    is_expiry: bool


# And whose it is.
Step: TypeAlias = tuple[int, Read | Write | Trouble]


def often(*weighted: tuple[int, st.SearchStrategy[T]]) -> st.SearchStrategy[T]:
    """One of several, each so often."""
    return st.sampled_from([each for weight, each in weighted for _ in range(weight)]).flatmap(lambda each: each)


paths = st.sampled_from(PATHS)
versions = st.sampled_from([-1, -1, 0, 0, 1, 2])
data = st.sampled_from([b"", b"1", b"22"])
creations = often(
    (4, st.builds(Create, paths)),
    # Not all paths: nothing can be made below it.
    (1, st.builds(Create, st.sampled_from(PATHS[1:]), data, ephemeral=st.just(True))),
    (2, st.builds(Create, paths, data, st.booleans(), sequence=st.just(True))),
)
ops: st.SearchStrategy[Op] = often(
    (4, creations), (2, st.builds(Set, paths, data, versions)), (2, st.builds(Delete, paths, versions))
)
checked: st.SearchStrategy[Op] = often((3, ops), (1, st.builds(Check, paths, versions)))
steps = st.tuples(
    st.integers(0, SESSIONS - 1),
    often(
        (12, st.builds(Read, st.sampled_from(["get", "exists", "children"]), paths, st.booleans())),
        (12, ops.map(lambda op: Write((op,)))),
        (6, st.lists(checked, min_size=2, max_size=4).map(lambda some: Write(tuple(some)))),
        (1, st.builds(Trouble, st.booleans())),
    ),
)


class Zxid(int):
    """A number of which only the order means anything."""


class Run:
    """One world, and what was seen in it."""

    def __init__(self, world: World, coords: Sequence[Coord]) -> None:
        self._world = world
        self._coords = coords
        self._wakers = [Waker() for _ in coords]
        self._names = {0: "nobody"}
        self.seen: list[object] = []

    async def do(self, step: Step) -> None:
        index, what = step
        coord = self._coords[index]
        self._names.setdefault(coord.session.id, f"session {len(self._names)}")
        outcome = await self._happen(coord, self._wakers[index], what)
        self.seen.append((step, outcome, await self._woken()))

    async def _happen(self, coord: Coord, waker: Waker, what: Read | Write | Trouble) -> object:
        match what:
            case Read():
                return await self._ask(getattr(coord, what.kind), what.path, waker if what.is_watching else None)
            case Write(ops=[op]):
                return await self._ask(*_single(coord, op))
            case Write():
                return await self._ask(coord.multi, *what.ops)
            case Trouble():
                return await self._befall(coord, what)

    async def _befall(self, coord: Coord, trouble: Trouble) -> object:
        diary = Diary(coord)
        if trouble.is_expiry:
            await self._world.expire(coord)
        else:
            self._world.drop(coord)
        await diary.until(SessionState.CONNECTED)
        return diary.states

    async def _ask(self, call: Any, *args: object) -> object:
        try:
            return self._shown(await call(*args))
        except MultiFailed as failed:
            return (failed.index, failed.op, type(failed.cause))
        except CoordError as error:
            return type(error)

    def _shown(self, answer: object) -> object:
        match answer:
            case Stat():
                owner = self._names[answer.ephemeral_owner]
                return (answer.version, Zxid(answer.czxid), Zxid(answer.mzxid), owner, answer.child_count)
            case tuple() | list():
                return [self._shown(each) for each in answer]
        return answer

    async def _woken(self) -> list[list[str]]:
        """What woke each session. An event comes before the answer to what is asked after it."""
        for coord in self._coords:
            await coord.sync()
        return [sorted(await waker.wait()) if waker.is_woken else [] for waker in self._wakers]

    async def finish(self) -> list[object]:
        """Look at the whole tree; then all that was seen, with every zxid as its place in the order of all."""
        await self._look("")
        places = {zxid: place for place, zxid in enumerate(sorted(set(_zxids(self.seen))))}
        return [_placed(each, places) for each in self.seen]

    async def _look(self, path: str) -> None:
        coord = self._coords[0]
        if path:
            self.seen.append((path, await self._ask(coord.get, path)))
        for name in await coord.children(path or "/"):
            await self._look(f"{path}/{name}")


def _single(coord: Coord, op: Op) -> tuple[object, ...]:
    """The call that does one operation, and its arguments."""
    match op:
        case Create():
            return _create, coord, op
        case Set():
            return coord.set, op.path, op.data, op.version
    return coord.delete, op.path, op.version


async def _create(coord: Coord, op: Create) -> Created:
    return await coord.create(op.path, op.data, ephemeral=op.ephemeral, sequence=op.sequence)


def _zxids(seen: object) -> list[int]:
    if isinstance(seen, Zxid):
        return [int(seen)]
    return [zxid for each in seen for zxid in _zxids(each)] if isinstance(seen, tuple | list) else []


def _placed(seen: object, places: dict[int, int]) -> object:
    if isinstance(seen, Zxid):
        return places[int(seen)]
    return [_placed(each, places) for each in seen] if isinstance(seen, tuple | list) else seen


async def begin(world: World) -> Run:
    coords = [await world.open() for _ in range(SESSIONS)]
    for path in GIVEN:
        await coords[0].create(path)
    return Run(world, coords)


@pytest.mark.needs("java")
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(taken=st.lists(steps, min_size=15, max_size=40))
async def test_the_one_in_memory_behaves_like_the_real_one(zookeeper: ZooKeeperServer, taken: list[Step]) -> None:
    async with AsyncExitStack() as stack:
        memory = await begin(await stack.enter_async_context(MemoryWorld()))
        real = await begin(await stack.enter_async_context(RealWorld(zookeeper)))
        for step in taken:
            await memory.do(step)
            await real.do(step)
        assert await memory.finish() == await real.finish()
