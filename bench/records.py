"""Record batches against kafka-python's record code and aiokafka's, which is compiled: part of ``make bench-codec``.

Every contest is on the same bytes, and before it is timed all sides must have read the same records or built the same
bytes. Reading touches offset, key and value of each record; "columns" makes all positions and sizes known instead, and
"lists" makes lists of all keys and values, as the others have to do to hand them on together.
"""

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeAlias

from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from bench.timing import Row, race
from minikafka.protocol.records import BatchBuilder, BatchView, Header, iter_records, read_batches, read_columns

NOW_MS = 1_700_000_000_000

RecordTuple: TypeAlias = tuple[int, bytes | None, bytes, list[Header]]


class Case(NamedTuple):
    """What the records of a batch look like; sizes vary by half to either side if they are irregular."""

    rows: int
    value_size: int
    has_keys: bool = True
    has_headers: bool = False
    irregular: bool = False

    @property
    def name(self) -> str:
        words = [f"{self.rows:,} x {self.value_size} B"]
        words += ["no keys"] * (not self.has_keys) + ["2 headers"] * self.has_headers + ["irregular"] * self.irregular
        return ", ".join(words)

    def records(self) -> list[RecordTuple]:
        random = Random(self.rows)
        headers: list[Header] = [("trace", b"0123456789abcdef"), ("source", b"bench")] if self.has_headers else []
        records: list[RecordTuple] = []
        for row in range(self.rows):
            size = int(self.value_size * random.uniform(0.5, 1.5)) if self.irregular else self.value_size
            key = b"key-%d" % row if self.irregular else b"key-%05d" % row
            # Ten records a millisecond.
            records.append((NOW_MS + row // 10, key if self.has_keys else None, random.randbytes(size), headers))
        return records


READ = [
    *(Case(rows, 100) for rows in (10, 100, 1000, 10_000)),
    *(Case(1000, size) for size in (10, 1000)),
    Case(1000, 100, has_keys=False),
    Case(1000, 100, has_headers=True),
    *(Case(rows, 100, irregular=True) for rows in (100, 1000)),
]
BUILD = [
    Case(10, 100),
    Case(1000, 10),
    Case(1000, 100),
    Case(1000, 1000),
    Case(1000, 100, has_keys=False),
    Case(1000, 100, irregular=True),
    Case(1000, 100, has_headers=True),
]


def build_theirs(builder: Any, records: Iterable[Any]) -> bytes:
    theirs = builder(2, 0, False, -1, -1, -1, 1 << 30)
    for offset, (timestamp_ms, key, value, headers) in enumerate(records):
        theirs.append(offset, timestamp_ms, key, value, headers)
    return theirs.build()  # type: ignore[no-any-return]


def build_ours(records: Iterable[Any]) -> bytearray:
    builder = BatchBuilder()
    for record in records:
        builder.append(*record)
    return builder.build()


def build_many(values: list[bytes], keys: list[bytes] | None) -> bytearray:
    builder = BatchBuilder()
    builder.append_many(NOW_MS, values, keys)
    return builder.build()


def touch(records: Iterable[Any]) -> None:
    for record in records:
        _ = record.offset, record.key, record.value


def read_ours(wire: bytes) -> None:
    touch(iter_records(BatchView(wire)))


def read_theirs(reader: Any, wire: bytes) -> None:
    touch(reader(wire))


def positions(wire: bytes) -> object:
    found = read_columns(BatchView(wire))
    return found.offsets, found.key_positions, found.key_sizes, found.value_positions, found.value_sizes


def lists(wire: bytes) -> object:
    found = read_columns(BatchView(wire))
    return found.offsets, found.keys(), found.values()


def lists_of_theirs(reader: Any, wire: bytes) -> object:
    offsets, keys, values = [], [], []
    for record in reader(wire):
        offsets.append(record.offset)
        keys.append(record.key)
        values.append(record.value)
    return offsets, keys, values


def check_agreement(case: Case, wire: bytes) -> None:
    ours = [tuple(record) for record in iter_records(BatchView(wire))]
    columns = [tuple(record) for record in read_columns(BatchView(wire)).records()]
    for reader in (KafkaPythonBatch, AioBatch):
        theirs = [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in reader(wire)]
        if not theirs == ours == columns:
            raise SystemExit(f"{case.name}: the sides read different records, nothing to compare")


def read_rows(case: Case) -> list[Row]:
    wire = bytes(build_ours(case.records()))
    check_agreement(case, wire)
    theirs = {
        "kafka-python": partial(read_theirs, KafkaPythonBatch, wire),
        "aiokafka": partial(read_theirs, AioBatch, wire),
    }
    their_lists = {
        "kafka-python": partial(lists_of_theirs, KafkaPythonBatch, wire),
        "aiokafka": partial(lists_of_theirs, AioBatch, wire),
    }
    return [
        race(f"read {case.name}", {"minikafka": partial(read_ours, wire), **theirs}),
        race(f"columns {case.name}", {"minikafka": partial(positions, wire), **theirs}),
        race(f"lists {case.name}", {"minikafka": partial(lists, wire), **their_lists}),
    ]


def build_rows(case: Case) -> list[Row]:
    records = case.records()
    ours = bytes(build_ours(records))
    theirs = {
        "kafka-python": partial(build_theirs, KafkaPythonBuilder, records),
        "aiokafka": partial(build_theirs, AioBuilder, records),
    }
    for build in theirs.values():
        # The bytes from the magic on; before it the leader epoch, which is the broker's, differs.
        if bytes(build())[16:] != ours[16:]:
            raise SystemExit(f"{case.name}: the sides build different bytes, nothing to compare")
    rows = [race(f"build {case.name}", {"minikafka": partial(build_ours, records), **theirs})]
    if not case.has_headers:
        _, keys, values, _ = map(list, zip(*records, strict=True))
        many = partial(build_many, values, keys if case.has_keys else None)
        rows.append(race(f"build at once {case.name}", {"minikafka": many, **theirs}))
    return rows


def produce(buf: bytearray) -> None:
    """What a broker does to a batch before it writes it."""
    (batch,) = read_batches(buf)
    batch.check_crc()
    batch.patch(1_000_000, 3)


def check_crc(reader: Any, wire: bytes) -> None:
    reader(wire).validate_crc()


def header_rows() -> list[Row]:
    rows = []
    for size in (1, 16, 1024):
        builder = BatchBuilder()
        builder.append(NOW_MS, None, Random(size).randbytes(size * 1024 - 80))
        wire = builder.build()
        theirs: dict[str, Callable[[], object]] = {
            "kafka-python": partial(check_crc, KafkaPythonBatch, bytes(wire)),
            "aiokafka": partial(check_crc, AioBatch, bytes(wire)),
        }
        rows.append(race(f"header, CRC and offset of {size} KiB", {"minikafka": partial(produce, wire), **theirs}))
    return rows


def rows() -> list[Row]:
    """One table of all contests."""
    return [
        *header_rows(),
        *(row for case in READ for row in read_rows(case)),
        *(row for case in BUILD for row in build_rows(case)),
    ]
