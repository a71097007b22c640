"""A cluster of our own for a benchmark or a long test: `minikafka up` as a child process, on free ports.

It lives in a folder of its own, which goes away with it, and it is stopped as a person would stop it: by Ctrl-C.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

HOST = "127.0.0.1"
START_SECONDS = 30.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.005


class Member(NamedTuple):
    """One broker, as DIR/cluster.json names it."""

    id: int
    pid: int
    port: int

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


class Cluster(NamedTuple):
    """Brokers that are ready, where they keep their files and what they have said so far."""

    brokers: list[Member]
    folder: Path
    output: Path
    start_seconds: float

    @property
    def servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)


@contextmanager
def running(brokers: int = 1, settings: Sequence[str] = ()) -> Iterator[Cluster]:
    """Start a cluster, wait until it is ready, and stop it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="minikafka-bench-"))
    try:
        with _process(folder, brokers, settings) as (process, started):
            members = _wait_ready(process, folder)
            yield Cluster(members, folder / "data", folder / "output.log", time.perf_counter() - started)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _process(folder: Path, brokers: int, settings: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    command = [sys.executable, "-m", "minikafka", "up", "--brokers", str(brokers)]
    command += ["--port", str(_free_port(brokers)), "--data", str(folder / "data")]
    for setting in settings:
        command += ["--set", setting]
    started = time.perf_counter()
    with (folder / "output.log").open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process, started
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(process: subprocess.Popen[bytes], folder: Path) -> list[Member]:
    deadline = time.monotonic() + START_SECONDS
    described = folder / "data" / "cluster.json"
    while time.monotonic() < deadline and process.poll() is None:
        try:
            found = json.loads(described.read_text())["brokers"]
            return [Member(each["id"], each["pid"], each["port"]) for each in found]
        except (OSError, ValueError):
            time.sleep(POLL_SECONDS)
    said = (folder / "output.log").read_text(errors="replace")
    raise SystemExit(f"minikafka up was not ready after {START_SECONDS:g} s:\n{said}")


def _free_port(count: int) -> int:
    """The first of so many neighbouring ports that nobody listens on."""
    while True:
        with socket.create_server((HOST, 0)) as probe:
            first: int = probe.getsockname()[1]
        if all(_is_free(port) for port in range(first, first + count)):
            return first


def _is_free(port: int) -> bool:
    try:
        with socket.create_server((HOST, port)):
            return True
    except OSError:
        return False


def memory_bytes(pid: int) -> int:
    """Resident memory of a process."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
