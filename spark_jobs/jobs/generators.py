"""Made-up data for the jobs, the same for the same seed, sent by our own producer."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from minikafka.client.producer import Producer
from minikafka.spark_jobs.jobs.running import JobOptions

_TEXT: Final = "the quick brown fox jumps over the lazy dog while the log rolls and the broker elects a leader"
_HOSTS: Final = tuple(f"web-{number}" for number in range(1, 6))
_LEVELS: Final = ("INFO", "INFO", "INFO", "WARN", "ERROR")
_PLANS: Final = ("free", "team", "enterprise")


class Row(NamedTuple):
    """A record to be sent."""

    key: bytes | None
    value: bytes


Generator = Callable[[random.Random, int], Iterator[Row]]


def lines(rng: random.Random, count: int) -> Iterator[Row]:
    """Lines of words."""
    words = _TEXT.split()
    for _ in range(count):
        yield Row(None, " ".join(rng.choices(words, k=rng.randint(3, 10))).encode())


def metrics(rng: random.Random, count: int) -> Iterator[Row]:
    """Loads of hosts around 50, now and then far above."""
    now_ms = time.time_ns() // 1_000_000
    for number in range(count):
        host = rng.choice(_HOSTS)
        load = rng.gauss(50, 10) + (45 if rng.random() < 0.02 else 0)
        # One second apart, ending now.
        sample = {"host": host, "metric": "load", "value": round(load, 2), "time_ms": now_ms - (count - number) * 1000}
        yield Row(host.encode(), json.dumps(sample).encode())


def log_lines(rng: random.Random, count: int) -> Iterator[Row]:
    """Lines of a web server, a minute apart, one in a hundred of them broken."""
    now = time.time()
    for number in range(count):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - (count - number) * 60))
        host, level = rng.choice(_HOSTS), rng.choice(_LEVELS)
        line = f"{stamp} {host} {level} GET /items/{rng.randrange(100)} took {rng.randrange(5, 900)} ms"
        yield Row(host.encode(), (line if rng.random() >= 0.01 else line[:17]).encode())


def customers(rng: random.Random, count: int) -> Iterator[Row]:
    """Customers by number."""
    for number in range(count):
        customer = {"customer": number, "name": f"customer {number}", "plan": rng.choice(_PLANS)}
        yield Row(str(number).encode(), json.dumps(customer).encode())


def orders(rng: random.Random, count: int) -> Iterator[Row]:
    """Orders of customers, some of whom do not exist."""
    for number in range(count):
        order = {"order": number, "customer": rng.randrange(max(1, count // 4)), "cents": rng.randrange(100, 99_999)}
        yield Row(str(number).encode(), json.dumps(order).encode())


def generate(options: JobOptions, topic: str, generator: Generator, count: int, seed: int = 1) -> None:
    """Send made-up records to a topic, and wait until all of them are there."""
    config = {name.removeprefix("kafka."): value for name, value in options.writer_options().items()}

    async def send() -> None:
        async with Producer.from_config({"linger.ms": 20, **config}) as producer:
            for row in generator(random.Random(seed), count):
                await producer.send(topic, row.value, key=row.key)

    asyncio.run(send())
