"""Mutated frames at a live broker: `make fuzz-socket RUNS=100000`.

Many connections send requests that are broken in every way we could think of, at once, in pieces, one behind the
other. Beside them a client works that must not notice. Afterwards the broker must have as many open files as before,
about as much memory, and no complaint in its log.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import struct
import time
from collections import Counter
from collections.abc import Coroutine, Iterable
from typing import Final, NamedTuple

from bench.cluster import Running, memory_bytes, open_files, running
from minikafka.protocol.messages.api_versions import ApiVersionsResponse
from tests.fuzz.canary import Canary, create_topics
from tests.fuzz.mutations import Corpus, Sent, framed, mutated, probe, served_versions

CONNECTIONS: Final = 32
HELD_MAX: Final = 100
"""Connections that are left open amid a frame until the end."""
PROBE: Final = 0x5EED
ANSWER_SECONDS: Final = 0.5
RETURN_SECONDS: Final = 15.0
MEMORY_BYTES_MORE: Final = 16 << 20
"""What a process may have grown by without a leak: fragments, and pages that the allocator keeps."""

# Topics that a request makes up would come into being, and what they take is no leak.
SETTINGS: Final = ("auto.create.topics.enable=false",)

FUZZ_TOPIC: Final = "fuzz"
CANARY_TOPIC: Final = "canary"

_head = struct.Struct(">ii")


class Attack:
    """So many frames from so many connections at a time."""

    def __init__(self, host: str, port: int, corpus: Corpus) -> None:
        self.host = host
        self.port = port
        self.corpus = corpus
        self.left = 0
        self.counts: Counter[str] = Counter()
        self._held: list[asyncio.StreamWriter] = []

    async def run(self, frames: int, seed: int) -> None:
        self.left = frames
        await self._at_once(self._visit_often(random.Random(seed * 1000 + number)) for number in range(CONNECTIONS))

    async def send_all(self) -> None:
        """Every request as it is: what a broker compiles or caches on first use is there afterwards."""
        todo = [[Sent(framed(body))] for body in self.corpus.requests]
        rng = random.Random(0)

        async def visit() -> None:
            while todo:
                await self._visit(todo.pop(), rng)

        await self._at_once(visit() for _ in range(CONNECTIONS))

    async def _at_once(self, visits: Iterable[Coroutine[None, None, None]]) -> None:
        async with asyncio.TaskGroup() as group:
            for visit in visits:
                group.create_task(visit)
        for writer in self._held:
            writer.transport.abort()
        self._held.clear()

    async def _visit_often(self, rng: random.Random) -> None:
        while self.left > 0:
            await self._visit([mutated(rng, self.corpus) for _ in range(rng.choice((1, 1, 1, 2, 3, 20)))], rng)

    async def _visit(self, sent: list[Sent], rng: random.Random) -> None:
        """One connection, from its opening to its end."""
        self.counts["connections"] += 1
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port)
        except ConnectionError:
            # The queue of connections to be accepted may be full; a broker that is gone is noticed by the canary.
            self.counts["refused"] += 1
            return
        try:
            for frame in sent:
                await self._send(writer, frame.data, rng)
                self.counts["frames"] += 1
                self.left -= 1
            if sent[-1].is_whole:
                await self._send(writer, probe(PROBE), rng)
                await self._wait_for_probe(reader)
        except ConnectionError:
            self.counts["closed"] += 1
        except TimeoutError:
            self.counts["given up"] += 1
        finally:
            self._leave(writer, rng, may_hold=not sent[-1].is_whole)

    async def _send(self, writer: asyncio.StreamWriter, data: bytes, rng: random.Random) -> None:
        step = rng.choice((1, 3, 17, max(1, len(data) // 3))) if rng.random() < 0.02 else len(data)
        slowly = data[: 20 * step]
        for start in range(0, len(slowly), max(1, step)):
            if writer.transport.is_closing():
                raise ConnectionResetError
            writer.write(slowly[start : start + step])
            if step < len(data):
                await asyncio.sleep(0.001)
        writer.write(data[20 * step :])
        await writer.drain()

    async def _wait_for_probe(self, reader: asyncio.StreamReader) -> None:
        """Read answers until the last one. Some requests wait for long, and what was mutated may be one of these."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                try:
                    size, correlation_id = _head.unpack(await reader.readexactly(_head.size))
                    await reader.readexactly(size - 4)
                except asyncio.IncompleteReadError:
                    raise ConnectionResetError from None
                self.counts["answers"] += 1
                if correlation_id == PROBE:
                    return

    def _leave(self, writer: asyncio.StreamWriter, rng: random.Random, *, may_hold: bool) -> None:
        if may_hold and len(self._held) < HELD_MAX and rng.random() < 0.1:
            self._held.append(writer)
        elif rng.random() < 0.5:
            writer.transport.abort()
        else:
            writer.close()


async def served_by(host: str, port: int, topic: str) -> Corpus:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(probe(PROBE))
    size, _ = _head.unpack(await reader.readexactly(_head.size))
    answer = ApiVersionsResponse.decode(await reader.readexactly(size - 4), 0)
    writer.close()
    await writer.wait_closed()
    return Corpus(served_versions(answer), topic)


# ------------------------------------------------------------------------------------------ verdict


class Footprint(NamedTuple):
    memory_bytes: int
    open_files: int


class Report(NamedTuple):
    counts: Counter[str]
    seconds: float
    canary: Canary
    before: Footprint
    after: Footprint
    problems: list[str]

    def __str__(self) -> str:
        counts, canary, before, after = self.counts, self.canary, self.before, self.after
        return "\n".join(
            [
                f"{counts['frames']:,} frames over {counts['connections']:,} connections in {self.seconds:.0f} s: "
                f"{counts['answers']:,} answers, {counts['closed']:,} connections closed by the broker, "
                f"{counts['given up']:,} given up and {counts['refused']:,} refused",
                f"canary: {canary.sent:,} records sent, {canary.seen:,} came back, "
                f"the slowest was acknowledged after {canary.slowest_seconds:.3f} s",
                f"memory: {before.memory_bytes / 1e6:.1f} MB before, {after.memory_bytes / 1e6:.1f} MB after",
                f"open files: {before.open_files} before, {after.open_files} after",
                *(f"PROBLEM: {problem}" for problem in self.problems),
            ]
        )


def footprint(cluster: Running) -> Footprint:
    pid = cluster.brokers[0].pid
    return Footprint(memory_bytes(pid), open_files(pid))


async def _returned(cluster: Running, before: Footprint) -> Footprint:
    """Its footprint, once it is what it was or has had time enough to be."""
    deadline = time.monotonic() + RETURN_SECONDS
    while True:
        after = footprint(cluster)
        is_back = (
            after.open_files <= before.open_files and after.memory_bytes <= before.memory_bytes + MEMORY_BYTES_MORE
        )
        if is_back or time.monotonic() > deadline:
            return after
        await asyncio.sleep(0.05)


def _problems(cluster: Running, canary: Canary, before: Footprint, after: Footprint) -> list[str]:
    found = canary.problems[:20]
    if after.open_files > before.open_files:
        found.append(f"{after.open_files - before.open_files} files were not closed")
    if after.memory_bytes > before.memory_bytes + MEMORY_BYTES_MORE:
        found.append(f"{(after.memory_bytes - before.memory_bytes) / 1e6:.1f} MB were not given back")
    return found + cluster.process.complaints()[:20]


async def attack(cluster: Running, frames: int, seed: int) -> Report:
    """See the module's description. A tenth of the frames comes before the first look, so that buffers have grown."""
    broker = cluster.brokers[0]
    await asyncio.to_thread(create_topics, cluster.servers, FUZZ_TOPIC, CANARY_TOPIC)
    canary = Canary(cluster.servers, CANARY_TOPIC)
    canary.start()
    try:
        attacker = Attack(broker.host, broker.port, await served_by(broker.host, broker.port, FUZZ_TOPIC))
        await attacker.send_all()
        await attacker.run(frames // 10, seed + 1)
        attacker.counts.clear()
        await asyncio.sleep(ANSWER_SECONDS)
        before, started = footprint(cluster), time.monotonic()
        await attacker.run(frames, seed)
        seconds = time.monotonic() - started
        after = await _returned(cluster, before)
    finally:
        await asyncio.to_thread(canary.stop)
    problems = _problems(cluster, canary, before, after)
    return Report(attacker.counts, seconds, canary, before, after, problems)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.fuzz_socket")
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with running(1, *SETTINGS) as cluster:
        report = asyncio.run(attack(cluster, options.frames, options.seed))
    print(report)
    raise SystemExit(1 if report.problems else 0)


if __name__ == "__main__":
    main()
