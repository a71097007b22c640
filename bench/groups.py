"""`make bench-groups`: how fast groups come together, offsets are committed and transactions are done, on one broker.

    python -m bench.groups                                            a broker of our own, started for this
    python -m bench.groups --against HOST:PORT --beside HOST:PORT     two brokers; ratio > 1: the first is better

Clients are bare (`bench.groups_clients`): members send a heartbeat every 0.1 s while a group comes together, and who
has to wait for the markers of the last transaction asks again after 2 ms. Brokers take turns with every row, the first
round warms up and does not count, and medians of the others are told. A broker that waits before the first
rebalance (`group.initial.rebalance.delay.ms`) is measured with that: set it to 0 on both.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bench import broker_load
from bench.cluster import memory_bytes, running
from bench.groups_clients import (
    GROUP,
    TRANSACTION,
    Address,
    Connection,
    Member,
    Producer,
    commit_offsets,
    connect_to_coordinator,
)

SECONDS = 5.0
GROUPS = 1000
CONNECTING_AT_ONCE = 100
PARTITIONS = 10
BEATS = 5
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.replication.factor=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
)


class Figure(NamedTuple):
    """One line of the table."""

    name: str
    value: float
    is_better_high: bool


class Side(NamedTuple):
    """A broker; `pid` is that of its process, if it is known."""

    address: Address
    topic: str
    pid: int | None

    def name(self, what: str) -> str:
        """One that nobody has had."""
        return f"{what}-{time.time_ns()}"


async def time_to_stable(side: Side, count: int) -> list[Figure]:
    """From the first join to the last member knowing its part of a group with all of them."""
    group = side.name("join")
    members = [Member(await connect_to_coordinator(side.address, GROUP, group), group) for _ in range(count)]
    began = time.perf_counter()
    await asyncio.gather(*(each.join_until(count) for each in members))
    seconds = time.perf_counter() - began
    assert len({each.generation for each in members}) == 1
    await asyncio.gather(*(each.leave() for each in members))
    return [Figure(f"first join to stable, {count} members, ms", seconds * 1e3, False)]


async def commits(side: Side, count: int) -> list[Figure]:
    names = [side.name(f"commit-{number}") for number in range(count)]
    connections = [await connect_to_coordinator(side.address, GROUP, name) for name in names]
    until = time.perf_counter() + SECONDS
    pairs = zip(connections, names, strict=True)
    done = await asyncio.gather(*(commit_offsets(each, name, side.topic, until) for each, name in pairs))
    for each in connections:
        each.close()
    return [Figure(f"offset commits/s, {count} at once", sum(done) / SECONDS, True)]


async def many_groups(side: Side) -> list[Figure]:
    """Each with one member and a connection."""
    prefix = side.name("one of many")
    before = memory_bytes(side.pid) if side.pid is not None else 0
    turns = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def start(number: int) -> Member:
        group = f"{prefix}-{number}"
        async with turns:
            member = Member(await connect_to_coordinator(side.address, GROUP, group), group)
            await member.join_until(1)
        return member

    began = time.perf_counter()
    members = await asyncio.gather(*(start(number) for number in range(GROUPS)))
    seconds = time.perf_counter() - began
    memory = memory_bytes(side.pid) - before if side.pid is not None else 0
    for each in members:
        each.heartbeat_seconds.clear()
    for _ in range(BEATS):
        await asyncio.gather(*(_beat(each, turns) for each in members))
    beats = sorted(beat for each in members for beat in each.heartbeat_seconds)
    await asyncio.gather(*(each.leave() for each in members))
    figures = [
        Figure(f"{GROUPS:,} groups to stable, s", seconds, False),
        Figure(f"heartbeat beside {GROUPS:,} groups, p99, ms", beats[len(beats) * 99 // 100] * 1e3, False),
    ]
    return [*figures, *([Figure("memory of a group, KiB", memory / GROUPS / 1024, False)] if side.pid else [])]


async def _beat(member: Member, turns: asyncio.Semaphore) -> None:
    async with turns:
        await member.heartbeat()


async def transactions(side: Side, count: int) -> list[Figure]:
    producers = []
    for number in range(count):
        name = side.name(f"producer-{number}")
        coordinator = await connect_to_coordinator(side.address, TRANSACTION, name)
        leader = await Connection.open(side.address)
        producers.append(Producer(coordinator, leader, name, side.topic, number % PARTITIONS))
    for each in producers:
        await each.init()
    until = time.perf_counter() + SECONDS

    async def work(producer: Producer) -> int:
        done = 0
        while time.perf_counter() < until:
            await producer.transact()
            done += 1
        return done

    done = await asyncio.gather(*(work(each) for each in producers))
    for each in producers:
        each.close()
    return [Figure(f"transactions/s, {count} producers", sum(done) / SECONDS, True)]


ROWS: dict[str, Callable[[Side], Awaitable[list[Figure]]]] = {
    "join-1": lambda side: time_to_stable(side, 1),
    "join-10": lambda side: time_to_stable(side, 10),
    "join-100": lambda side: time_to_stable(side, 100),
    "commit-1": lambda side: commits(side, 1),
    "commit-10": lambda side: commits(side, 10),
    "groups": many_groups,
    "transactions-1": lambda side: transactions(side, 1),
    "transactions-10": lambda side: transactions(side, 10),
}


async def measure(sides: list[Side], rows: list[str], rounds: int) -> list[dict[str, list[Figure]]]:
    """For each side the figures of all rounds, by their names."""
    seen: list[dict[str, list[Figure]]] = [{} for _ in sides]
    for number in range(rounds + 1):
        for row in rows:
            for side, figures in zip(sides, seen, strict=True):
                for figure in await ROWS[row](side):
                    # The first round only warms up.
                    if number:
                        figures.setdefault(figure.name, []).append(figure)
        print(f"round {number} of {rounds} done", flush=True)
    return seen


def print_table(seen: list[dict[str, list[Figure]]]) -> None:
    heads = ["ours", "beside", "ratio"] if len(seen) == 2 else ["ours"]
    print(f"\n{'':<46}" + "".join(f"{head:>13}" for head in heads) + f"{'lowest':>13}{'highest':>13}")
    for name, figures in seen[0].items():
        values = [statistics.median(each.value for each in side[name]) for side in seen if name in side]
        line = f"{name:<46}" + "".join(f"{value:>13,.1f}" for value in values)
        if len(seen) == 2:
            has_both = len(values) == 2 and all(values)
            ratio = values[0] / values[1] if has_both else 0.0
            better = ratio if figures[0].is_better_high or not ratio else 1 / ratio
            line += f"{better:>13.2f}" if has_both else f"{'-':>13}"
        own = [each.value for each in figures]
        print(line + f"{min(own):>13,.1f}{max(own):>13,.1f}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description="Groups and transactions on a broker.")
    parser.add_argument("--against", metavar="HOST:PORT", help="the broker to measure (default: one is started)")
    parser.add_argument("--beside", metavar="HOST:PORT", help="another broker to take turns with")
    parser.add_argument("--pid", type=int, help="of the broker to measure, to tell what memory it takes")
    parser.add_argument("--beside-pid", type=int, help="of the other one")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds, after one that warms up")
    parser.add_argument("--rows", default=",".join(ROWS), help="only these")
    return parser.parse_args()


def make_side(server: str, pid: int | None) -> Side:
    host, port = server.split(":")
    topic = f"bench-groups-{time.time_ns()}"
    broker_load.create_topics(server, {topic: PARTITIONS}, 1)
    return Side(Address(host, int(port)), topic, pid)


def compare(server: str, pid: int | None, options: argparse.Namespace) -> None:
    brokers = [(server, pid), *([(options.beside, options.beside_pid)] if options.beside else [])]
    sides = [make_side(*each) for each in brokers]
    try:
        print_table(asyncio.run(measure(sides, options.rows.split(","), options.rounds)))
    finally:
        for (address, _), side in zip(brokers, sides, strict=True):
            broker_load.delete_topics(address, [side.topic])


def main() -> None:
    options = parse()
    if options.against:
        compare(options.against, options.pid, options)
    else:
        with running(1, *SETTINGS) as cluster:
            compare(cluster.servers, cluster.brokers[0].pid, options)


if __name__ == "__main__":
    main()
