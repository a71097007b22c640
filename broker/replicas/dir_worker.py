"""Does what a log directory has to do that waits for the disk: on a thread, in order, one job at a time.

A job counts as handed over when `do` is called, not when it is awaited, so jobs are done in the order in which they
were made if each is handed over as it is made. Whoever stops waiting for a job does not stop the job.

A thread takes several jobs at once, and new partitions are made by several threads: there may be ten thousand of them
to be made, and most of the time is spent waiting for the disk.

This is also where a directory goes offline (`fail`), whoever noticed: then everybody who has to know is told, once, and
jobs that wait are not done any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias

from minikafka.broker.work import Work
from minikafka.storage.dir_jobs import CreateLog, Creations, Job, is_disk_failure
from minikafka.storage.errors import StorageError
from minikafka.storage.log_dir import LogDir

log: Final = logging.getLogger(__name__)

_JOBS_AT_ONCE: Final = 64
"""So that whoever waits for the first of many need not wait for all."""
_THREADS: Final = 3
"""Of one directory, to make partitions."""

Failed: TypeAlias = Callable[[LogDir], None]


class _Waiting(NamedTuple):
    job: Job
    done: asyncio.Future[None]


class DirWorker:
    """Of one log directory."""

    def __init__(self, log_dir: LogDir, work: Work, on_failure: Failed) -> None:
        self.log_dir = log_dir
        self._work = work
        self._on_failure: list[Failed] = [on_failure]
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_failure_told = False

    def do(self, job: Job) -> asyncio.Future[None]:
        """Done when the job is finished; StorageError if it failed, or the directory is offline by then."""
        waiting = _Waiting(job, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._task is None:
            self._task = self._work.spawn(self._run(), f"jobs of {self.log_dir.path}")
        return waiting.done

    async def wait_idle(self) -> None:
        """Until all that was handed over is done, or will not be done any more."""
        while self._task is not None:
            await asyncio.wait([self._task])

    # ------------------------------------------------------------------------------------- failing

    def add_listener(self, on_failure: Failed) -> None:
        """Have somebody else told when the directory goes offline."""
        self._on_failure.append(on_failure)

    def fail(self, reason: str) -> None:
        """The disk cannot be trusted any more; whoever gets a StorageError of one of its logs says so here."""
        self.log_dir.fail(reason)
        if self._is_failure_told:
            return
        self._is_failure_told = True
        log.error("log directory %s is offline: %s", self.log_dir.path, self.log_dir.failure)
        for on_failure in self._on_failure:
            on_failure(self.log_dir)

    # ------------------------------------------------------------------------------------- running

    async def _run(self) -> None:
        some: list[_Waiting] = []
        try:
            while self._waiting:
                some = [self._waiting.popleft() for _ in range(min(_JOBS_AT_ONCE, len(self._waiting)))]
                if not self.log_dir.is_offline:
                    await self._run_jobs([each.job for each in some])
                for each in some:
                    self._finish(each)
        except Exception as error:
            # A fault of ours. What is on disk is as uncertain as after one of the disk's.
            self.fail(f"a job ended by a fault: {error!r}")
            for each in (*some, *self._waiting):
                _refuse(each, StorageError(self.log_dir.failure))
            raise
        finally:
            self._task = None
            for each in (*some, *self._waiting):
                each.done.cancel()
            self._waiting.clear()

    async def _run_jobs(self, jobs: list[Job]) -> None:
        """In order, up to the first for which the disk fails."""
        for is_creation, group in groupby(jobs, _is_creation):
            some = [*group]
            if is_creation and len(some) > 1:
                await self._create([job for job in some if isinstance(job, CreateLog)])
            else:
                await self._work.run_blocking(partial(_run_in_turn, some))
            if any(map(is_disk_failure, some)):
                return

    async def _create(self, jobs: list[CreateLog]) -> None:
        creations = Creations(jobs)
        threads = min(_THREADS, len(jobs))
        await asyncio.gather(*(self._work.run_blocking(creations.run) for _ in range(threads)))
        await self._work.run_blocking(creations.finish)

    def _finish(self, waiting: _Waiting) -> None:
        try:
            if waiting.job.is_done:
                self.log_dir.finish(waiting.job)
            else:
                self.log_dir.check_online()
        except StorageError as error:
            if self.log_dir.is_offline:
                self.fail(str(error))
            _refuse(waiting, error)
            return
        if not waiting.done.done():
            waiting.done.set_result(None)


def _refuse(waiting: _Waiting, error: StorageError) -> None:
    if not waiting.done.done():
        waiting.done.set_exception(error)
        # Who must know has been told: nobody has to wait for it.
        waiting.done.exception()


def _is_creation(job: Job) -> bool:
    return isinstance(job, CreateLog) and job.is_independent


def _run_in_turn(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.run()
        if is_disk_failure(job):
            return
