"""Compaction: which log is next, and how what comes of it is put to use.

Of the logs that are dirty enough, or have waited for too long, the dirtiest is next, as in Kafka; when none is,
there is a pause of `log.cleaner.backoff.ms`, and no process is kept for it. The long part runs elsewhere
(`cleaning_process`); here on the loop only files are renamed, in steps, and threads wait for the disk between them.

How far a log is clean is kept with the other checkpoints of its directory. A log that cannot be cleaned is left as it
is, for good or for a while, and keeps no other from being cleaned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import aclosing
from typing import Final, NamedTuple, TypeAlias

from minikafka.broker.clock import Clock
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.replicas.cleaning_process import ChildDied, Runner
from minikafka.broker.replicas.dir_worker import DirWorker
from minikafka.broker.replicas.steps import in_steps
from minikafka.broker.work import Work
from minikafka.storage.cleaning import CleanedGroup, CompactionPlan, CompactionStopped, Uncleanable
from minikafka.storage.compaction import Compaction, Dirt, measure_dirt, plan_compaction
from minikafka.storage.config import INT64_MAX
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.log import Log

log: Final = logging.getLogger(__name__)

Name: TypeAlias = tuple[str, int]

_PAUSE_MIN_MS: Final = 100
_DEATHS_MAX: Final = 3
"""How often the process may end in the middle of a log before it is the log's fault."""


class _Dirty(NamedTuple):
    """A log that is to be cleaned."""

    worker: DirWorker
    name: Name
    log: Log
    dirt: Dirt

    @property
    def is_usable(self) -> bool:
        log_dir = self.worker.log_dir
        return not log_dir.is_offline and log_dir.holds(self.log)

    def __str__(self) -> str:
        return "{}-{}".format(*self.name)


class Cleaner:
    """Of all directories of a broker; one log at a time."""

    def __init__(
        self, workers: Iterable[DirWorker], config: LiveConfig, clock: Clock, work: Work, runner: Runner
    ) -> None:
        self._workers = [*workers]
        self._config = config
        self._clock = clock
        self._work = work
        self._runner = runner
        self._cleaning: Log | None = None
        self._not_before_ms: dict[Log, int] = {}
        self._deaths: dict[Log, int] = {}

    def is_cleaning(self, each: Log) -> bool:
        """Whether a compaction would be for nothing if the log lost a segment now."""
        return each is self._cleaning

    def is_set_aside(self, each: Log) -> bool:
        """Whether a log is not cleaned any more, until the next start."""
        return self._not_before_ms.get(each) == INT64_MAX

    async def run(self) -> None:
        """Clean what is dirty, for as long as nobody cancels it."""
        try:
            while True:
                await asyncio.sleep(self._pause_ms / 1000)
                try:
                    while await self.clean_dirtiest():
                        pass
                except Exception:
                    # A fault of ours. Without compaction a disk would fill up, so there is another time.
                    log.exception("compaction ended by a fault")
                await self._runner.close()
        finally:
            await self._runner.close()

    @property
    def _pause_ms(self) -> int:
        return max(self._config.broker.log_cleaner_backoff_ms, _PAUSE_MIN_MS)

    # ------------------------------------------------------------------------------------- which

    async def clean_dirtiest(self) -> bool:
        """Clean the log that is most worth it; False if there is none."""
        found = await self._dirtiest()
        if found is None:
            return False
        self._cleaning = found.log
        try:
            await self._clean(found)
        except (CompactionStopped, ChildDied, Uncleanable, CorruptLog) as error:
            self._put_off(found, error)
        except StorageError as error:
            if found.worker.log_dir.holds(found.log):
                found.worker.fail(str(error))
        finally:
            self._cleaning = None
        return True

    async def _dirtiest(self) -> _Dirty | None:
        best: _Dirty | None = None
        self._forget_absent()
        for worker in self._workers:
            async for name, each in in_steps(worker.log_dir.logs.items(), self._clock):
                dirt = self._measure(worker, name, each) if each.config.cleanup_compact else None
                if dirt is not None and dirt.is_due and (best is None or dirt.ratio > best.dirt.ratio):
                    best = _Dirty(worker, name, each, dirt)
        return best

    def _measure(self, worker: DirWorker, name: Name, each: Log) -> Dirt | None:
        """How dirty a log is; None if it cannot be cleaned in any case."""
        is_put_off = self._not_before_ms.get(each, 0) > self._clock.monotonic_ms()
        if is_put_off or each.is_failed or worker.log_dir.is_offline:
            return None
        try:
            first_dirty_offset = worker.log_dir.checkpoints.first_dirty.get(name)
            return measure_dirt(each, first_dirty_offset, self._clock.wall_ms())
        except StorageError as error:
            worker.fail(str(error))
            return None

    def _forget_absent(self) -> None:
        here = {each for worker in self._workers for each in worker.log_dir.logs.values()}
        self._not_before_ms = {each: ms for each, ms in self._not_before_ms.items() if each in here}
        self._deaths = {each: count for each, count in self._deaths.items() if each in here}

    # ------------------------------------------------------------------------------------- cleaning

    async def _clean(self, found: _Dirty) -> None:
        if not found.is_usable:
            return
        plan = plan_compaction(found.log, found.dirt, self._clock.wall_ms())
        assert plan is not None
        began_ms = self._clock.monotonic_ms()
        await self._note_first_dirty(found, plan.first_dirty_offset)
        groups = await self._apply_all(found, plan)
        if not groups or not found.is_usable:
            return
        if found.log.generation != plan.generation:
            # It was cut meanwhile, and what is written at those offsets next has not been cleaned.
            return
        self._deaths.pop(found.log, None)
        await self._write_first_dirty(found, groups[-1].next_dirty_offset)
        log.info(
            "%s is clean up to offset %d: %d bytes became %d in %d ms",
            found,
            groups[-1].next_dirty_offset,
            sum(group.read_bytes for group in groups),
            sum(group.new.size for group in groups),
            self._clock.monotonic_ms() - began_ms,
        )

    async def _note_first_dirty(self, found: _Dirty, offset: int) -> None:
        """Before records go from a log it is on disk that some may be missing, whatever its policy is later."""
        if found.name not in found.worker.log_dir.checkpoints.first_dirty:
            await self._write_first_dirty(found, offset)

    async def _write_first_dirty(self, found: _Dirty, offset: int) -> None:
        log_dir = found.worker.log_dir
        log_dir.checkpoints.first_dirty[found.name] = offset
        job = log_dir.checkpoint()
        if job is not None:
            await found.worker.do(job)

    async def _apply_all(self, found: _Dirty, plan: CompactionPlan) -> list[CleanedGroup]:
        """All groups, if all could be put to use."""
        compaction = Compaction(found.log, plan)
        groups: list[CleanedGroup] = []
        async with aclosing(self._runner.clean(plan)) as cleaned:
            async for group in cleaned:
                if not found.is_usable or not await self._apply(found, compaction, group):
                    return []
                groups.append(group)
        return groups

    async def _apply(self, found: _Dirty, compaction: Compaction, group: CleanedGroup) -> bool:
        swap = compaction.begin(group)
        if swap is None:
            log.info("%s has changed while it was being cleaned", found)
            return False
        while swap.advance():
            await self._work.run_blocking(swap.sync)
            if not found.is_usable:
                return False
        return True

    # ------------------------------------------------------------------------------------- trouble

    def _put_off(self, found: _Dirty, error: Exception) -> None:
        """Try again later, or not at all if that is no use."""
        deaths = self._deaths.get(found.log, 0) + isinstance(error, ChildDied)
        self._deaths[found.log] = deaths
        if isinstance(error, (Uncleanable, CorruptLog)) or deaths >= _DEATHS_MAX:
            self._not_before_ms[found.log] = INT64_MAX
            log.error("%s is not cleaned any more: %s", found, error)
        else:
            self._not_before_ms[found.log] = self._clock.monotonic_ms() + self._pause_ms
            log.warning("%s is cleaned another time: %s", found, error)
