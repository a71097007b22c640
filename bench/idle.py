"""`make bench-idle`: what 10,000 idle connections take, and whether others notice them.

One broker holds the idle ones while 50 others produce at a steady rate. They do so in turns with and without the idle
ones, in one run, so that the machine is the same to both.

Memory of the broker's process is counted apart from that of the kernel. The kernel's is for both ends of a
connection, since both are on this machine, and it is an estimate: others use it too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.broker_load import create_topics
from bench.cluster import memory_bytes, open_files, running

HOLDERS = 4
TOPIC = "active"
GOAL_BYTES = 20 << 10
SETTLE_SECONDS = 1.5
OTHER_FILES = 20


class Memory(NamedTuple):
    broker_bytes: int
    kernel_bytes: int

    @classmethod
    def now(cls, pid: int) -> Memory:
        return cls(memory_bytes(pid), _kernel_bytes())


def _kernel_bytes() -> int:
    """Slabs (sockets, files) and the buffers of TCP."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    slab = next(int(line.split()[1]) for line in lines if line.startswith("Slab:")) * 1024
    tcp = next(line for line in Path("/proc/net/sockstat").read_text().splitlines() if line.startswith("TCP:"))
    return slab + int(tcp.split()[-1]) * 4096


class Phase(NamedTuple):
    """How the active connections fared."""

    p50_us: float
    p99_us: float


def work(host: str, port: int, options: argparse.Namespace) -> Phase:
    arguments = [TOPIC, str(options.active), str(options.rate), str(options.seconds)]
    command = [sys.executable, "-m", "bench.idle_clients", "work", host, str(port), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures = json.loads(done.stdout)
    return Phase(figures["p50_us"], figures["p99_us"])


@contextmanager
def idle_connections(host: str, port: int, count: int) -> Iterator[None]:
    """Hold so many; none of them may be lost."""
    command = [sys.executable, "-m", "bench.idle_clients", "hold", host, str(port), str(count // HOLDERS)]
    holders = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(HOLDERS)
    ]
    try:
        for holder in holders:
            assert holder.stdout is not None
            if holder.stdout.readline() != "open\n":
                raise SystemExit("connections could not be opened")
        yield
    finally:
        said = [holder.communicate()[0] for holder in holders]
    lost = sum(json.loads(line)["lost"] for line in said)
    if lost:
        raise SystemExit(f"{lost} idle connections were lost")


def wait_until_closed(pid: int, files: int) -> None:
    deadline = time.monotonic() + 30
    # A log or two may have been opened meanwhile.
    while open_files(pid) > files + OTHER_FILES:
        if time.monotonic() > deadline:
            raise SystemExit(f"{open_files(pid) - files} connections are still open")
        time.sleep(0.05)


def print_memory(rounds: list[tuple[Memory, Memory]], count: int) -> bool:
    # Memory that was once taken is used again: the first round is the one that shows what is needed.
    before, after = rounds[0]
    each = (after.broker_bytes - before.broker_bytes) / count
    kernel = statistics.median(after.kernel_bytes - before.kernel_bytes for before, after in rounds) / count
    print(f"broker: {before.broker_bytes / 1e6:.1f} MB, with {count:,} idle {after.broker_bytes / 1e6:.1f} MB")
    print(
        f"each: {each / 1024:.1f} KiB of the process (goal {GOAL_BYTES / 1024:.0f}); kernel, both ends, about ", end=""
    )
    print(f"{kernel / 1024:.1f} KiB")
    return each <= GOAL_BYTES


def print_phases(title: str, phases: list[Phase]) -> None:
    p50, p99 = (statistics.median(each) for each in zip(*phases, strict=True))
    each = " ".join(f"{phase.p99_us:,.0f}" for phase in phases)
    print(f"{title:<24} p50 {p50:>8,.0f} us   p99 {p99:>8,.0f} us   p99 of each round: {each}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.idle")
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--active", type=int, default=50)
    parser.add_argument("--rate", type=int, default=1000, help="requests a second of all active connections")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    alone: list[Phase] = []
    beside: list[Phase] = []
    memory = []
    with running(1) as cluster:
        broker = cluster.brokers[0]
        create_topics(cluster.servers, {TOPIC: 1}, 1)
        work(broker.host, broker.port, options)
        files = open_files(broker.pid)
        for _ in range(options.rounds):
            alone.append(work(broker.host, broker.port, options))
            before = Memory.now(broker.pid)
            with idle_connections(broker.host, broker.port, options.idle):
                time.sleep(SETTLE_SECONDS)
                memory.append((before, Memory.now(broker.pid)))
                beside.append(work(broker.host, broker.port, options))
            wait_until_closed(broker.pid, files)
    is_small = print_memory(memory, options.idle)
    print_phases("without idle ones", alone)
    print_phases(f"beside {options.idle:,} idle", beside)
    raise SystemExit(0 if is_small else 1)


if __name__ == "__main__":
    main()
