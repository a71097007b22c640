"""Turns: one after the other, each to its end."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.broker.replicas.turns import BEGUN_AT_ONCE, Turns, all_of
from minikafka.broker.work import LoopWork


class Stage:
    """Acts that wait for a cue."""

    def __init__(self) -> None:
        self.cue = asyncio.Event()
        self.begun: list[str] = []
        self.ended: list[str] = []

    async def act(self, name: str) -> str:
        self.begun.append(name)
        await self.cue.wait()
        self.ended.append(name)
        return name


async def test_whoever_gives_up_waiting_does_not_end_it(work: LoopWork) -> None:
    stage, turns = Stage(), Turns(work)
    first = turns.take(lambda: stage.act("first"), "first")
    second = turns.take(lambda: stage.act("second"), "second")
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    assert stage.begun == ["first"]
    stage.cue.set()
    assert await second == "second"
    assert stage.ended == ["first", "second"]


async def test_a_fault_is_for_whoever_asked_and_the_next_has_its_turn(work: LoopWork) -> None:
    stage, turns = Stage(), Turns(work)
    stage.cue.set()

    async def fail() -> str:
        raise ValueError

    with pytest.raises(ValueError):
        await turns.take(fail, "fails")
    assert await turns.take(lambda: stage.act("next"), "next") == "next"


async def test_a_fault_of_one_waits_for_the_others(work: LoopWork) -> None:
    del work
    stage = Stage()

    async def fail() -> str:
        raise ValueError

    both = asyncio.ensure_future(all_of([fail(), stage.act("other")]))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not both.done()
    stage.cue.set()
    with pytest.raises(ValueError):
        await both
    assert stage.ended == ["other"]


async def test_all_of_begins_a_bounded_number_in_a_turn_of_the_loop() -> None:
    begun = 0

    async def work() -> None:
        nonlocal begun
        begun += 1

    # Asked for first, so it is woken first: whatever begins in a turn has begun by then.
    largest, is_over = 0, False

    async def watch() -> None:
        nonlocal largest
        before = 0
        while not is_over:
            await asyncio.sleep(0)
            largest, before = max(largest, begun - before), begun

    watching = asyncio.ensure_future(watch())
    await all_of(work() for _ in range(10 * BEGUN_AT_ONCE))
    is_over = True
    await watching
    assert begun == 10 * BEGUN_AT_ONCE
    assert largest <= BEGUN_AT_ONCE
