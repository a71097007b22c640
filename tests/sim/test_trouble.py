"""What the simulated world does when it is in trouble: servers that lag, answers that are lost, disks that go bad."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from minikafka.broker.zookeeper.coord import Create, Set, Waker
from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records import BatchBuilder, read_whole_batches
from tests.sim.coord import SimCoord
from tests.sim.loop import Process, SimLoop
from tests.sim.memory_coord import no_latency
from tests.sim.memory_disk import MemoryDisk
from tests.sim.memory_zookeeper import MemoryZooKeeper


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = SimLoop()
    loop.run(story())
    assert loop.faults == []


class Session:
    """A session whose server has fallen behind, and somebody else who writes."""

    def __init__(self) -> None:
        self._server = MemoryZooKeeper()
        self._writer = self._server.open_session(lambda: None)
        self._server.write(self._writer, Create("/a", b"old"))
        self.coord = SimCoord(self._server, Process("p"), no_latency)
        self.waker = Waker()

    async def begin(self) -> None:
        await self.coord.start()
        assert self.coord.fall_behind()
        self._server.write(self._writer, Set("/a", b"new"))

    async def read(self) -> bytes:
        return (await self.coord.get("/a", self.waker))[0]


def test_server_that_lags_answers_as_of_then_and_wakes_when_it_has_caught_up() -> None:
    async def story() -> None:
        session = Session()
        await session.begin()
        assert await session.read() == b"old"
        await asyncio.sleep(1)
        assert not session.waker.is_woken
        session.coord.catch_up()
        await asyncio.sleep(1)
        assert session.waker.is_woken
        assert await session.read() == b"new"

    play(story)


@pytest.mark.parametrize("catch_up", [SimCoord.sync, lambda coord: coord.create("/b"), SimCoord.drop])
def test_session_sees_the_newest_state_after_a_sync_a_write_or_another_connection(
    catch_up: Callable[[SimCoord], Any],
) -> None:
    async def story() -> None:
        session = Session()
        await session.begin()
        done = catch_up(session.coord)
        if done is not None:
            await done
        await session.coord.connected()
        assert await session.read() == b"new"

    play(story)


def test_flipped_bit_is_in_what_is_read_and_in_what_survives() -> None:
    builder = BatchBuilder()
    builder.append(0, None, b"value")
    disk = MemoryDisk()
    file = disk.open("/f", create=True)
    file.append((builder.build(),))
    file.sync()
    disk.flip_bit("/f", 70, 3)
    for contents in (bytes(file.read(0, 1_000)), disk.peek("/f")):
        with pytest.raises(CorruptRecord):
            read_whole_batches(contents)[0][0].check_crc()
    disk.process_died()
    assert disk.peek("/f") == contents


def test_files_that_are_open_are_those_that_nobody_has_closed_or_renamed() -> None:
    disk = MemoryDisk()
    closed, renamed, still = (disk.open(f"/{name}", create=True) for name in ("closed", "renamed", "open"))
    assert still.size() == renamed.size() == 0
    closed.close()
    disk.rename("/renamed", "/renamed.deleted")
    assert disk.open_paths() == ["/open"]
    disk.process_died()
    assert disk.open_paths() == []
