"""`minikafka produce`: lines of a file or of stdin as records."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections import deque
from dataclasses import dataclass
from typing import BinaryIO, Final

import click

from minikafka.client.cli import completion
from minikafka.client.cli.output import Output
from minikafka.client.cli.parsing import parse_escapes, parse_pairs, show_bytes
from minikafka.client.cli.running import Session, WrongUse, connected
from minikafka.client.cli.stdin import read_lines
from minikafka.client.producer import BatchDelivery, Delivery, Producer, ProducerConfig
from minikafka.client.producer.config import COMPRESSION_TYPES

_UNSETTLED_MAX: Final = 10_000
"""How many deliveries may be waited for at a time: enough for many requests in flight, and little memory."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a line becomes a record."""

    topic: str
    partition: int | None
    key_separator: bytes | None
    null: bytes | None
    headers: list[tuple[str, bytes]]

    @property
    def is_plain(self) -> bool:
        """Whether a line is a value and nothing else, so that many can be sent at once."""
        return self.key_separator is None and self.null is None and not self.headers

    def split(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        """Key and value; a line without a separator has no key."""
        key: bytes | None = None
        value: bytes | None = line
        if self.key_separator is not None and self.key_separator in line:
            key, _, value = line.partition(self.key_separator)
        return self._or_null(key), self._or_null(value)

    def _or_null(self, part: bytes | None) -> bytes | None:
        return None if self.null is not None and part == self.null else part


class Sending:
    """Lines on their way, and what came of them."""

    def __init__(self, producer: Producer, form: Form, rate: float | None) -> None:
        self._producer = producer
        self._form = form
        self._rate = rate
        self._started = time.monotonic()
        self._unsettled: deque[Delivery | BatchDelivery] = deque()
        self.records = 0
        self.bytes = 0

    async def send(self, lines: list[bytes]) -> None:
        if self._form.is_plain and self._rate is None:
            await self._keep(await self._producer.send_batch(self._form.topic, lines, partition=self._form.partition))
            self._count(len(lines), sum(map(len, lines)))
            return
        for line in lines:
            await self._wait_turn()
            key, value = self._form.split(line)
            await self._keep(
                await self._producer.send(
                    self._form.topic, value, key, self._form.partition, headers=self._form.headers
                )
            )
            self._count(1, len(line))

    def _count(self, records: int, size: int) -> None:
        self.records += records
        self.bytes += size

    async def _wait_turn(self) -> None:
        if self._rate is not None:
            due = self._started + self.records / self._rate
            await asyncio.sleep(max(due - time.monotonic(), 0))

    async def _keep(self, delivery: Delivery | BatchDelivery) -> None:
        # Whatever fails is raised here or in `settle`; none is forgotten.
        self._unsettled.append(delivery)
        while len(self._unsettled) > _UNSETTLED_MAX:
            await self._unsettled.popleft()

    async def settle(self) -> None:
        """Wait until everything is acknowledged."""
        while self._unsettled:
            await self._unsettled.popleft()


def _headers(texts: tuple[str, ...]) -> list[tuple[str, bytes]]:
    return [(key, value.encode()) for text in texts for key, value in parse_pairs([text], "NAME=VALUE").items()]


@click.command("produce")
@click.argument("topic", shell_complete=completion.topics)
@click.option("-f", "--file", "source", type=click.File("rb"), default="-", help="What to read.  [default: stdin]")
@click.option("-k", "--key-separator", metavar="TEXT", help="What stands between key and value of a line, such as ':'.")
@click.option("-d", "--delimiter", default="\\n", show_default=True, help="What ends a record.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="For every record.")
@click.option("--null", metavar="TEXT", help="What stands for a null key or value, such as NULL for tombstones.")
@click.option("-p", "--partition", type=click.IntRange(0), help="The partition; otherwise the key decides.")
@click.option("-r", "--rate", type=click.FloatRange(0, min_open=True), help="Records in a second, at most.")
@click.option("-z", "--compression", type=click.Choice(COMPRESSION_TYPES), help="[default: lz4]")
@click.option("-a", "--acks", type=click.Choice(["0", "1", "all"]), help="Who must have a record.  [default: all]")
@connected
async def produce(
    session: Session,
    topic: str,
    source: BinaryIO,
    key_separator: str | None,
    delimiter: str,
    headers: tuple[str, ...],
    null: str | None,
    partition: int | None,
    rate: float | None,
    compression: str | None,
    acks: str | None,
) -> None:
    """Send lines as records."""
    separator = None if key_separator is None else parse_escapes(key_separator)
    end = parse_escapes(delimiter)
    if separator == b"" or not end:
        raise WrongUse("a separator and a delimiter must not be empty")
    form = Form(topic, partition, separator, None if null is None else null.encode(), _headers(headers))
    options = {"acks": acks, "compression_type": compression}
    config = session.config(ProducerConfig, **{name: value for name, value in options.items() if value is not None})
    async with Producer(config=config) as producer:
        # A topic that is not there is told before anything is typed.
        await producer.partitions_for(topic)
        sending = Sending(producer, form, rate)
        started = time.monotonic()
        await _send_all(session.out, sending, source, end, config.max_request_size)
        took_s = time.monotonic() - started
    session.out.show({"topic": topic, "records": sending.records, "bytes": sending.bytes, "seconds": round(took_s, 3)})
    records = "record" if sending.records == 1 else "records"
    session.out.note(f"{sending.records} {records}, {show_bytes(sending.bytes)} sent to {topic}")


async def _send_all(out: Output, sending: Sending, source: BinaryIO, end: bytes, max_bytes: int) -> None:
    with out.progress("sending", _size_of(source)) as waiting:
        async for lines in read_lines(source, end, max_bytes):
            await sending.send(lines)
            waiting.update(sending.bytes + sending.records, f"{sending.records} records")
        await sending.settle()


def _size_of(source: BinaryIO) -> int | None:
    """How much there is to read; None if nobody knows."""
    found = os.fstat(source.fileno())
    return found.st_size if stat.S_ISREG(found.st_mode) else None
