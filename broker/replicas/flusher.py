"""Brings logs to disk: for whoever waits for it, and in the background.

Each directory has a group commit (`storage.durability`), and one round of syncs under way at a time, on a thread. The
first who waits starts a round at once; as long as others wait, rounds begin at least 2 ms apart, so that many share
one. Nobody is kept waiting by a directory that is offline: whoever waits there is told.

Now and then all logs are looked through for what has to be synced though nobody waits, which is what full segments
and the topic's `flush.ms` and `flush.messages` ask for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from minikafka.broker.clock import Clock
from minikafka.broker.replicas.dir_worker import DirWorker
from minikafka.broker.replicas.steps import in_steps
from minikafka.broker.work import Work
from minikafka.storage.disk import parent
from minikafka.storage.durability import Durability, GroupCommit, Round, Verdict, is_behind, is_flush_due
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir

Callback: TypeAlias = Callable[[Verdict], None]

ROUND_INTERVAL_S: Final = 0.002
_THREADS: Final = 4
"""For one directory: a disk does several syncs at once in little more time than one."""
LOOK_INTERVAL_MS: Final = 1000
"""How often logs are looked through, unless `log.flush.scheduler.interval.ms` is shorter."""


class Flusher:
    """Of all directories of a broker."""

    def __init__(self, workers: Iterable[DirWorker], durability: Durability, clock: Clock, work: Work) -> None:
        self.durability = durability
        self._clock = clock
        self._dirs = {each.log_dir.path: _DirFlusher(each, durability, work) for each in workers}

    def request(self, log: Log, offset: int, callback: Callback) -> bool:
        """Have all below an offset on disk; True if that need not be waited for, and then nobody is called back."""
        flusher = self._dirs[parent(log.directory)]
        if flusher.commit.request(log, offset, callback):
            return True
        flusher.begin()
        return False

    async def wait_synced(self, log: Log, offset: int) -> Verdict:
        """The same for whoever can wait."""
        done: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()

        def callback(verdict: Verdict) -> None:
            if not done.done():
                done.set_result(verdict)

        return Verdict.SYNCED if self.request(log, offset, callback) else await done

    def cut_off(self, log: Log) -> None:
        """Nobody shall wait for a log any longer: it is deleted, or follows another leader now."""
        _tell(self._dirs[parent(log.directory)].commit.cut_off(log))

    async def watch(self, interval_ms: int) -> None:
        """Look through all logs from time to time, for as long as nobody cancels it."""
        while True:
            await asyncio.sleep(min(interval_ms, LOOK_INTERVAL_MS) / 1000)
            for flusher in self._dirs.values():
                await flusher.look_through(self._clock)

    async def wait_round(self, log_dir: LogDir) -> None:
        """Until the syncs are over that may be under way now: none of them touches a segment that has left its log."""
        await self._dirs[log_dir.path].wait_round()

    async def wait_idle(self) -> None:
        """Until nobody waits and nothing is under way."""
        for flusher in self._dirs.values():
            await flusher.wait_idle()


class _DirFlusher:
    """Of one directory."""

    def __init__(self, worker: DirWorker, durability: Durability, work: Work) -> None:
        self.commit: GroupCommit[Callback] = GroupCommit(worker.log_dir, durability)
        self._worker = worker
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._round_over: asyncio.Future[None] | None = None
        self._behind_since_ms: dict[Log, int] = {}
        worker.add_listener(lambda _: _tell(self.commit.give_up()))

    def begin(self) -> None:
        """See to it that a round begins soon."""
        if self._worker.log_dir.is_offline:
            _tell(self.commit.give_up())
        elif self._task is None:
            self._task = self._work.spawn(self._run(), f"syncs of {self._worker.log_dir.path}")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            # As a task it begins after all who are about to append have done so.
            while (made := self.commit.next_round()) is not None:
                began_s = loop.time()
                self._round_over = loop.create_future()
                threads = min(_THREADS, max(1, len(made.plans)))
                await asyncio.gather(*(self._work.run_blocking(made.run) for _ in range(threads)))
                self._complete(made)
                rest_s = began_s + ROUND_INTERVAL_S - loop.time()
                if rest_s > 0 and not self.commit.is_idle:
                    await asyncio.sleep(rest_s)
        except Exception as error:
            # A fault of ours: what is on disk is as uncertain as after one of the disk's.
            self._worker.fail(f"a sync ended by a fault: {error!r}")
            raise
        finally:
            self._task = None
            self._end_round()

    def _complete(self, made: Round) -> None:
        settled = self.commit.complete(made)
        self._end_round()
        _tell(settled)
        if self._worker.log_dir.failure is not None:
            self._worker.fail(self._worker.log_dir.failure)

    def _end_round(self) -> None:
        if self._round_over is not None and not self._round_over.done():
            self._round_over.set_result(None)

    async def look_through(self, clock: Clock) -> None:
        """Have those logs synced for which it is time."""
        log_dir, before = self._worker.log_dir, self._behind_since_ms
        self._behind_since_ms = behind = {}
        async for log in in_steps(log_dir.logs.values(), clock):
            if is_behind(log) and not log.is_failed:
                now_ms = clock.monotonic_ms()
                since_ms = behind[log] = before.get(log, now_ms)
                if is_flush_due(log, since_ms, now_ms) and log_dir.holds(log):
                    self.commit.add(log)
        if not self.commit.is_idle:
            self.begin()

    async def wait_round(self) -> None:
        if self._round_over is not None:
            await asyncio.shield(self._round_over)

    async def wait_idle(self) -> None:
        while self._task is not None:
            await asyncio.wait([self._task])


def _tell(settled: Iterable[tuple[Callback, Verdict]]) -> None:
    """Each by itself, so that a fault of one is not another's."""
    loop = asyncio.get_running_loop()
    for callback, verdict in settled:
        loop.call_soon(callback, verdict)
