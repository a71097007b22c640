"""A payload cut into parts, each read in the way that is fastest for it.

    Run        records of one shape, the usual case
    Scattered  records of all shapes, many at a time; needs numpy
    Walked     records of all shapes, one by one

Runs are tried first. Two short ones in a batch are taken as a sign that its records are of all shapes, and the rest is
read in one of the other ways; being wrong about that costs time only. A run is looked for in not many more rows than
the last one had, so that it costs little however often runs end. No part has more rows than its caller allows, so that
memory is bounded where parts are used one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.layout import RECORD_BYTES_MIN
from minikafka.protocol.records.runs import Cut, Run
from minikafka.protocol.records.walk import Base, Column, Fields, Places, Record, locate, read_records

_SHORT_RUN_ROWS = 16
_SHORT_RUNS_MAX = 2

# One run ends where the offset delta takes two bytes, so most first runs are this long.
_FIRST_RUN_ROWS_MAX = 64
_RUN_GROWTH_MAX = 16

# Below this, some dozen numpy calls cost more than reading the records one by one.
_SCATTERED_ROWS_MIN = 48


class Part(Protocol):
    """Some consecutive records of a payload."""

    rows: int

    @property
    def stop(self) -> int:
        """Where the next part starts."""

    def offsets(self) -> Column: ...

    def timestamps(self) -> Column: ...

    def keys(self) -> Sequence[bytes | None]: ...

    def values(self) -> Sequence[bytes | None]: ...

    def places(self) -> Places: ...

    def fields(self) -> Fields: ...

    def records(self) -> Iterator[Record]: ...


class Numpy(NamedTuple):
    """The tools that need numpy."""

    scattered: Callable[[bytes, int, int, Base], Part]
    cut: Cut
    int64_column: Callable[[Sequence[tuple[Column, int]]], Any]


class Walked:
    """Records read one by one."""

    __slots__ = ("_payload", "_records", "_start", "rows", "stop")

    def __init__(self, payload: bytes, start: int, rows: int, base: Base) -> None:
        self._payload = payload
        self._start = start
        self._records, self.stop = read_records(payload, start, rows, base)
        self.rows = rows

    def offsets(self) -> Column:
        return [record.offset for record in self._records]

    def timestamps(self) -> Column:
        return [record.timestamp_ms for record in self._records]

    def keys(self) -> Sequence[bytes | None]:
        return [record.key for record in self._records]

    def values(self) -> Sequence[bytes | None]:
        return [record.value for record in self._records]

    def places(self) -> Places:
        return locate(self._payload, self._start, self.rows)

    def fields(self) -> Fields:
        return Fields(*zip(*self._records, strict=True)) if self._records else Fields((), (), (), (), ())

    def records(self) -> Iterator[Record]:
        return iter(self._records)


def check_count(payload: bytes, count: int) -> None:
    """Raise CorruptRecord for a count that cannot be true, before anything is made that large."""
    if not 0 <= count * RECORD_BYTES_MIN <= len(payload):
        raise CorruptRecord(f"{count} records cannot be in {len(payload)} bytes")


def check_all_read(payload: bytes, pos: int) -> None:
    """Raise CorruptRecord unless the records end where the payload ends."""
    if pos != len(payload):
        raise CorruptRecord(f"{len(payload) - pos} bytes left after the last record")


def iter_parts(
    payload: bytes, count: int, base: Base, *, run_rows_min: int, rows_max: int, numpy: Numpy | None = None
) -> Iterator[Part]:
    """The `count` records that must fill the payload, in parts of at most `rows_max`; runs are looked for where at
    least `run_rows_min` records are left. CorruptRecord at the first flaw."""
    check_count(payload, count)
    part: Part
    pos = short_runs = 0
    run_rows_max = _FIRST_RUN_ROWS_MAX
    while count:
        rows = min(count, rows_max)
        try:
            if rows >= run_rows_min and short_runs < _SHORT_RUNS_MAX:
                part = Run(payload, pos, min(rows, run_rows_max), base, numpy and numpy.cut)
                short_runs += part.rows < _SHORT_RUN_ROWS
                run_rows_max = part.rows * _RUN_GROWTH_MAX
            elif numpy is not None and rows >= _SCATTERED_ROWS_MIN:
                part = numpy.scattered(payload, pos, rows, base)
            else:
                part = Walked(payload, pos, rows, base)
        except IndexError:
            raise CorruptRecord(f"record runs past the {len(payload)} bytes of the batch") from None
        yield part
        pos = part.stop
        count -= part.rows
    check_all_read(payload, pos)
