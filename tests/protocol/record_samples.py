"""Records to try things on, and a second opinion on what bytes mean: slow, plain, and sharing no code with ours."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias
from unittest.mock import patch

from hypothesis import strategies as st

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records import BatchBuilder, BatchView, Headers, Record, RecordColumns, columns
from minikafka.protocol.records.walk import Base

DATA = Path(__file__).parent / "data"
NOW_MS = 1_700_000_000_000

INT64 = st.integers(-(2**63), 2**63 - 1)
NULLABLE = st.none() | st.binary(max_size=80)
HEADERS = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=10)), max_size=3).map(tuple)
TIMESTAMPS = st.integers(NOW_MS, NOW_MS + 10_000) | st.integers(-1, 2 * NOW_MS) | INT64

RECORDS = st.lists(st.tuples(TIMESTAMPS, NULLABLE, NULLABLE, HEADERS), min_size=1, max_size=12)


RecordTuple: TypeAlias = tuple[int, bytes | None, bytes | None, Headers]


class Shape(NamedTuple):
    """Many records that are alike, but for what the numbers of a few of them say."""

    rows: int
    key_size: int
    value_size: int
    headers: int
    step_ms: int
    odd_rows: tuple[int, ...]


SHAPES = st.builds(
    Shape,
    rows=st.integers(1, 150),
    key_size=st.integers(-1, 70),
    value_size=st.integers(-1, 150),
    headers=st.integers(0, 3) | st.integers(8, 11),
    step_ms=st.sampled_from([0, 1, 7, 200, 10**9, 2**62]),
    odd_rows=st.lists(st.integers(0, 149), max_size=4).map(tuple) | st.just(tuple(range(150))),
)


def build(records: Sequence[RecordTuple]) -> bytearray:
    builder = BatchBuilder()
    for timestamp_ms, key, value, headers in records:
        assert builder.append(timestamp_ms, key, value, headers)
    return builder.build()


def batch_of_shape(shape: Shape) -> bytearray:
    builder = BatchBuilder()
    for row in range(shape.rows):
        odd = row if row in shape.odd_rows else 0
        headers = tuple((f"h{i}", b"%d" % (odd % 10) if i else None) for i in range(shape.headers))
        builder.append(
            NOW_MS + row * shape.step_ms % 2**63,
            _field(shape.key_size, row, odd % 7),
            _field(shape.value_size, row, odd % 11),
            headers,
        )
    return builder.build()


def _field(size: int, row: int, more: int) -> bytes | None:
    return None if size < 0 else (b"%04d" % row * (size // 4 + 1))[:size] + b"+" * more


def second_opinion(payload: bytes, count: int, base: Base) -> list[Record] | None:
    """The records, or None if the payload is flawed."""
    records: list[Record] = []
    pos = 0
    if count < 0:
        return None
    try:
        for _ in range(count):
            size, pos = _number(payload, pos, 32)
            record = payload[pos : pos + size]
            if size < 0 or len(record) < size:
                return None
            records.append(_record(record, base))
            pos += size
    except (IndexError, ValueError):
        return None
    return records if pos == len(payload) else None


def _record(record: bytes, base: Base) -> Record:
    record[0]
    timestamp_delta, pos = _number(record, 1, 64)
    offset_delta, pos = _number(record, pos, 32)
    key, pos = _bytes(record, pos)
    value, pos = _bytes(record, pos)
    count, pos = _number(record, pos, 32)
    if count < 0:
        raise ValueError(count)
    headers = []
    for _ in range(count):
        name, pos = _bytes(record, pos)
        content, pos = _bytes(record, pos)
        if name is None:
            raise ValueError(name)
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    if pos != len(record):
        raise ValueError(pos)
    timestamp_ms = (base.timestamp_ms + timestamp_delta + 2**63) % 2**64 - 2**63
    if base.is_append_time:
        timestamp_ms = base.timestamp_ms
    return Record(base.offset + offset_delta, timestamp_ms, key, value, tuple(headers))


def _number(payload: bytes, pos: int, bits: int) -> tuple[int, int]:
    raw = 0
    for place in range(-(-bits // 7)):
        raw += (payload[pos + place] & 0x7F) << 7 * place
        if payload[pos + place] < 0x80:
            if raw >= 2**bits:
                break
            return (raw // 2 if raw % 2 == 0 else -(raw // 2) - 1), pos + place + 1
    raise ValueError(raw)


def _bytes(payload: bytes, pos: int) -> tuple[bytes | None, int]:
    size, pos = _number(payload, pos, 32)
    if size == -1:
        return None, pos
    if size < 0 or len(payload) < pos + size:
        raise ValueError(size)
    return payload[pos : pos + size], pos + size


# The ways in which `columns` may read, with settings that make it read everything in that way.
WAYS: dict[str, dict[str, object]] = {
    "as usual": {},
    "runs": {"columns._RUN_ROWS_MIN": 1, "parts._SHORT_RUNS_MAX": 10**9},
    "scattered": {"columns._RUN_ROWS_MIN": 10**9, "parts._SCATTERED_ROWS_MIN": 1},
    "one by one": {"columns._RUN_ROWS_MIN": 10**9, "parts._SCATTERED_ROWS_MIN": 10**9},
    "without numpy": {"columns._numpy": lambda: None},
}


@contextmanager
def reading(way: str) -> Iterator[None]:
    with ExitStack() as stack:
        for name, value in WAYS[way].items():
            stack.enter_context(patch(f"minikafka.protocol.records.{name}", value))
        yield


def from_columns(batch: BatchView) -> list[Record] | None:
    """What columns give, after asking for every one of them, and what fields give; None if they are refused."""
    fields = from_fields(batch)
    try:
        found = columns.read_columns(batch)
    except CorruptRecord:
        assert fields is None
        return None
    records = all_of(found)
    assert fields == records
    return records


def from_fields(batch: BatchView) -> list[Record] | None:
    try:
        return [Record(*row) for part in columns.iter_fields(batch) for row in zip(*part, strict=True)]
    except CorruptRecord:
        return None


def all_of(found: RecordColumns) -> list[Record]:
    rows = range(len(found))
    records = [*found.records()]
    cells = [
        (*row, found.headers(place))
        for place, row in enumerate(
            zip(found.offsets.tolist(), found.timestamps_ms.tolist(), found.keys(), found.values(), strict=True)
        )
    ]
    assert cells == records
    assert [found.key(row) for row in rows] == found.keys()
    assert [found.value(row) for row in rows] == found.values()
    assert [*found.offsets] == found.offsets.tolist() and len(found.offsets) == len(found)
    return records
