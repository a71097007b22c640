"""What a broker says on stderr: one line for each event, as text or as JSON.

    2026-01-31T12:00:00.123Z INFO  broker.server broker 1 is ready
    {"time": "2026-01-31T12:00:00.123Z", "level": "INFO", "logger": "broker.server", "message": "broker 1 is ready"}

A message is one line whatever a peer has put into it. The traceback of a fault of ours follows it: in text on lines
that begin with a blank, in JSON as a field.

Lines are written by a thread: whoever reads them may stop reading, and the loop is not to wait for that. What does not
find room meanwhile is left out and counted.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import sys
import threading
import time
from typing import Final, Literal, TextIO

Format = Literal["text", "json"]
FORMATS: Final[tuple[Format, ...]] = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")

_PENDING_MAX: Final = 10_000
_FLUSH_SECONDS: Final = 2.0

# kazoo's details are of no use to an operator, and among them are the credentials it sends.
_QUIET: Final = {"kazoo": logging.WARNING, "asyncio": logging.WARNING}


def set_up(level: str, form: Format, stream: TextIO | None = None) -> LineWriter:
    """Send everything that is logged in this process to a stream; close what is returned to see it all written."""
    writer = LineWriter(stream or sys.stderr)
    writer.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(writer)
    root.setLevel(level.upper())
    for name, lowest in _QUIET.items():
        logging.getLogger(name).setLevel(lowest)
    return writer


class TextFormatter(logging.Formatter):
    """For people."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname:<7} {_name(record)} {_one_line(record.getMessage())}"
        told = _traceback(self, record)
        return line if told is None else line + "".join(f"\n    {each}" for each in told.splitlines())


class JsonFormatter(logging.Formatter):
    """For programs."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _time(record),
            "level": record.levelname,
            "logger": _name(record),
            "message": record.getMessage(),
        }
        told = _traceback(self, record)
        if told is not None:
            fields["exception"] = told
        return json.dumps(fields)


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03}Z"


def _name(record: logging.LogRecord) -> str:
    return record.name.removeprefix("minikafka.")


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    if not record.exc_info or record.exc_info[0] is None:
        return None
    return formatter.formatException(record.exc_info)


def _one_line(text: str) -> str:
    """Without anything that would begin a new line or move the cursor of a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class LineWriter(logging.Handler):
    """Hands lines to a thread that writes them."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._pending: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._left_out = 0
        # A daemon: it may be waiting for a reader that never comes.
        self._thread = threading.Thread(target=self._write_all, name="minikafka-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._pending.qsize() >= _PENDING_MAX:
            self._left_out += 1
            return
        try:
            self._pending.put(self.format(record))
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Write what is there, if somebody reads it."""
        if self._thread.is_alive():
            self._pending.put(None)
            self._thread.join(_FLUSH_SECONDS)
        super().close()

    def _write_all(self) -> None:
        while (line := self._pending.get()) is not None:
            left_out, self._left_out = self._left_out, 0
            note = f"({left_out} lines were left out)\n" if left_out else ""
            # A reader that is gone for good is no reason to stop working.
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(f"{line}\n{note}")
                self._stream.flush()
