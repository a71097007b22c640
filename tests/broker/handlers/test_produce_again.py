"""The shortcut of Produce: to the byte what the long way does, only sooner."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from minikafka.broker.context import Context
from minikafka.broker.handlers import fetch, produce
from minikafka.broker.handlers.produce_again import KNOWN_MAX, Repeats
from minikafka.broker.network.dispatch import Call, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.compression import Compression
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.headers import RequestHeader, encode_request_header
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records import BatchBuilder
from tests.broker.handlers.station import Station, coordinators, station

NOW_MS = 1_700_000_000_000
VERSIONS = range(3, 12)
ALL, LEADER = -1, 1


class Counted:
    """The long way, and how often it was taken."""

    def __init__(self, context: Context) -> None:
        self.inner = produce.ProduceHandler(context, coordinators(context).verifier)
        self.calls = 0

    def __call__(self, call: Call) -> Any:
        self.calls += 1
        return self.inner(call)


def routes(context: Context) -> list[Route]:
    (row,) = produce.routes(context, coordinators(context).verifier)
    return [row._replace(handler=Counted(context)), *fetch.routes(context)]


def long_ways(at: Station) -> int:
    handler = at.dispatcher.routes[0].handler
    assert isinstance(handler, Counted)
    return handler.calls


@pytest.fixture
async def quick() -> AsyncIterator[Station]:
    async with station(routes) as made:
        await made.add_topic("t", replicas=[1])
        await made.add_topic("other", replicas=[1])
        yield made


@pytest.fixture
async def slow() -> AsyncIterator[Station]:
    """The same without a memory."""
    async with station(routes) as made:
        await made.add_topic("t", replicas=[1])
        await made.add_topic("other", replicas=[1])
        yield made


def batch(*values: bytes, **more: Any) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(NOW_MS, None, value)
    return bytes(builder.build(**more))


def body(records: bytes, version: int, acks: int = LEADER, correlation_id: int = 5, topic: str = "t") -> bytearray:
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])]
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=data)
    header = RequestHeader(0, version, correlation_id, "somebody")
    parts = [encode_request_header(header, APIS[0].is_flexible(version)), *request.encode(version)]
    return bytearray(b"".join(parts))


async def outcome(at: Station, frame: bytearray) -> bytes | str | None:
    """The answer to the byte, or that there is none."""
    try:
        reply = at.dispatcher(at.connection, bytearray(frame))
    except DecodeError as error:
        return str(error)
    parts = reply if reply is None or isinstance(reply, list) else await reply
    return None if parts is None else b"".join(parts)


async def same_outcome(quick: Station, slow: Station, frame: bytearray) -> bytes | str | None:
    slow.connection.shortcut = None
    got = await outcome(quick, frame)
    assert got == await outcome(slow, frame)
    return got


def logged(at: Station) -> list[bytes]:
    partitions = at.context.partitions.all.values()
    plans = [each.log.plan_read(0, 1 << 24, each.log.log_end_offset) for each in partitions]
    return [bytes(plan.run_nowait()) for plan in plans]


def samples() -> Iterator[bytes]:
    yield batch(b"a")
    yield batch(b"b", b"c" * 200)
    yield batch(b"d" * 20_000)
    yield batch(b"e" * 300, compression=Compression.LZ4)


@pytest.mark.parametrize("acks", [ALL, LEADER])
@pytest.mark.parametrize("version", VERSIONS)
async def test_answers_and_logs_are_the_same(quick: Station, slow: Station, version: int, acks: int) -> None:
    for number, records in enumerate(samples()):
        assert isinstance(await same_outcome(quick, slow, body(records, version, acks, number)), bytes)
    assert logged(quick) == logged(slow)
    assert (long_ways(quick), long_ways(slow)) == (1, 4)
    assert quick.context.partitions.statistics.topics == slow.context.partitions.statistics.topics


@pytest.mark.parametrize("version", [7, 10])
async def test_what_is_not_quite_the_same(quick: Station, slow: Station, version: int) -> None:
    """Requests with a bit flipped, a piece lost or something added, each after a good one."""
    rng = random.Random(version)
    for number in range(1500):
        frame = body(batch(b"%d" % number), version, rng.choice((ALL, LEADER)), number, rng.choice(("t", "other")))
        match number % 5:
            case 1 | 2:
                frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
            case 3:
                at = rng.randrange(len(frame))
                del frame[at : at + rng.randrange(1, 9)]
            case 4:
                at = rng.choice((rng.randrange(len(frame)), len(frame)))
                frame[at:at] = rng.choice((bytes(3), rng.randbytes(4)))
        await same_outcome(quick, slow, frame)
    assert logged(quick) == logged(slow)
    assert long_ways(quick) < long_ways(slow)


async def test_batches_of_transactions_are_not_for_the_shortcut(quick: Station, slow: Station) -> None:
    await same_outcome(quick, slow, body(batch(b"a"), 9))
    frame = body(batch(b"b", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True), 9)
    assert await same_outcome(quick, slow, frame)
    assert long_ways(quick) == 2


async def test_sequences_are_looked_at(quick: Station, slow: Station) -> None:
    for sequence in (0, 1, 1, 5, 2):
        records = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence)
        await same_outcome(quick, slow, body(records, 9))
    assert long_ways(quick) == 2


async def test_a_partition_that_is_gone(quick: Station, slow: Station) -> None:
    await same_outcome(quick, slow, body(batch(b"a"), 10))
    for each in (quick, slow):
        each.context.partitions.all["t", 0].resign()
    await same_outcome(quick, slow, body(batch(b"b"), 10))
    for each in (quick, slow):
        del each.context.partitions.all["t", 0]
    await same_outcome(quick, slow, body(batch(b"b"), 10))


async def test_who_wants_all_replicas_waits_for_them() -> None:
    async with station(routes, {"min.insync.replicas": "1"}) as at:
        await at.add_topic("t", replicas=[1, 2])
        partition = at.context.partitions.all["t", 0]
        first = asyncio.create_task(outcome(at, body(batch(b"a"), 9, ALL, 1)))
        await asyncio.sleep(0)
        second = asyncio.create_task(outcome(at, body(batch(b"b"), 9, ALL, 2)))
        await asyncio.sleep(0)
        assert long_ways(at) == 1
        assert not first.done()
        assert not second.done()
        partition.resign()
        one, other = await first, await second
        assert isinstance(one, bytes)
        assert isinstance(other, bytes)
        # The correlation id is in the second four bytes.
        assert one[8:] == other[8:]


async def test_a_batch_with_something_beside_it_is_not_learnt(quick: Station, slow: Station) -> None:
    one = PartitionProduceData(index=0, records=batch(b"a"))
    header = encode_request_header(RequestHeader(0, 9, 5, "somebody"), True)
    for beside in (
        [TopicProduceData(name="t", partition_data=[one]), TopicProduceData(name="other", partition_data=[])],
        [TopicProduceData(name="t", partition_data=[one, one])],
    ):
        request = ProduceRequest(acks=LEADER, timeout_ms=1000, topic_data=beside)
        frame = bytearray(b"".join([header, *request.encode(9)]))
        for _ in range(2):
            assert isinstance(await same_outcome(quick, slow, frame), bytes)
    assert logged(quick) == logged(slow)
    assert quick.connection.shortcut is None


async def test_what_is_of_no_use_is_not_learnt_for_ever(quick: Station) -> None:
    frame = body(batch(b"a"), 7)
    for number in range(KNOWN_MAX + 5):
        # Another client every time.
        frame[10:18] = b"%08d" % number
        await outcome(quick, frame)
    repeats = quick.connection.shortcut
    assert isinstance(repeats, Repeats)
    assert repeats.known_count == KNOWN_MAX
    assert long_ways(quick) == KNOWN_MAX + 5
    await outcome(quick, frame)
    assert long_ways(quick) == KNOWN_MAX + 6
