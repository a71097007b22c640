"""What clients of a cluster did and what they were told, as a list of events in the order of their times.

An operation begins with `invoke` and ends with `ok`, `fail` (it has certainly not happened) or `info` (nobody knows).
A history is kept as one JSON object per line, so that what has happened before a crash is there after it.

    f        events            fields
    send     invoke, ok, ...   partition, value; with `ok` the offset, -1 if the broker did not tell
    assign   ok                partition, offset: where a reader goes on from
    poll     ok, fail          records: what a reader was given, in this order; or `note`: what it was told instead
    final    info              `process` is a reader that has seen everything there is in the end
    fault    info              `note` says what was done to the cluster
    fatal    info              a producer cannot go on; `note` says why
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

Kind = Literal["invoke", "ok", "fail", "info"]

UNKNOWN_OFFSET = -1


class Seen(NamedTuple):
    """One record, as a reader got it."""

    partition: str
    offset: int
    value: int


class Event(NamedTuple):
    """One line of a history. Times are seconds of one clock that never goes back."""

    time: float
    process: str
    kind: Kind
    f: str
    partition: str = ""
    value: int = -1
    offset: int = UNKNOWN_OFFSET
    records: tuple[Seen, ...] = ()
    note: str = ""

    def to_json(self) -> str:
        given = {name: value for name, value in self._asdict().items() if value != Event._field_defaults.get(name)}
        return json.dumps(given, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> Self:
        given: dict[str, Any] = json.loads(line)
        given["records"] = tuple(Seen(*record) for record in given.get("records", ()))
        return cls(**given)


def load(path: Path) -> Iterator[Event]:
    """The events of a file, without a last line that is not whole."""
    with path.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield Event.from_json(line)


def save(events: Iterable[Event], path: Path) -> None:
    path.write_text("".join(f"{event.to_json()}\n" for event in events))


class Recorder:
    """Writes a history down while it happens. Any thread may do so, and the times are in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.acked: dict[str, float] = {}
        """When a partition has acknowledged something for the last time."""
        self._file = path.open("w")
        self._lock = threading.Lock()

    def write(self, process: str, kind: Kind, f: str, **fields: Any) -> float:
        """Returns the time of the event."""
        with self._lock:
            event = Event(time.monotonic(), process, kind, f, **fields)
            self._file.write(event.to_json() + "\n")
            if kind == "ok" and f == "send":
                self.acked[event.partition] = event.time
        return event.time

    def close(self) -> None:
        with self._lock:
            self._file.close()
