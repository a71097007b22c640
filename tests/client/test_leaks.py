"""A thousand clients opened and closed, in good order or not: tasks, sockets and memory are back at the start."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from minikafka.client import Admin, Consumer, Producer, TopicPartition

CLIENTS = 1_000
AT_ONCE = 20
# Caches of the interpreter and the allocator fill up during the first hundreds.
WARM_UP = 200
# A client that is not let go takes ten kilobytes and more.
MEMORY_MAX = 6 << 20


def sockets() -> int:
    # The folder's own descriptor is in the list, and gone.
    links = [link for link in Path("/proc/self/fd").iterdir() if os.path.lexists(link)]
    return sum(os.readlink(link).startswith("socket:") for link in links)


def memory_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


async def produce(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        await producer.send(topic, b"x" * 1_000)


async def consume(bootstrap: str, topic: str) -> None:
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        # The last one: what there is to read ahead would grow with what was sent.
        consumer.seek(place, (await consumer.end_offsets([place]))[place] - 1)
        await consumer.getone()


async def administer(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.list_topics()


async def be_cancelled(bootstrap: str, topic: str) -> None:
    """At some moment of its life: while starting, sending, flushing, closing."""
    task = asyncio.ensure_future(produce(bootstrap, topic))
    for _ in range(be_cancelled.steps % 60):  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    be_cancelled.steps += 1  # type: ignore[attr-defined]
    task.cancel()
    await asyncio.wait([task])


be_cancelled.steps = 0  # type: ignore[attr-defined]

USES: list[Callable[[str, str], Awaitable[None]]] = [produce, consume, administer, be_cancelled]


async def use(bootstrap: str, topic: str, count: int) -> None:
    for start in range(0, count, AT_ONCE):
        await asyncio.gather(*(USES[index % len(USES)](bootstrap, topic) for index in range(start, start + AT_ONCE)))
        # So that garbage of many clients at once does not tear holes into the heap, which would look like a leak.
        if start % (5 * AT_ONCE) == 0:
            gc.collect()


@pytest.mark.timeout(180)
async def test_a_thousand_clients_leave_nothing(bootstrap: str, topic: str) -> None:
    # The pool is the loop's and grows by demand up to its size; of size one it is at that from the first consumer on.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    await produce(bootstrap, topic)
    await use(bootstrap, topic, WARM_UP)
    before = sockets(), len(asyncio.all_tasks()), threading.active_count()
    memory = memory_bytes()
    await use(bootstrap, topic, CLIENTS)
    assert (sockets(), len(asyncio.all_tasks()), threading.active_count()) == before
    assert memory_bytes() - memory < MEMORY_MAX
