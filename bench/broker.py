"""`make bench-broker`: records through a broker, by itself or in turns with another cluster.

    python -m bench.broker                                            a broker of our own, started for this
    python -m bench.broker --against HOST:PORT --beside HOST:PORT     two clusters; ratio > 1: the first is better

Client and broker share the machine, so a broker that needs less of it is faster for that alone. Clusters take turns
with every row, the first round warms up and does not count, and medians of the others are compared. Where the process
of a broker is known, what it used of the processors is told as well, the least of all rounds: on a machine that has
other things to do this is the figure with the least noise in it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from bench import broker_load
from bench.cluster import processor_seconds, running

BATCHES = ["linger.ms=5", "batch.num.messages=10000", "batch.size=1000000"]
SINGLY = ["linger.ms=0", "batch.num.messages=1"]
PARTITIONS = 3


class Figure(NamedTuple):
    """One line of the table, read from what the load generator prints."""

    name: str
    key: str
    is_better_high: bool
    # How many times better than Kafka we want to be, with one broker.
    goal: float


class Job(NamedTuple):
    """One run of the load generator. `arguments` come after the topic."""

    mode: str
    topic: str
    partitions: int
    arguments: list[str]
    figures: list[Figure]


def jobs(replication_factor: int, scale: float) -> list[Job]:
    acks = "acks=1" if replication_factor == 1 else "acks=all"
    # A cluster that replicates is given less to do, so that a row still takes seconds.
    scale = scale if replication_factor == 1 else scale / 2
    rate = 1000 if replication_factor == 1 else 200
    small, large, single, piped, timed = (str(int(n * scale)) for n in (5_000_000, 600_000, 20_000, 60_000, 4000))
    spread = str(PARTITIONS)
    return [
        Job("produce", "small", PARTITIONS, [spread, "100", small, *BATCHES, acks], [_rate("produce 100 B", 1.2)]),
        Job("produce", "large", PARTITIONS, [spread, "1024", large, *BATCHES, acks], [_rate("produce 1 KB", 1.2)]),
        Job("consume", "small", PARTITIONS, [spread, small], [_rate("consume 100 B", 1.05)]),
        Job("consume", "large", PARTITIONS, [spread, large], [_rate("consume 1 KB", 1.05)]),
        Job("produce", "single", 1, _single(single, 1, acks), [_rate("one record a request, 1 in flight", 1.4)]),
        Job("produce", "piped", 1, _single(piped, 100, acks), [_rate("one record a request, 100 in flight", 4.0)]),
        Job("latency", "timed", 1, ["100", timed, str(rate), "linger.ms=0", acks], _delays(rate)),
    ]


def _rate(name: str, goal: float) -> Figure:
    return Figure(f"{name}, records/s", "records_s", True, goal)


def _single(count: str, in_flight: int, acks: str) -> list[str]:
    return ["1", "100", count, *SINGLY, f"max.in.flight={in_flight}", acks]


def _delays(rate: int) -> list[Figure]:
    return [Figure(f"latency {p} at {rate}/s, us", f"{p}_us", False, 1.2) for p in ("p50", "p99")]


class Side:
    """A cluster, and what was measured on it; `pid` is that of its broker, if it is known."""

    def __init__(self, servers: str, replication_factor: int, pid: int | None) -> None:
        self.servers = servers
        self.replication_factor = replication_factor
        self.pid = pid
        self.seen: dict[str, list[float]] = {}
        # Microseconds of a processor, a record.
        self.used: dict[str, list[float]] = {}

    @contextmanager
    def topics(self, todo: list[Job]) -> Iterator[str]:
        """Fresh topics for one round; yields what their names begin with."""
        prefix = f"bench-{time.time_ns()}-"
        partitions = {f"{prefix}{job.topic}": job.partitions for job in todo}
        broker_load.create_topics(self.servers, partitions, self.replication_factor)
        try:
            yield prefix
        finally:
            broker_load.delete_topics(self.servers, [*partitions])

    def run(self, job: Job, prefix: str, *, counts: bool) -> None:
        before = 0.0 if self.pid is None else processor_seconds(self.pid)
        measured = broker_load.run(job.mode, self.servers, prefix + job.topic, job.arguments)
        if not counts:
            return
        for figure in job.figures:
            self.seen.setdefault(figure.name, []).append(measured[figure.key])
        if self.pid is not None:
            used = (processor_seconds(self.pid) - before) * 1e6 / measured["count"]
            self.used.setdefault(_short(job.figures[0]), []).append(used)

    def median(self, figure: Figure) -> float:
        return statistics.median(self.seen[figure.name])


def measure(sides: list[Side], todo: list[Job], rounds: int) -> None:
    for number in range(rounds + 1):
        _round(sides, todo, counts=number > 0)
        print(f"round {number} of {rounds} done", flush=True)


def _round(sides: list[Side], todo: list[Job], *, counts: bool) -> None:
    with ExitStack() as stack:
        prefixes = [stack.enter_context(side.topics(todo)) for side in sides]
        for job in todo:
            for side, prefix in zip(sides, prefixes, strict=True):
                side.run(job, prefix, counts=counts)


def ratios(figure: Figure, ours: Side, other: Side) -> tuple[float, list[float]]:
    """How many times better we are: by the medians, and round by round."""
    pairs = [(ours.median(figure), other.median(figure))]
    pairs += zip(ours.seen[figure.name], other.seen[figure.name], strict=True)
    better = [a / b if figure.is_better_high else b / a for a, b in pairs]
    return better[0], sorted(better[1:])


def print_table(sides: list[Side], todo: list[Job], goal: str | None) -> bool:
    """Returns whether every ratio is as good as it should be."""
    heads = ["ours", "beside", "ratio", "lowest", "highest", "goal"]
    heads = heads[:1] if len(sides) == 1 else heads if goal else heads[:-1]
    print(f"\n{'':<46}" + "".join(f"{head:>13}" for head in heads))
    is_reached = True
    for figure in (figure for job in todo for figure in job.figures):
        line = f"{figure.name:<46}" + "".join(f"{side.median(figure):>13,.0f}" for side in sides)
        if len(sides) == 2:
            ratio, each = ratios(figure, *sides)
            line += f"{ratio:>13.2f}{each[0]:>13.2f}{each[-1]:>13.2f}"
            if goal:
                wanted = figure.goal if goal == "kafka" else float(goal)
                is_reached = is_reached and ratio >= wanted
                line += f"{wanted:>13.2f}{'' if ratio >= wanted else '   missed'}"
        print(line)
    return is_reached


def print_processor_use(sides: list[Side]) -> None:
    known = [side for side in sides if side.used]
    if not known:
        return
    print(f"\n{'us of a processor, a record':<46}" + "".join(f"{side.servers:>18}" for side in known))
    for name in known[0].used:
        print(f"{name:<46}" + "".join(f"{min(side.used[name]):>18.3f}" for side in known))


def _short(figure: Figure) -> str:
    return figure.name.rpartition(", ")[0]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.broker", description="Records through a broker.")
    parser.add_argument("--against", metavar="HOST:PORT", help="the cluster to measure (default: one is started)")
    parser.add_argument("--beside", metavar="HOST:PORT", help="another cluster to take turns with")
    parser.add_argument("--pid", type=int, help="of the broker to measure, to tell what it uses of the processors")
    parser.add_argument("--beside-pid", type=int, help="of the other one")
    parser.add_argument("--goal", help="what the ratios should be: 'kafka' for those we want over Kafka, or a number")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds, after one that warms up")
    parser.add_argument("--rows", default="", help="only rows whose topic is named: small,large,single,piped,timed")
    parser.add_argument("--scale", type=float, default=1.0, help="how much to send, against the usual")
    parser.add_argument("--replication-factor", type=int, default=1)
    return parser.parse_args()


def compare(against: str, pid: int | None, options: argparse.Namespace) -> bool:
    brokers = [(against, pid), (options.beside, options.beside_pid)] if options.beside else [(against, pid)]
    todo = jobs(options.replication_factor, options.scale)
    if options.rows:
        todo = [job for job in todo if job.topic in options.rows.split(",")]
    sides = [Side(servers, options.replication_factor, pid) for servers, pid in brokers]
    measure(sides, todo, options.rounds)
    is_reached = print_table(sides, todo, options.goal)
    print_processor_use(sides)
    return is_reached


def main() -> None:
    options = parse()
    broker_load.build()
    if options.against:
        is_reached = compare(options.against, options.pid, options)
    else:
        with running(max(1, options.replication_factor)) as cluster:
            pid = cluster.brokers[0].pid if len(cluster.brokers) == 1 else None
            is_reached = compare(cluster.servers, pid, options)
    raise SystemExit(0 if is_reached else 1)


if __name__ == "__main__":
    main()
