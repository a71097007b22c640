"""The start: all directories at once, off the loop, with word of how far it is; and the end."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from minikafka.broker.clock import SystemClock
from minikafka.broker.replicas import loading
from minikafka.broker.replicas.loading import close, load
from minikafka.broker.work import LoopWork
from minikafka.storage.config import LogConfig
from minikafka.storage.dir_identity import NotOurs
from minikafka.storage.disk import RealDisk
from minikafka.storage.errors import StorageError
from minikafka.storage.log_dirs import LogDirs
from tests.broker.replicas.dirs import until
from tests.sim.memory_disk import MemoryDisk, Op
from tests.storage.dirs import IDENTITY, created, is_marked_clean, start
from tests.storage.logs import SMALL, append, contents

PATHS = ["/first", "/second"]


def prepared(count: int = 5) -> MemoryDisk:
    """A disk with two directories after kill -9."""
    disk = MemoryDisk()
    for path in PATHS:
        log_dir = start(disk, path)
        for number in range(count):
            append(created(log_dir, (path[1:], number)), b"%d" % number)
    disk.process_died()
    return disk


def config_for(_: str) -> LogConfig:
    return SMALL


class Gate:
    """Holds up whoever opens a certain file, until it is let go."""

    def __init__(self, disk: MemoryDisk, part: str) -> None:
        self.is_reached = threading.Event()
        self.go = threading.Event()
        self.threads: set[int] = set()
        self._part = part
        disk.fail(self._look, is_lasting=True)

    def _look(self, op: Op) -> bool:
        self.threads.add(threading.get_ident())
        if self._part in op.path and op.kind == "list":
            self.is_reached.set()
            assert self.go.wait(20)
        return False


async def test_all_is_loaded_off_the_loop(work: LoopWork) -> None:
    disk = prepared()
    gate = Gate(disk, "first-3")
    log_dirs = LogDirs(disk, PATHS)
    topics: list[str] = []

    def look_up(topic: str) -> LogConfig:
        assert threading.current_thread() is threading.main_thread()
        topics.append(topic)
        return SMALL

    task = asyncio.ensure_future(load(log_dirs, IDENTITY, look_up, work, SystemClock()))
    await until(gate.is_reached.is_set)
    # The other directory does not wait for this one.
    await until(lambda: len(log_dirs.dirs[1].logs) == 5)
    assert not task.done() and len(log_dirs.dirs[0].logs) == 3
    gate.go.set()
    await task
    assert threading.get_ident() not in gate.threads
    assert [len(each.logs) for each in log_dirs.dirs] == [5, 5]
    assert contents(log_dirs.dirs[1].logs["second", 4]) == [(0, b"4")]
    assert sorted(topics) == ["first", "second"]


async def test_it_is_told_how_far_it_is(
    work: LoopWork, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(loading, "REPORT_INTERVAL_S", 0.01)
    disk = prepared()
    gate = Gate(disk, "first-3")
    task = asyncio.ensure_future(load(LogDirs(disk, PATHS), IDENTITY, config_for, work, SystemClock()))
    await until(lambda: "/first: 3 of 5 logs are loaded" in caplog.text)
    gate.go.set()
    await task
    assert "/second: 5 logs were loaded" in caplog.text and "not clean" in caplog.text


async def test_a_directory_that_fails_leaves_the_others(work: LoopWork, caplog: pytest.LogCaptureFixture) -> None:
    disk = prepared()
    disk.fail(lambda op: op.kind == "read" and "/first/first-2" in op.path)
    log_dirs = LogDirs(disk, PATHS)
    await load(log_dirs, IDENTITY, config_for, work, SystemClock())
    assert [each.is_offline for each in log_dirs.dirs] == [True, False]
    assert len(log_dirs.dirs[1].logs) == 5
    assert "log directory /first is offline" in caplog.text


async def test_without_any_directory_there_is_no_start(work: LoopWork) -> None:
    disk = prepared()
    for path in PATHS:
        disk.fail(lambda op, path=path: op.kind == "read" and f"{path}{path}-2" in op.path)  # type: ignore[misc]
    with pytest.raises(StorageError, match="no log directory works"):
        await load(LogDirs(disk, PATHS), IDENTITY, config_for, work, SystemClock())
    # The locks are given back.
    await load(LogDirs(disk, PATHS), IDENTITY, config_for, work, SystemClock())


async def test_a_partition_in_two_directories_is_a_mistake(work: LoopWork) -> None:
    disk = prepared()
    log_dir = start(disk, PATHS[1])
    append(created(log_dir, ("first", 0)), b"x")
    disk.process_died()
    with pytest.raises(NotOurs, match="move one of them away"):
        await load(LogDirs(disk, PATHS), IDENTITY, config_for, work, SystemClock())


async def test_a_damaged_log_is_told(work: LoopWork, caplog: pytest.LogCaptureFixture) -> None:
    disk = prepared()
    disk.rename("/first/first-1", "/first/other")
    disk.open("/first/first-1", create=True).close()
    log_dirs = LogDirs(disk, PATHS)
    await load(log_dirs, IDENTITY, config_for, work, SystemClock())
    assert [*log_dirs.dirs[0].corrupt] == [("first", 1)]
    assert "first-1 is damaged" in caplog.text


async def test_whoever_changes_their_mind_leaves_everything_as_it_was(work: LoopWork) -> None:
    disk = prepared()
    log_dirs = LogDirs(disk, PATHS)
    await load(log_dirs, IDENTITY, config_for, work, SystemClock())
    await close(log_dirs, 7, work)
    assert all(is_marked_clean(disk, path) for path in PATHS)
    gate = Gate(disk, "first-3")
    task = asyncio.ensure_future(load(LogDirs(disk, PATHS), IDENTITY, config_for, work, SystemClock()))
    await until(gate.is_reached.is_set)
    task.cancel()
    gate.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(is_marked_clean(disk, path) for path in PATHS)
    again = LogDirs(disk, PATHS)
    await load(again, IDENTITY, config_for, work, SystemClock())
    assert [len(each.logs) for each in again.dirs] == [5, 5]


async def test_a_fault_of_ours_is_raised(work: LoopWork) -> None:
    disk = prepared()
    disk.fail(lambda op: op.kind == "read" and "first-2" in op.path and 1 / 0 > 0)
    with pytest.raises(ZeroDivisionError):
        await load(LogDirs(disk, PATHS), IDENTITY, config_for, work, SystemClock())
    disk.heal()
    await load(LogDirs(disk, PATHS), IDENTITY, config_for, work, SystemClock())


async def test_a_stop_in_good_order_is_seen_by_the_next_start(work: LoopWork, tmp_path: Path) -> None:
    for was_clean in (False, True):
        log_dirs = LogDirs(RealDisk(), [str(tmp_path / path[1:]) for path in PATHS])
        await load(log_dirs, IDENTITY, config_for, work, SystemClock())
        assert [each.was_clean for each in log_dirs.dirs] == [was_clean] * 2
        if not was_clean:
            for number in range(30):
                append(created(log_dirs.dirs[number % 2], ("orders", number)), b"%d" % number)
        await close(log_dirs, 7, work)


async def test_a_stop_that_fails_is_not_clean(work: LoopWork) -> None:
    disk = prepared()
    log_dirs = LogDirs(disk, PATHS)
    await load(log_dirs, IDENTITY, config_for, work, SystemClock())
    for log in log_dirs.dirs[0].logs.values():
        append(log, b"more")
    disk.fail(lambda op: op.kind == "sync" and "first-3" in op.path)
    await close(log_dirs, 7, work)
    assert [is_marked_clean(disk, path) for path in PATHS] == [False, True]
