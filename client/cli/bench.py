"""`minikafka bench`: how fast records can be sent and read, and how long they are on their way.

Without --topic a topic is made for it and deleted in the end, whatever happens. Everything runs in one process, with
the bundled client, so the figures are those of client and cluster together.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import click

from minikafka.client.admin import NewTopic
from minikafka.client.cli import completion
from minikafka.client.cli.measuring import Measured, describe, histogram, sparkline
from minikafka.client.cli.output import Output
from minikafka.client.cli.parsing import as_bytes
from minikafka.client.cli.running import Failed, Session, connected
from minikafka.client.consumer import Consumer, ConsumerConfig, ConsumerRecord
from minikafka.client.producer import BatchDelivery, Delivery, Producer, ProducerConfig
from minikafka.client.producer.config import COMPRESSION_TYPES
from minikafka.client.structs import TopicPartition

_F = TypeVar("_F", bound=Callable[..., Any])

_AT_ONCE: Final = 1000
"""Records of one `send_batch`."""
_ALPHABET: Final = b"abcdefghijklmnopqrstuvwxyz0123456789 {}:,"
_PAYLOAD_BYTES: Final = 4 << 20
"""Making them takes a second."""
_COLUMNS: Final = 40
_STALLED_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent and where to; `topic` is None for one of its own."""

    topic: str | None
    partitions: int
    replication_factor: int | None
    records: int
    size: int


def _load_options(function: _F) -> _F:
    for decorate in (
        click.option("-s", "--size", default="100", show_default=True, callback=as_bytes, help="Bytes of a record."),
        click.option("-n", "--records", type=click.IntRange(1), default=200_000, show_default=True, help="How many."),
    ):
        function = decorate(function)
    return _topic_options(function)


def _topic_options(function: _F) -> _F:
    for decorate in (
        click.option("-r", "--replication-factor", type=click.IntRange(1), help="Of a topic of its own."),
        click.option("-p", "--partitions", type=click.IntRange(1), default=1, show_default=True, help="Likewise."),
        click.option("--topic", shell_complete=completion.topics, help="One that exists.  [default: one of its own]"),
    ):
        function = decorate(function)
    return function


def _producer_options(function: _F) -> _F:
    for decorate in (
        click.option("-a", "--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True),
        click.option(
            "-z", "--compression", type=click.Choice(COMPRESSION_TYPES), default="lz4", show_default=True, help="Codec."
        ),
    ):
        function = decorate(function)
    return function


@click.group("bench")
def bench() -> None:
    """Measure producing, consuming and latency."""


@bench.command("produce")
@_load_options
@_producer_options
@click.option("--one-by-one", is_flag=True, help="A call for each record, instead of one for many.")
@connected
async def produce(
    session: Session,
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    records: int,
    size: int,
    acks: str,
    compression: str,
    one_by_one: bool,
) -> None:
    """Measure sending: records a second, and how long it takes until they are acknowledged."""
    load = Load(topic, partitions, replication_factor, records, size)
    config = session.config(ProducerConfig, acks=acks, compression_type=compression)
    async with _topic(session, load) as name, Producer(config=config) as producer:
        measured = await _fill(session.out, producer, name, load, 1 if one_by_one else _AT_ONCE)
    _report(session.out, measured, "acknowledged after")


@bench.command("consume")
@_load_options
@click.option("-z", "--compression", type=click.Choice(COMPRESSION_TYPES), default="lz4", show_default=True)
@click.option("--one-by-one", is_flag=True, help="An object for each record, instead of columns for many.")
@connected
async def consume(
    session: Session,
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    records: int,
    size: int,
    compression: str,
    one_by_one: bool,
) -> None:
    """Measure reading: fills a topic of its own first, or reads the one that is named."""
    load = Load(topic, partitions, replication_factor, records, size)
    async with _topic(session, load) as name:
        if topic is None:
            config = session.config(ProducerConfig, compression_type=compression)
            async with Producer(config=config) as producer:
                await _fill(session.out, producer, name, load, _AT_ONCE)
        reader = session.config(ConsumerConfig, auto_offset_reset="earliest", allow_auto_create_topics="false")
        async with Consumer(name, config=reader) as consumer:
            measured = await _drain(session.out, consumer, name, records, one_by_one)
    _report(session.out, measured, "waited for")


@bench.command("latency")
@_topic_options
@_producer_options
@click.option("-s", "--size", default="100", show_default=True, callback=as_bytes, help="Bytes of a record.")
@click.option("-n", "--records", type=click.IntRange(1), default=1000, show_default=True, help="How many.")
@click.option("--rate", type=click.FloatRange(1, 100_000), default=200.0, show_default=True, help="In a second.")
@connected
async def latency(
    session: Session,
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    size: int,
    records: int,
    rate: float,
    acks: str,
    compression: str,
) -> None:
    """Measure how long a record takes from being sent to being read."""
    load = Load(topic, partitions, replication_factor, records, size)
    writer = session.config(ProducerConfig, acks=acks, compression_type=compression)
    reader = session.config(ConsumerConfig, auto_offset_reset="latest", allow_auto_create_topics="false")
    async with (
        _topic(session, load) as name,
        Producer(config=writer) as producer,
        Consumer(name, config=reader) as consumer,
    ):
        # Where reading begins is settled before the first record is sent.
        for number in sorted(consumer.partitions_for_topic(name) or ()):
            await consumer.position(TopicPartition(name, number))
        measured = await _round_trips(session.out, producer, consumer, name, load, rate)
    _report(session.out, measured, "read after")


# ----------------------------------------------------------------------------------------------- what is done


@asynccontextmanager
async def _topic(session: Session, load: Load) -> AsyncIterator[str]:
    """The topic to use; one of our own is deleted in the end."""
    if load.topic is not None:
        yield load.topic
        return
    name = f"minikafka-bench-{uuid.uuid4().hex[:12]}"
    async with session.admin() as admin:
        await admin.create_topics([NewTopic(name, load.partitions, load.replication_factor or -1)])
        try:
            yield name
        finally:
            await admin.delete_topics([name])


def _payloads(size: int) -> list[bytes]:
    """Different records of one size, about as compressible as text of programs is. Large ones repeat themselves."""
    chance = random.Random(size)
    count = min(_AT_ONCE, max(1, _PAYLOAD_BYTES // max(size, 1)))
    made = [bytes(chance.choices(_ALPHABET, k=size)) for _ in range(count)]
    return [made[number % count] for number in range(_AT_ONCE)]


async def _fill(out: Output, producer: Producer, topic: str, load: Load, at_once: int) -> Measured:
    payloads = _payloads(load.size)
    partitions = sorted(await producer.partitions_for(topic))
    measured = Measured(time.perf_counter())

    def count_one(delivery: Delivery, sent_s: float) -> None:
        now_s = time.perf_counter()
        if delivery.exception() is None:
            measured.add(now_s, now_s - sent_s, 1, load.size)

    async def count_many(delivery: BatchDelivery, sent_s: float, count: int) -> None:
        await delivery
        now_s = time.perf_counter()
        measured.add(now_s, now_s - sent_s, count, count * load.size)

    sent = 0
    with out.progress("sending", load.records) as waiting:
        async with asyncio.TaskGroup() as settling:
            while sent < load.records:
                count = min(at_once, load.records - sent)
                sent_s = time.perf_counter()
                if at_once == 1:
                    one = await producer.send(topic, payloads[sent % _AT_ONCE])
                    one.add_done_callback(partial(count_one, sent_s=sent_s))
                else:
                    partition = partitions[sent // at_once % len(partitions)]
                    many = await producer.send_batch(topic, payloads[:count], partition=partition)
                    settling.create_task(count_many(many, sent_s, count))
                sent += count
                if sent % _AT_ONCE == 0:
                    waiting.update(measured.records, f"{measured.records:,}")
                    # Sending need not wait for anything, so whatever settles would never have a turn.
                    await asyncio.sleep(0)
            await producer.flush()
    if measured.records < sent:
        raise Failed(f"{sent - measured.records} of {sent} records were not acknowledged")
    return measured


async def _drain(out: Output, consumer: Consumer, topic: str, records: int, one_by_one: bool) -> Measured:
    measured = Measured(time.perf_counter())
    with out.progress("reading", records) as waiting:
        while measured.records < records:
            left = records - measured.records
            asked_s = time.perf_counter()
            if one_by_one:
                found = await consumer.getmany(timeout_ms=1000, max_records=min(left, _AT_ONCE))
                count = sum(map(len, found.values()))
                size = sum(len(record.value or b"") for each in found.values() for record in each)
            else:
                batch = await consumer.getbatch(timeout_ms=1000, max_records=left)
                count = 0 if batch is None else len(batch)
                size = 0 if batch is None else sum(len(value or b"") for value in batch.values)
            now_s = time.perf_counter()
            if count:
                measured.add(now_s, now_s - asked_s, count, size)
            elif now_s - max(measured.ended_s, measured.started_s) > _STALLED_S or not await _has_more(consumer, topic):
                break
            waiting.update(measured.records, f"{measured.records:,}")
    if not measured.records:
        raise Failed(f"there is nothing to read in {topic!r}")
    return measured


async def _has_more(consumer: Consumer, topic: str) -> bool:
    places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
    ends = await consumer.end_offsets(places)
    positions = await asyncio.gather(*map(consumer.position, places))
    return any(position < ends[place] for place, position in zip(places, positions, strict=True))


async def _round_trips(
    out: Output, producer: Producer, consumer: Consumer, topic: str, load: Load, rate: float
) -> Measured:
    payload = _payloads(load.size)[0]
    mark = uuid.uuid4().bytes
    sent_s: list[float] = []
    measured = Measured(time.perf_counter())

    async def send() -> None:
        for number in range(load.records):
            due_s = measured.started_s + number / rate
            await asyncio.sleep(max(due_s - time.perf_counter(), 0))
            sent_s.append(time.perf_counter())
            await producer.send(topic, payload, mark + number.to_bytes(4, "big"))
        await producer.flush()

    with out.progress("sending and reading", load.records) as waiting:
        async with asyncio.TaskGroup() as group:
            group.create_task(send())
            while measured.records < load.records:
                record = await _next_record(consumer)
                now_s = time.perf_counter()
                # Others may write to a topic that is not our own.
                if record.key is not None and record.key.startswith(mark):
                    number = int.from_bytes(record.key[len(mark) :], "big")
                    measured.add(now_s, now_s - sent_s[number], 1, load.size)
                    waiting.update(measured.records, f"{measured.records:,}")
    return measured


async def _next_record(consumer: Consumer) -> ConsumerRecord:
    try:
        async with asyncio.timeout(_STALLED_S):
            return await consumer.getone()
    except TimeoutError:
        raise Failed(f"no record has come for {_STALLED_S:g} seconds") from None


def _report(out: Output, measured: Measured, what: str) -> None:
    rates = measured.rates(_COLUMNS)
    lines = [
        *describe(measured, what),
        f"msg/s over time, up to {max(rates):,.0f}: {sparkline(rates)}",
        *histogram(measured),
    ]
    out.show(measured.data(), *lines)
