"""One line for each event, whatever is in it and whoever does not read it."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TextIO

import pytest

from minikafka.broker.logs import Format, JsonFormatter, LineWriter, set_up

log = logging.getLogger("minikafka.broker.some")


@contextmanager
def logging_to(stream: TextIO, level: str = "info", form: Format = "text") -> Iterator[None]:
    root = logging.getLogger()
    handlers, before = root.handlers[:], root.level
    writer = set_up(level, form, stream)
    try:
        yield
    finally:
        writer.close()
        root.handlers[:] = handlers
        root.setLevel(before)


def written(level: str = "info", form: Format = "text", fault: str = "") -> list[str]:
    stream = io.StringIO()
    with logging_to(stream, level, form):
        log.debug("a detail")
        log.info("broker %d is ready", 1)
        if fault:
            try:
                raise ValueError(fault)
            except ValueError:
                log.exception("that went wrong")
        logging.getLogger("kazoo.client").debug("Auth(scheme='digest', auth='user:secret')")
        logging.getLogger("kazoo.client").info("Connecting")
    return stream.getvalue().splitlines()


def test_text() -> None:
    (line,) = written()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    broker\.some broker 1 is ready", line)


def test_json() -> None:
    (line,) = written(form="json")
    fields = json.loads(line)
    assert fields.pop("time").endswith("Z")
    assert fields == {"level": "INFO", "logger": "broker.some", "message": "broker 1 is ready"}


def test_the_level_is_for_us_and_not_for_kazoo() -> None:
    assert [line.split(maxsplit=3)[3] for line in written(level="debug")] == ["a detail", "broker 1 is ready"]
    assert written(level="error") == []


def test_a_fault_has_its_traceback() -> None:
    lines = written(fault="oh\nno")
    assert lines[1].endswith("ERROR   broker.some that went wrong")
    assert all(line.startswith("    ") for line in lines[2:])
    assert "ValueError: oh" in lines[-2]


def test_a_fault_in_json_stays_on_its_line() -> None:
    _, line = written(form="json", fault="oh\nno")
    assert "ValueError: oh\nno" in json.loads(line)["exception"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_peer_cannot_begin_a_line(form: Format) -> None:
    stream = io.StringIO()
    with logging_to(stream, form=form):
        log.info("client %s", "x\n2026-01-31T12:00:00.123Z ERROR all is lost\r\x1b[2J\u2028")
    (line,) = stream.getvalue().splitlines()
    assert "\x1b" not in line


def test_nobody_waits_for_a_reader_who_does_not_read() -> None:
    reading, writing = os.pipe()
    with open(reading), open(writing, "w") as stream, closing(LineWriter(stream)) as writer:
        writer.setFormatter(JsonFormatter())
        record = logging.LogRecord("x", logging.INFO, "", 0, "y" * 1000, None, None)
        began = time.monotonic()
        # Ten times what fits into the pipe and the queue together would take minutes at one a millisecond.
        for _ in range(100_000):
            writer.emit(record)
        assert time.monotonic() - began < 10
        got = os.read(reading, 1 << 20)
        lines = got.count(b"\n")
        while b"lines were left out" not in got:
            writer.emit(record)
            got = os.read(reading, 1 << 20)
            lines += got.count(b"\n")
        assert lines <= 10_200
        # Whatever is left must not keep `close` waiting.
        while writer._pending.qsize():
            os.read(reading, 1 << 20)


class GoneReader(io.StringIO):
    """What is written to a pipe that nobody has open."""

    attempts = 0

    def flush(self) -> None:
        self.attempts += 1
        raise BrokenPipeError


def test_a_reader_who_is_gone_is_no_error() -> None:
    stream = GoneReader()
    with closing(LineWriter(stream)) as writer:
        for _ in range(2):
            writer.emit(logging.LogRecord("x", logging.INFO, "", 0, "y", None, None))
    assert stream.attempts == 2
