"""Produce requests with batches that a thread has to look at: the loop is not held up, and the order stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import pytest

from minikafka.broker.context import Context
from minikafka.broker.handlers import produce
from minikafka.broker.network.connection import Connection
from minikafka.broker.network.dispatch import Route
from minikafka.protocol.compression import Compression
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records import BatchBuilder, iter_records
from tests.broker.handlers.station import Station, coordinators, station
from tests.storage.logs import batches_from

NOW_MS = 1_700_000_000_000
COMPACTED = {"cleanup.policy": "compact"}
VERSION = 9

_T = TypeVar("_T")


def routes(context: Context) -> list[Route]:
    return produce.routes(context, coordinators(context).verifier)


@pytest.fixture
async def at() -> AsyncIterator[Station]:
    async with station(routes) as made:
        await made.add_topic("t", COMPACTED, replicas=[1])
        await made.add_topic("other", replicas=[1])
        yield made


class Gate:
    """Calls to threads wait at it until it is opened."""

    def __init__(self, run: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        self._run = run
        self.open = asyncio.Event()
        self.waiting = 0

    async def run_blocking(self, call: Callable[[], _T]) -> _T:
        self.waiting += 1
        await self.open.wait()
        result: _T = await self._run(call)
        return result

    async def wait_for(self, count: int) -> None:
        while self.waiting < count:  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.fixture
def gate(at: Station, monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate(at.context.work.run_blocking)
    monkeypatch.setattr(at.context.work, "run_blocking", made.run_blocking)
    return made


def batch(*pairs: tuple[bytes | None, bytes]) -> bytes:
    builder = BatchBuilder()
    for key, value in pairs:
        builder.append(NOW_MS, key, value)
    return bytes(builder.build(compression=Compression.ZSTD))


COSTLY = batch((b"large", bytes(1 << 20)))


def send(
    at: Station, *batches: tuple[str, bytes], connection: Connection | None = None
) -> asyncio.Future[list[tuple[str, int, int]]]:
    """A request with these batches; its answers are topic, error code and base offset."""
    data = [
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=b)]) for topic, b in batches
    ]
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)

    async def answered() -> list[tuple[str, int, int]]:
        response = await at.ask(request, VERSION, connection)
        return [
            (topic.name, each.error_code, each.base_offset)
            for topic in response.responses
            for each in topic.partition_responses
        ]

    return asyncio.ensure_future(answered())


def keys(at: Station, topic: str) -> list[bytes | None]:
    log = at.context.partitions.get(topic, 0).log
    return [record.key for each in batches_from(log, 0) for record in iter_records(each)]


async def test_batches_of_a_connection_keep_their_order(at: Station, gate: Gate) -> None:
    await send(at, ("other", batch((b"0", b"x"))))
    first = send(at, ("other", batch((b"1", b"x"))), ("t", COSTLY), ("other", batch((b"ignored", b"x"))))
    await gate.wait_for(1)
    second = send(at, ("t", batch((b"small", b"x"))))
    third = send(at, ("other", batch((b"2", b"x"))))
    elsewhere = await send(at, ("t", batch((b"theirs", b"x"))), connection=at.another_connection())
    assert elsewhere == [("t", 0, 0)]
    assert not (first.done() or second.done() or third.done())
    gate.open.set()
    await asyncio.gather(first, second, third)
    assert keys(at, "t") == [b"theirs", b"large", b"small"]
    assert keys(at, "other")[0] == b"0" and keys(at, "other")[-1] == b"2"
    # And then at once again, by the shortcut.
    for _ in range(3):
        await send(at, ("t", batch((b"small", b"x"))))
    assert gate.waiting == 1


async def test_refusal_by_a_thread_is_answered_and_lets_others_pass(at: Station, gate: Gate) -> None:
    gate.open.set()
    bad = send(at, ("t", batch((None, bytes(1 << 20)))))
    good = send(at, ("t", batch((b"k", b"x"))))
    assert await bad == [("t", ErrorCode.INVALID_RECORD, -1)]
    assert await good == [("t", 0, 0)]


async def test_leadership_is_checked_again_after_the_thread(at: Station, gate: Gate) -> None:
    costly = send(at, ("t", COSTLY))
    await gate.wait_for(1)
    at.context.partitions.drop_roles()
    gate.open.set()
    assert await costly == [("t", ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


async def test_limits_that_change_meanwhile_count(at: Station, gate: Gate) -> None:
    costly = send(at, ("t", COSTLY))
    await gate.wait_for(1)
    at.live.store_topic("t", {**COMPACTED, "max.message.bytes": "50"})
    gate.open.set()
    assert await costly == [("t", ErrorCode.MESSAGE_TOO_LARGE, -1)]


async def test_threads_are_left_for_others(at: Station, gate: Gate) -> None:
    connections = [at.another_connection() for _ in range(6)]
    requests = [send(at, ("t", COSTLY), connection=each) for each in connections]
    await gate.wait_for(2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert gate.waiting == 2
    gate.open.set()
    assert [answer[0][1] for answer in await asyncio.gather(*requests)] == [0] * 6


async def test_threads_count_until_they_have_ended_though_connections_are_lost(at: Station, gate: Gate) -> None:
    lost = [send(at, ("t", COSTLY), connection=at.another_connection()) for _ in range(2)]
    await gate.wait_for(2)
    for request in lost:
        request.cancel()
    await asyncio.wait(lost)
    later = send(at, ("t", COSTLY))
    for _ in range(20):
        await asyncio.sleep(0)
    assert gate.waiting == 2
    gate.open.set()
    assert await later == [("t", 0, 0)]
