"""Opening the log directories at the start and closing them at the end, off the loop.

Recovery may take long: the session with ZooKeeper has to be kept alive meanwhile, somebody wants to know how far it
is, and may change their mind. Every directory is loaded on a thread of its own, as each is usually a disk of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.replicas.steps import in_steps
from minikafka.broker.work import Work
from minikafka.storage.config import LogConfig
from minikafka.storage.dir_identity import Identity
from minikafka.storage.errors import StorageError
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_dirs import LogDirs

log: Final = logging.getLogger(__name__)

REPORT_INTERVAL_S: Final = 5.0
_CLOSING_THREADS: Final = 8
"""Closing is waiting for syncs, and a disk does several at once."""


async def load(
    log_dirs: LogDirs, identity: Identity, config_for: Callable[[str], LogConfig], work: Work, clock: Clock
) -> None:
    """Take possession of all directories and load what is in them; nobody else touches them meanwhile.

    StorageError if no directory is left, NotOurs if it is a mistake of the operator.
    """
    began_ms = clock.monotonic_ms()
    await work.run_blocking(partial(log_dirs.open, identity, clock.wall_ms()))
    # Threads have no business with the configuration, which belongs to the loop.
    topics = dict.fromkeys(topic for each in log_dirs.online for topic, _ in each.unloaded)
    configs = {topic: config_for(topic) async for topic in in_steps(topics, clock)}
    loads = [_Load(each, configs, clock.wall_ms()) for each in log_dirs.online]
    try:
        await _run(loads, work)
    except BaseException:
        await work.run_blocking(log_dirs.close)
        raise
    try:
        log_dirs.check_loaded(clock.wall_ms())
    finally:
        for loaded in loads:
            loaded.report(clock.monotonic_ms() - began_ms)


async def close(log_dirs: LogDirs, broker_epoch: int, work: Work) -> None:
    """Stop all directories in good order."""
    await work.run_blocking(partial(log_dirs.close, broker_epoch, _run_at_once))


def _run_at_once(calls: Sequence[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(_CLOSING_THREADS, thread_name_prefix="closing") as threads:
        for _ in threads.map(lambda call: call(), calls):
            pass


async def _run(loads: Sequence[_Load], work: Work) -> None:
    running = [asyncio.ensure_future(work.run_blocking(each.run)) for each in loads]
    try:
        while (await asyncio.wait(running, timeout=REPORT_INTERVAL_S))[1]:
            for each in loads:
                log.info("%s: %d of %d logs are loaded", each.log_dir.path, each.done_count, each.count)
    finally:
        for each in loads:
            each.is_cancelled = True
        await asyncio.wait(running)
    for future in running:
        future.result()


class _Load:
    """One directory on its way."""

    def __init__(self, log_dir: LogDir, configs: Mapping[str, LogConfig], now_ms: int) -> None:
        self.log_dir = log_dir
        self.count = len(log_dir.unloaded)
        self.done_count = 0
        self.is_cancelled = False
        self._configs = configs
        self._now_ms = now_ms

    def run(self) -> None:
        """On any thread."""
        try:
            for _ in self.log_dir.loading(self._configs.__getitem__, self._now_ms):
                self.done_count += 1
                if self.is_cancelled:
                    return
        except StorageError:
            if not self.log_dir.is_offline:
                raise

    def report(self, took_ms: int) -> None:
        """Tell the operator what was found."""
        log_dir = self.log_dir
        for note in log_dir.notes:
            log.warning("%s", note)
        for (topic, index), error in log_dir.corrupt.items():
            log.error("%s-%d is damaged and is not used: %s", topic, index, error)
        if log_dir.is_offline:
            log.error("log directory %s is offline: %s", log_dir.path, log_dir.failure)
        elif self.count:
            how = "" if log_dir.was_clean else " after a stop that was not clean"
            log.info("%s: %d logs were loaded in %d ms%s", log_dir.path, self.done_count, took_ms, how)
