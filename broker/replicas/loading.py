"""Opening the log directories at the start, off the loop: recovery may take long, and the session has to be kept alive."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from minikafka.broker.clock import Clock
from minikafka.broker.work import Work
from minikafka.storage.config import LogConfig
from minikafka.storage.dir_identity import Identity
from minikafka.storage.log_dirs import LogDirs


async def load(
    log_dirs: LogDirs, identity: Identity, config_for: Callable[[str], LogConfig], work: Work, clock: Clock
) -> None:
    """Take possession of all directories and load what is in them; nobody else touches them meanwhile."""
    await work.run_blocking(partial(log_dirs.open, identity, clock.wall_ms()))
    await work.run_blocking(partial(log_dirs.load_all, config_for, clock.wall_ms()))
