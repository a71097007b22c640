"""kcat as Debian ships it, with a librdkafka of 2022: a command, so records go in and out as text."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Generator, Sequence
from itertools import groupby

from confluent_kafka import KafkaError

from tests.compat.clients.model import (
    PRODUCING,
    READ_S,
    READING,
    Client,
    Delivered,
    Headers,
    Producing,
    Reading,
    Received,
    Record,
    Refused,
)

# Between key and value, and between records: no test has these in its data.
KEY_END, RECORD_END = "\x1e", "\x1d"

# Lengths come first, so that keys and values may hold anything.
FORMAT = r"%p %o %T %K %S\n%k%s%h\n"

# How errors of a broker are printed, by their code.
CODES = {KafkaError(code).str(): code for code in range(1, 120)}


class Kcat(Client):
    """`kcat -P`, `kcat -C` and `kcat -Q`."""

    name = "kcat"
    sets_timestamps = False
    tells_deliveries = False

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def command(self, *options: str) -> list[str]:
        return ["kcat", "-b", self._bootstrap, "-X", "socket.timeout.ms=10000", *options]

    def run(self, *options: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(self.command(*options), input=stdin, capture_output=True, timeout=READ_S)
        complain(done.stderr.decode(), done.returncode)
        return done.stdout

    def produce(
        self, topic: str, records: Sequence[Record], partition: int | None = 0, how: Producing = PRODUCING
    ) -> list[Delivered]:
        # Headers are given on the command line: one run for each row of records with the same.
        for headers, group in groupby(records, key=lambda record: record.headers):
            lines = [(record.key or b"") + KEY_END.encode() + (record.value or b"") for record in group]
            self.run(
                *("-P", "-t", topic, "-p", str(-1 if partition is None else partition)),
                *("-Z", "-K", KEY_END, "-D", RECORD_END, "-z", how.codec),
                *("-X", f"acks={how.acks}", "-X", f"enable.idempotence={str(how.is_idempotent).lower()}"),
                *("-X", f"message.max.bytes={how.request_bytes_max}", "-X", "linger.ms=20"),
                *(word for header in headers for word in ("-H", header_word(header))),
                stdin=RECORD_END.encode().join(lines),
            )
        return []

    def read(self, topic: str, count: int, how: Reading = READING) -> Generator[Received, None, None]:
        options = ["-C", "-u", "-t", topic, "-o", str(how.offset) if how.offset else "beginning", "-c", str(count)]
        # Without a partition all of them are read.
        options += ["-p", str(how.partitions[0])] if len(how.partitions) == 1 else []
        options += ["-f", FORMAT, "-X", f"fetch.wait.max.ms={how.wait_ms}", "-X", f"fetch.min.bytes={how.bytes_min}"]
        options += ["-X", "topic.auto.offset.reset=error"]
        options += ["-X", f"allow.auto.create.topics={str(how.may_create_topics).lower()}"]
        options += ["-X", f"isolation.level={how.isolation}"] if how.isolation else []
        command = ["timeout", str(READ_S), *self.command(*options)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stderr is not None
            try:
                while line := process.stdout.readline():
                    numbers = [int(word) for word in line.split()]
                    body = process.stdout.read(max(numbers[3], 0) + max(numbers[4], 0))
                    yield received(numbers, body, process.stdout.readline().decode().rstrip("\n"))
            finally:
                process.terminate()
            complain(process.stderr.read().decode(), process.wait())

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        answer = self.run("-Q", "-t", f"{topic}:0:{timestamp_ms}").decode()
        found = re.search(r"offset (-?\d+)", answer)
        assert found is not None, answer
        offset = int(found[1])
        return None if offset < 0 else offset


def header_word(header: tuple[str, bytes | None]) -> str:
    name, value = header
    return name if value is None else f"{name}={value.decode()}"


def received(numbers: list[int], body: bytes, headers: str) -> Received:
    partition, offset, timestamp_ms, key_length, value_length = numbers
    cut = max(key_length, 0)
    key = None if key_length < 0 else body[:cut]
    value = None if value_length < 0 else body[cut:]
    return Received(partition, offset, timestamp_ms, None, key, value, headers_of(headers))


def headers_of(text: str) -> Headers:
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    return tuple((name, None if value == "NULL" else value.encode()) for name, _, value in pairs)


def complain(stderr: str, code: int) -> None:
    """Errors of the broker become `Refused`; other noise of kcat's is none of ours, unless it gave up."""
    for text, number in CODES.items():
        if text in stderr:
            raise Refused(number, stderr)
    if code == 124:
        raise TimeoutError(stderr)
    assert code == 0, stderr
