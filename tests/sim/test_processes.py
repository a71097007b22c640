"""The simulated world does what it says: time, processes that are killed and paused, and a network that is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.sim.loop import Process, SimLoop, Stuck
from tests.sim.net import Network


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> SimLoop:
    loop = SimLoop()
    loop.run(story())
    assert loop.faults == []
    return loop


def test_waiting_costs_no_time() -> None:
    async def story() -> None:
        await asyncio.sleep(3_600)

    assert play(story).time() == 3_600


def test_whoever_waits_for_nothing_is_told() -> None:
    async def story() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck):
        play(story)


def test_of_a_killed_process_nothing_is_called_again() -> None:
    done: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(2)
            done.append("went on")
        finally:
            done.append("cleaned up")

    async def story() -> None:
        process = Process("p")
        process.spawn(work(), "work")
        await asyncio.sleep(1)
        process.kill()
        process.run(done.append, "called")
        await asyncio.sleep(5)
        assert done == []

    play(story)


def test_a_paused_process_goes_on_where_it_was() -> None:
    times: list[float] = []

    async def work() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            times.append(asyncio.get_running_loop().time())

    async def story() -> None:
        process = Process("p")
        process.spawn(work(), "work")
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(10)
        process.resume()
        await asyncio.sleep(5)
        assert times == [1, 11.5, 12.5]

    play(story)


def test_a_task_belongs_to_the_process_that_began_it() -> None:
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(1)

    async def begin() -> None:
        asyncio.get_running_loop().create_task(tick(), name="tick")
        await asyncio.sleep(100)

    async def story() -> None:
        process = Process("p")
        process.spawn(begin(), "begin")
        await asyncio.sleep(2.5)
        process.kill()
        await asyncio.sleep(5)
        assert len(ticks) == 2

    play(story)


# ------------------------------------------------------------------------------------------------ the network


class Ear(asyncio.Protocol):
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.heard: list[bytes | str] = []
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append("lost")

    def say(self, what: bytes) -> None:
        assert self.transport is not None
        # As a request: with a length, a key, a version, a number and who asks.
        self.transport.write(bytes(4) + bytes(8) + b"\x00\x03asker"[:5] + what)


class Line:
    """Two hosts, of which one has dialled the other."""

    def __init__(self) -> None:
        self.network = Network(lambda: 0.001)
        self.process = Process("there")
        self.there = Ear()
        self.here = Ear()

    async def dial(self) -> None:
        await self.process.spawn(self._listen(), "listen")
        await self.network.host("here").connect(lambda: self.here, "there", 1)
        await asyncio.sleep(0.01)

    async def _listen(self) -> None:
        port = await self.network.host("there").bind(lambda: self.there, None, 1, 1)
        await port.listen()


async def _line() -> Line:
    line = Line()
    await line.dial()
    return line


def test_what_is_cut_comes_later_and_in_order() -> None:
    async def story() -> None:
        line = await _line()
        line.network.cut("here", "there")
        line.here.say(b"1")
        line.here.say(b"2")
        line.there.transport.write(b"back")  # type: ignore[union-attr]
        await asyncio.sleep(10)
        assert (line.there.heard, line.here.heard) == ([], [b"back"])
        line.network.heal("here", "there")
        await asyncio.sleep(1)
        assert [each[-1:] for each in line.there.heard] == [b"1", b"2"]

    play(story)


def test_only_one_kind_of_client_is_cut() -> None:
    async def story() -> None:
        line = await _line()
        line.network.cut("here", "there", "other")
        line.here.say(b"1")
        await asyncio.sleep(1)
        assert len(line.there.heard) == 1
        line.network.cut("here", "there", "ask")
        line.here.say(b"2")
        await asyncio.sleep(1)
        assert len(line.there.heard) == 1

    play(story)


def test_a_killed_process_resets_its_connections_one_without_power_does_not() -> None:
    async def story() -> None:
        for power, heard in ((False, ["lost"]), (True, [])):
            line = await _line()
            line.process.kill()
            line.network.lose("there", power=power)
            await asyncio.sleep(10)
            assert line.here.heard == heard
            assert line.there.heard == []

    play(story)


def test_answer_that_is_on_its_way_is_lost_with_its_connection() -> None:
    async def story() -> None:
        for loses, heard in ((False, [b"back", "lost"]), (True, ["lost"])):
            line = await _line()
            line.here.say(b"1")
            line.network.cut("there", "here")
            line.there.transport.write(b"back")  # type: ignore[union-attr]
            line.network.reset("here", "there", loses=loses)
            line.network.heal("there", "here")
            await asyncio.sleep(10)
            assert line.here.heard == heard

    play(story)


def test_what_comes_for_a_paused_process_is_read_when_it_goes_on() -> None:
    async def story() -> None:
        line = await _line()
        line.process.pause()
        line.here.say(b"1")
        await asyncio.sleep(10)
        assert line.there.heard == []
        line.process.resume()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(line.there.heard) == 1

    play(story)


def test_nobody_can_be_dialled_who_does_not_listen_or_is_cut_off() -> None:
    async def story() -> None:
        line = await _line()
        net = line.network.host("here")
        with pytest.raises(ConnectionRefusedError):
            await net.connect(Ear, "there", 2)
        line.network.cut("there", "here")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await net.connect(Ear, "there", 1)

    play(story)
