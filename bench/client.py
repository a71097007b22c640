"""`make bench-client`: our client against aiokafka, kafka-python and confluent-kafka, on one broker.

    python -m bench.client                                        a broker of our own, started for this
    python -m bench.client --against HOST:PORT --rounds 5         another one
    python -m bench.client --only "send 100 B lz4" --scale 0.1    some rows, and less to do

Every measurement is a process of its own, with the same values. The rivals take turns in each round, the first round
warms up and does not count. The broker shares the machine with them, so a client that needs less of it is faster for
that alone. A ratio says how many times faster ours is, by the medians of all rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from random import Random
from typing import Final, NamedTuple

from bench import broker_load
from bench.client_rivals import RIVALS, Task
from bench.cluster import running

CODECS: Final = ("none", "lz4")
RECORDS: Final = {100: 300_000, 1_000: 100_000}
"""For each size of a value, how many are sent; those who are slow at it get fewer, see `SLOW`."""
SLOW: Final = {
    ("aiokafka", "send_singly"): 0.2,
    ("kafka-python", "send_singly"): 0.2,
    ("kafka-python", "send_many"): 0.2,
}

JOBS: Final = {
    "send_singly": "send one by one",
    "send_many": "send many at once",
    "read_singly": "read one by one",
    "read_many": "read many at once",
}
GOALS: Final = {
    "send_singly": {"aiokafka": 2.0, "kafka-python": 2.0},
    "read_singly": {"aiokafka": 2.0, "kafka-python": 2.0},
    "send_many": {"aiokafka": 5.0, "kafka-python": 5.0, "confluent": 0.5},
    "read_many": {"aiokafka": 5.0, "kafka-python": 5.0, "confluent": 0.5},
}
RUN_SECONDS_MAX: Final = 300


class Row(NamedTuple):
    """One line of the table."""

    job: str
    size: int
    codec: str

    @property
    def name(self) -> str:
        return f"{JOBS[self.job]}, {self.size:,} B, {self.codec}"


def rows(only: str) -> list[Row]:
    found = [Row(job, size, codec) for job in JOBS for size in RECORDS for codec in CODECS]
    words = only.replace(",", " ").split()
    return [row for row in found if all(word in row.name.replace(",", " ") for word in words)]


def values(size: int, count: int) -> list[bytes]:
    """Values of which half can be compressed."""
    random = Random(size)
    some = [random.randbytes(size // 2) + bytes(size - size // 2) for _ in range(1_000)]
    return [some[index % len(some)] for index in range(count)]


class Race:
    """What was measured so far: records a second, by row and rival."""

    def __init__(self, servers: str, scale: float) -> None:
        self._servers = servers
        self._scale = scale
        self.seen: dict[Row, dict[str, list[float]]] = {}

    def round(self, todo: list[Row], number: int) -> None:
        for row in todo:
            for rival in RIVALS:
                rate = self._measure(row, rival)
                if number > 0:
                    self.seen.setdefault(row, {}).setdefault(rival, []).append(rate)

    def _measure(self, row: Row, rival: str) -> float:
        count = int(RECORDS[row.size] * self._scale * SLOW.get((rival, row.job), 1))
        topic = f"bench-{time.time_ns()}"
        broker_load.create_topics(self._servers, {topic: 1}, 1)
        try:
            if row.job.startswith("read"):
                self._run("minikafka", "send_many", topic, row, count)
            return count / self._run(rival, row.job, topic, row, count)
        finally:
            broker_load.delete_topics(self._servers, [topic])

    def _run(self, rival: str, job: str, topic: str, row: Row, count: int) -> float:
        arguments = [rival, job, self._servers, topic, row.codec, str(row.size), str(count)]
        command = [sys.executable, "-m", "bench.client", "--child", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(arguments)} ended with code {done.returncode}\n{done.stdout}{done.stderr}")
        return float(json.loads(done.stdout)["seconds"])


def child(rival: str, job: str, servers: str, topic: str, codec: str, size: str, count: str) -> None:
    """One measurement, in a process of its own."""
    task = Task(servers, topic, codec, values(int(size), int(count)))
    seconds = getattr(RIVALS[rival], job)(task)
    print(json.dumps({"seconds": seconds}))


def print_table(race: Race) -> bool:
    """Returns whether every ratio is as good as it should be."""
    others = [rival for rival in RIVALS if rival != "minikafka"]
    print(f"\n{'records/s':<38}{'minikafka':>12}" + "".join(f"{rival:>14}{'ratio':>8}" for rival in others))
    is_reached = True
    for row, seen in race.seen.items():
        ours = statistics.median(seen["minikafka"])
        line = f"{row.name:<38}{ours:>12,.0f}"
        for rival in others:
            theirs = statistics.median(seen[rival])
            goal = GOALS[row.job].get(rival, 0)
            is_reached = is_reached and ours / theirs >= goal
            line += f"{theirs:>14,.0f}{ours / theirs:>7.2f}{' ' if ours / theirs >= goal else '!'}"
        print(line)
    print("a ratio with ! is below the goal")
    return is_reached


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.client", description="Our client against others.")
    parser.add_argument("--against", metavar="HOST:PORT", help="the broker to use (default: one is started)")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds, after one that warms up")
    parser.add_argument("--scale", type=float, default=1.0, help="how much to send, against the usual")
    parser.add_argument("--only", default="", help="words that the names of rows must have")
    parser.add_argument("--child", nargs=7, help=argparse.SUPPRESS)
    return parser.parse_args()


def compare(servers: str, options: argparse.Namespace) -> bool:
    race = Race(servers, options.scale)
    for number in range(options.rounds + 1):
        race.round(rows(options.only), number)
        print(f"round {number} of {options.rounds} done", flush=True)
    return print_table(race)


def main() -> None:
    options = parse()
    if options.child:
        child(*options.child)
        return
    if options.against:
        is_reached = compare(options.against, options)
    else:
        with running(1) as cluster:
            is_reached = compare(cluster.servers, options)
    raise SystemExit(0 if is_reached else 1)


if __name__ == "__main__":
    main()
