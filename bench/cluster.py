"""A cluster of our own for a benchmark or a long test: `minikafka up` in a folder that goes away with it."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.compat.running import Broker, Up


class Running(NamedTuple):
    """Brokers that are ready, what they print, and how long it took from the command to their being ready."""

    brokers: tuple[Broker, ...]
    process: Up
    start_seconds: float

    @property
    def servers(self) -> str:
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers)


@contextmanager
def running(brokers: int = 1, *settings: str) -> Iterator[Running]:
    """Start a cluster, wait until it is ready, and stop it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="minikafka-bench-"))
    started_ns = time.time_ns()
    process = Up(folder, brokers, *settings)
    try:
        cluster = process.wait_until_ready()
        ready_ns = (cluster.data / "cluster.json").stat().st_mtime_ns
        yield Running(cluster.brokers, process, (ready_ns - started_ns) / 1e9)
    finally:
        process.stop()
        shutil.rmtree(folder, ignore_errors=True)


def memory_bytes(pid: int) -> int:
    """Resident memory of a process."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def processor_seconds(pid: int) -> float:
    """What a process has used of the processors, for itself and inside the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
