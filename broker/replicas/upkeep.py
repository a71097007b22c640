"""What has to be done for the logs from time to time: checkpoints, retention, unlinking files, forgetting producers;
and the tasks that bring logs to disk (`flusher`) and compact them (`cleaner`).

All of it runs beside the requests. On the loop it goes in small steps with a pause between them, so it never looks at
many partitions at once, and whatever waits for the disk is left to threads. A partition may be gone, or its directory
offline, after any pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

from minikafka.broker.clock import Clock
from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.replicas.cleaner import Cleaner
from minikafka.broker.replicas.cleaning_process import ChildRunner, Runner, ThreadRunner
from minikafka.broker.replicas.dir_worker import DirWorker
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.replicas.steps import in_steps
from minikafka.broker.work import Work
from minikafka.storage.config import INT64_MAX
from minikafka.storage.dir_jobs import Job
from minikafka.storage.disk import RealDisk
from minikafka.storage.errors import StorageError
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.retention import expire
from minikafka.storage.trimming import is_retirement_due, retire_below_log_start

log: Final = logging.getLogger(__name__)

Name: TypeAlias = tuple[str, int]

_FIRST_PAUSE_MAX_MS: Final = 30_000
"""A broker that is started often has to come to its chores too."""
_CHECKPOINT_PAUSE_MIN_MS: Final = 100
_DISCARD_PAUSE_MS: Final = 1000
_SEGMENTS_AT_ONCE: Final = 16
"""Of one log, to be looked at for their age: each may mean reading its index."""


class Upkeep:
    """Of all directories of a broker. The clock is a steady one: a jump of the wall clock deletes nothing."""

    def __init__(self, partitions: Partitions, config: LiveConfig, clock: Clock, work: Work) -> None:
        self._partitions = partitions
        self._flusher = partitions.flusher
        self._config = config
        self._clock = clock
        self._work = work
        self.cleaner = Cleaner(partitions.workers.values(), config, clock, work, _runner(partitions, work))
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        flushing = self._flusher.watch(self._config.broker.log_flush_scheduler_interval_ms)
        self._tasks.append(self._work.spawn(flushing, "flushing"))
        if self._config.broker.log_cleaner_enable:
            self._tasks.append(self._work.spawn(self.cleaner.run(), "compaction"))
        for name, pause_ms, chore in (
            ("checkpoints", _checkpoint_pause_ms, self.checkpoint),
            ("high watermarks", _high_watermarks_pause_ms, self.checkpoint_high_watermarks),
            ("retention", _retention_pause_ms, self.apply_retention),
            ("discards", _discard_pause_ms, self.discard),
            ("producers", _producers_pause_ms, self.expire_producers),
        ):
            self._tasks.append(self._work.spawn(self._repeat(name, pause_ms, chore), name))

    async def stop(self) -> None:
        """Let nothing begin any more, and wait for syncs; what a directory has begun is for its worker to finish."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._flusher.wait_idle()

    async def _repeat(
        self, name: str, pause_ms: Callable[[BrokerConfig], int], chore: Callable[[], Awaitable[None]]
    ) -> None:
        await asyncio.sleep(min(pause_ms(self._config.broker), _FIRST_PAUSE_MAX_MS) / 1000)
        while True:
            try:
                await chore()
            except Exception:
                # A fault of ours. Without retention a disk would fill up, so there is another time.
                log.exception("%s ended by a fault", name)
            await asyncio.sleep(pause_ms(self._config.broker) / 1000)

    @property
    def _online(self) -> list[DirWorker]:
        return [each for each in self._partitions.workers.values() if not each.log_dir.is_offline]

    # ------------------------------------------------------------------------------------- files of a directory

    async def checkpoint(self) -> None:
        """Write down how far all logs are."""
        await self._write(LogDir.checkpoint)

    async def checkpoint_high_watermarks(self) -> None:
        """More often than all the rest: what is not written down has to be committed again by all replicas."""
        await self._write(LogDir.checkpoint_high_watermarks)

    async def _write(self, make: Callable[[LogDir], Job | None]) -> None:
        for worker in self._online:
            # Whoever has to know of a failure is told by the worker.
            with suppress(StorageError):
                job = make(worker.log_dir)
                if job is not None:
                    await worker.do(job)

    async def discard(self) -> None:
        """Unlink what left its log long enough ago that nobody can be reading it."""
        for worker in self._online:
            # A sync that takes longer than that must not find a file closed.
            await self._flusher.wait_round(worker.log_dir)
            with suppress(StorageError):
                for job in worker.log_dir.discards(self._clock.wall_ms()):
                    worker.do(job)

    # ------------------------------------------------------------------------------------- logs, one by one

    async def apply_retention(self) -> None:
        """Delete what has expired from all logs."""
        for worker in self._online:
            async for name, each in in_steps(worker.log_dir.logs.items(), self._clock):
                try:
                    await self._retain(worker, name, each)
                except StorageError as error:
                    worker.fail(str(error))
                    break

    async def _retain(self, worker: DirWorker, name: Name, each: Log) -> None:
        is_moved = True
        # A compaction would be for nothing if segments went meanwhile.
        while is_moved and _is_usable(worker, each) and not self.cleaner.is_cleaning(each):
            is_moved = expire(each, self._clock.wall_ms(), _SEGMENTS_AT_ONCE)
            if is_moved:
                self._tell_start(name, each)
            await self._retire(worker, each)
        if _is_usable(worker, each):
            self._roll_in_time(each)

    def _tell_start(self, name: Name, each: Log) -> None:
        log.info("%s-%d starts at offset %d, what was before it has expired", *name, each.log_start_offset)
        partition = self._partitions.all.get(name)
        if partition is not None and partition.log is each:
            partition.wake()

    async def _retire(self, worker: DirWorker, each: Log) -> None:
        """Segment by segment: of each it has to be on disk that it is gone before the next one goes."""
        while is_retirement_due(each):
            number = each.unsynced_retirements
            if number:
                try:
                    await self._work.run_blocking(partial(each.disk.fsync_dir, each.directory))
                except OSError as error:
                    if worker.log_dir.holds(each):
                        raise each.failure("delete segments", error) from error
                if not _is_usable(worker, each):
                    return
                each.retirements_synced(number)
            retire_below_log_start(each, 1)

    def _roll_in_time(self, each: Log) -> None:
        """Only sealed segments are compacted, and where there is a limit it holds without a further record too."""
        config, active = each.config, each.segments.active
        if not config.cleanup_compact or config.max_compaction_lag_ms == INT64_MAX or not active.size:
            return
        if self._clock.wall_ms() - active.first_timestamp > config.roll_ms:
            each.roll()

    async def expire_producers(self) -> None:
        """Forget producers that have been silent for long."""
        for worker in self._online:
            async for _, each in in_steps(worker.log_dir.logs.items(), self._clock):
                if each.producers:
                    each.producers.expire(self._clock.monotonic_ms(), each.config.producer_id_expiration_ms)


def _runner(partitions: Partitions, work: Work) -> Runner:
    disk = partitions.log_dirs.dirs[0].disk
    return ChildRunner() if isinstance(disk, RealDisk) else ThreadRunner(disk, work)


def _is_usable(worker: DirWorker, each: Log) -> bool:
    return not worker.log_dir.is_offline and worker.log_dir.holds(each)


def _checkpoint_pause_ms(config: BrokerConfig) -> int:
    # One job writes all files that have changed, so the shorter of the two intervals counts.
    pause_ms = min(config.log_flush_offset_checkpoint_interval_ms, config.log_flush_start_offset_checkpoint_interval_ms)
    return max(pause_ms, _CHECKPOINT_PAUSE_MIN_MS)


def _high_watermarks_pause_ms(config: BrokerConfig) -> int:
    return max(config.replica_high_watermark_checkpoint_interval_ms, _CHECKPOINT_PAUSE_MIN_MS)


def _retention_pause_ms(config: BrokerConfig) -> int:
    return config.log_retention_check_interval_ms


def _discard_pause_ms(_: BrokerConfig) -> int:
    return _DISCARD_PAUSE_MS


def _producers_pause_ms(config: BrokerConfig) -> int:
    return config.producer_id_expiration_check_interval_ms
