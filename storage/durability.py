"""When something counts as written: the two modes, and the group commit of the stricter one.

    replicated   as soon as the replicas have it in memory; the disk follows in the background
    fsync        when it is on disk as well; so it is in the other mode for every `flush.messages` of a topic

Everybody who waits for the disk registers, and one round of syncs is under way at a time.  A round covers all that was
appended before it began, and who comes later waits for the next one: the slower the disk, the more share a sync.

    loop     request(log, offset, waiter)    as often as there are appends
    loop     add(log)                        where nobody waits, but it is time (`is_flush_due`)
    loop     round = next_round()            None: there is nothing to do, or a round is under way
    worker   round.run()                     or several of them
    loop     for waiter, verdict in complete(round): ...

A sync that fails is not tried again, for the kernel may have dropped what it could not write, and would then report
success.  The log directory goes offline and whoever waits is told so.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from minikafka.storage.errors import StorageError
from minikafka.storage.flushing import FlushPlan
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir

T = TypeVar("T")

_ADDED_AT_ONCE: Final = 100
"""Logs of a round for which nobody waits, so that nobody else has to wait for thousands of them."""


class Durability(Enum):
    """What has to happen before a producer is answered."""

    REPLICATED = "replicated"
    FSYNC = "fsync"


class Verdict(Enum):
    """What became of what somebody waited for."""

    SYNCED = "synced"
    CUT_OFF = "cut off"
    """It is no longer in the log, or that is not known: another leader may have other records at these offsets."""
    FAILED = "failed"


class _Waiting(NamedTuple, Generic[T]):
    waiter: T
    offset: int
    generation: int


class Round:
    """One sync of every log that needs it."""

    def __init__(self, logs: list[Log], plans: list[tuple[Log, FlushPlan]]) -> None:
        self.logs = logs
        self.plans = plans
        self.ended: list[Log] = []
        self.failures: list[tuple[Log, StorageError]] = []
        self._todo = iter(plans)

    @property
    def is_done(self) -> bool:
        return self._is_hopeless or len(self.ended) == len(self.plans)

    @property
    def _is_hopeless(self) -> bool:
        return any(not _is_gone(error) for _, error in self.failures)

    def run(self) -> None:
        """On any thread, or on several at once, which share the work; what fails is noted for `complete`."""
        for log, plan in self._todo:
            try:
                plan.run()
            except StorageError as error:
                self.failures.append((log, error))
            self.ended.append(log)
            if self.failures and self._is_hopeless:
                return


class GroupCommit(Generic[T]):
    """Of one log directory; `T` is whatever the caller gets back when it need not wait any longer."""

    def __init__(self, log_dir: LogDir, durability: Durability) -> None:
        self._log_dir = log_dir
        self._is_strict = durability is Durability.FSYNC
        self._waiting: dict[Log, list[_Waiting[T]]] = {}
        self._added: dict[Log, None] = {}
        self._round: Round | None = None

    @property
    def is_idle(self) -> bool:
        """Nobody waits and nothing is under way."""
        return not self._waiting and not self._added and self._round is None

    def request(self, log: Log, offset: int, waiter: T) -> bool:
        """Wait for all below an offset to be on disk; True if nobody has to wait, and then the waiter is not kept."""
        missing = offset - log.recovery_point
        if missing <= 0 or (not self._is_strict and missing < log.config.flush_messages):
            return True
        assert offset <= log.log_end_offset
        self._waiting.setdefault(log, []).append(_Waiting(waiter, offset, log.generation))
        return False

    def add(self, log: Log) -> None:
        """Have a log synced with one of the next rounds."""
        self._added[log] = None

    def next_round(self) -> Round | None:
        """What to sync now; None if there is nothing, or a round is under way already."""
        if self._round is not None or self._log_dir.is_offline:
            return None
        logs = dict.fromkeys(self._waiting)
        while self._added and len(logs) < _ADDED_AT_ONCE:
            logs[self._added.popitem()[0]] = None
        if not logs:
            return None
        self._round = self._prepared([*logs])
        return self._round

    def _prepared(self, logs: list[Log]) -> Round:
        plans: list[tuple[Log, FlushPlan]] = []
        for log in logs:
            try:
                plan = log.prepare_flush() if self._log_dir.holds(log) else None
            except StorageError as error:
                # Not even that: then nothing is synced, and `complete` will see it.
                made = Round(logs, [])
                made.failures.append((log, error))
                return made
            if plan is not None:
                plans.append((log, plan))
        return Round(logs, plans)

    def complete(self, done: Round) -> list[tuple[T, Verdict]]:
        """Take note of what a round did; returns who need not wait any longer, and why."""
        assert done is self._round and done.is_done
        self._round = None
        for log, error in done.failures:
            # The directory of a partition that was deleted meanwhile has another name by now.
            if not _is_gone(error) or self._log_dir.holds(log):
                self._log_dir.fail(str(error))
        if self._log_dir.is_offline:
            return self.give_up()
        for log, plan in done.plans:
            log.complete_flush(plan)
        return [settled for log in done.logs for settled in self._settle(log)]

    def give_up(self) -> list[tuple[T, Verdict]]:
        """The directory is offline: nobody will see the end of it."""
        assert self._log_dir.is_offline
        waiting, self._waiting = self._waiting, {}
        self._added.clear()
        return [(each.waiter, Verdict.FAILED) for some in waiting.values() for each in some]

    def cut_off(self, log: Log) -> list[tuple[T, Verdict]]:
        """Nobody shall wait for a log any longer: it is deleted, or follows another leader now."""
        return [(each.waiter, Verdict.CUT_OFF) for each in self._waiting.pop(log, [])]

    def _settle(self, log: Log) -> list[tuple[T, Verdict]]:
        if not self._log_dir.holds(log):
            return self.cut_off(log)
        settled: list[tuple[T, Verdict]] = []
        still: list[_Waiting[T]] = []
        for each in self._waiting.pop(log, []):
            # After a truncation the same offsets may have other records, so the offset alone tells nothing.
            if each.generation != log.generation:
                settled.append((each.waiter, Verdict.CUT_OFF))
            elif each.offset <= log.recovery_point:
                settled.append((each.waiter, Verdict.SYNCED))
            else:
                still.append(each)
        if still:
            self._waiting[log] = still
        return settled


def is_behind(log: Log) -> bool:
    """Whether there is anything in a log that may not be on disk yet."""
    return log.recovery_point < log.log_end_offset


def is_flush_due(log: Log, behind_since_ms: int, now_ms: int) -> bool:
    """Whether a log that is behind has to be synced, though nobody waits.

    A segment that is full is: a crash then costs no more than reading one segment of each log again.
    """
    config = log.config
    return (
        log.recovery_point < log.segments.active.base_offset
        or now_ms - behind_since_ms >= config.flush_ms
        or log.log_end_offset - log.recovery_point >= config.flush_messages
    )


def _is_gone(error: StorageError) -> bool:
    return isinstance(error.__cause__, FileNotFoundError)
