"""Consumers in tests: opened with short times, read with a limit, and leaving nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from minikafka.client.consumer import Consumer, ConsumerRecord
from tests.compat.clients.model import Record

READ_S = 30.0

_open: list[Consumer] = []


@asynccontextmanager
async def open_consumer(bootstrap: str, *topics: str, **options: Any) -> AsyncIterator[Consumer]:
    """From the beginning unless told otherwise. When it is closed, none of its tasks is left."""
    given = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 200, **options}
    async with Consumer(*topics, **given) as consumer:
        _open.append(consumer)
        try:
            yield consumer
        finally:
            _open.remove(consumer)
    # After the last one is closed: until then it may be another's.
    assert _open or not [task for task in asyncio.all_tasks() if _file_of(task).startswith("client/consumer/")]


def _file_of(task: asyncio.Task[Any]) -> str:
    """Where the coroutine of a task is written, below the package; producers and other clients may be open still."""
    code = getattr(task.get_coro(), "cr_code", None)
    return "" if code is None else str(code.co_filename).rpartition("minikafka/")[2]


async def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """The next records, one by one."""
    async with asyncio.timeout(READ_S):
        return [await consumer.getone() for _ in range(count)]


async def take_many(consumer: Consumer, count: int, **options: Any) -> list[ConsumerRecord]:
    """At least so many records, some at a time."""
    found: list[ConsumerRecord] = []
    async with asyncio.timeout(READ_S):
        while len(found) < count:
            for records in (await consumer.getmany(timeout_ms=1000, **options)).values():
                found += records
    return found


async def take_batches(consumer: Consumer, count: int, **options: Any) -> list[bytes | None]:
    """At least so many values, in columns."""
    found: list[bytes | None] = []
    async with asyncio.timeout(READ_S):
        while len(found) < count:
            batch = await consumer.getbatch(timeout_ms=1000, **options)
            found += batch.values if batch is not None else []
    return found


def numbers(start: int, stop: int) -> list[Record]:
    return [Record(b"%d" % number) for number in range(start, stop)]


def values(records: Iterable[ConsumerRecord]) -> list[int]:
    return [int(record.value) for record in records]
