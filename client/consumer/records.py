"""What a consumer hands out: records one by one, or a batch of them as columns.

Decoding is done for a whole batch at a time, and so is making the objects: nothing here is called once for each record
except deserializers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Any, NamedTuple, cast

from minikafka.client.structs import TopicPartition
from minikafka.protocol.records import (
    WHOLE_BYTES_MAX,
    BatchView,
    Headers,
    IntColumn,
    RecordColumns,
    iter_fields,
    iter_records,
    read_columns,
)
from minikafka.protocol.records.walk import Base, Fields


class ConsumerRecord(NamedTuple):
    """One record, its key and value as the deserializers made them."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    """0 if the producer set the timestamp, 1 if the broker did."""
    key: Any
    value: Any
    headers: Headers = ()
    raw_sizes: tuple[int, int] | None = None
    """Sizes of key and value before they were deserialized; None if they were not."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def serialized_key_size(self) -> int:
        return raw_size(self.key) if self.raw_sizes is None else self.raw_sizes[0]

    @property
    def serialized_value_size(self) -> int:
        return raw_size(self.value) if self.raw_sizes is None else self.raw_sizes[1]

    @property
    def checksum(self) -> None:
        """Records have none of their own; here for programs written for aiokafka."""


def raw_size(data: bytes | None) -> int:
    """The size of a key or value; -1 for null, as on the wire."""
    return -1 if data is None else len(data)


# Fewer records are made one by one before columns are set up.
_FIELDS_ROWS_MIN = 24

# `ConsumerRecord._make` without its check of the length, which takes half of its time.
_make: Callable[[Iterable[Any]], ConsumerRecord] = partial(tuple.__new__, ConsumerRecord)


def consumer_records(tp: TopicPartition, batch: BatchView, start_offset: int) -> list[ConsumerRecord]:
    """The records of a batch from an offset on, keys and values as bytes. CorruptRecord if it is damaged.

    InflatesTooFar for one that has to be read in pieces."""
    kind = int(batch.timestamp_type)
    if batch.record_count < _FIELDS_ROWS_MIN:
        topic, partition = tp
        records = [
            _make((topic, partition, offset, timestamp, kind, key, value, headers, None))
            for offset, timestamp, key, value, headers in iter_records(batch, WHOLE_BYTES_MAX)
        ]
    else:
        records = []
        for part in iter_fields(batch, WHOLE_BYTES_MAX):
            records += _made(tp, kind, part)
    if batch.base_offset < start_offset:
        return records[bisect_left(records, start_offset, key=_offset) :]
    return records


def _made(tp: TopicPartition, kind: int, part: Fields) -> Iterable[ConsumerRecord]:
    """Records out of columns, in one go: there is no step of Python for each record."""
    same = repeat(tp.topic), repeat(tp.partition), repeat(kind), repeat(None)
    offsets, timestamps, keys, values, headers = part
    return map(_make, zip(*same[:2], offsets, timestamps, same[2], keys, values, headers, same[3], strict=False))


def _offset(record: ConsumerRecord) -> int:
    return record.offset


def load_column_tools() -> None:
    """Have numpy loaded, if it is there: a tenth of a second and more, which no event loop should stand still for."""
    RecordColumns(b"", 0, Base(0, 0))


class Rows(NamedTuple):
    """Some neighbouring rows of one batch."""

    columns: RecordColumns
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


class TakenRows:
    """Rows of several batches: until there are enough, and never more than a limit."""

    def __init__(self, enough: int, limit: int | None) -> None:
        self.rows: list[Rows] = []
        self.count = 0
        self._enough = enough
        self._limit = limit

    @property
    def is_full(self) -> bool:
        return self.count >= self._enough

    def add(self, rows: Rows) -> Rows | None:
        """Add as many as there is room for; the rest is returned."""
        room = rows.rows if self._limit is None else self._limit - self.count
        taken = rows._replace(stop=min(rows.stop, rows.start + room))
        if taken.rows:
            self.rows.append(taken)
            self.count += taken.rows
        return rows._replace(start=taken.stop) if taken.stop < rows.stop else None


class ConsumerBatch:
    """Many records of one partition as columns, in order of their offsets; made of what was fetched, without a copy.

    Keys and values are bytes as they were sent (no deserializer is called), None for null. Columns of numbers are
    numpy's (int64) if it is installed, otherwise `array.array("q")`. `parts` are the batches that it came in: their
    columns have positions and sizes in a common `payload`, from which Arrow arrays can be made.
    """

    def __init__(self, tp: TopicPartition, parts: Sequence[Rows], next_offset: int) -> None:
        self.topic, self.partition = tp
        self.parts = tuple(parts)
        self.next_offset = next_offset
        """Where to go on reading; batches may end in offsets that no record has."""
        self._rows = sum(part.rows for part in parts)

    def __len__(self) -> int:
        return self._rows

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @cached_property
    def offsets(self) -> IntColumn:
        return _joined([_cut(part.columns.offsets, part) for part in self.parts])

    @cached_property
    def timestamps(self) -> IntColumn:
        """In milliseconds."""
        return _joined([_cut(part.columns.timestamps_ms, part) for part in self.parts])

    @cached_property
    def keys(self) -> list[bytes | None]:
        return [*chain.from_iterable(_cut(part.columns.keys(), part) for part in self.parts)]

    @cached_property
    def values(self) -> list[bytes | None]:
        return [*chain.from_iterable(_cut(part.columns.values(), part) for part in self.parts)]

    @cached_property
    def headers(self) -> list[Headers]:
        return [part.columns.headers(row) for part in self.parts for row in range(part.start, part.stop)]

    def __repr__(self) -> str:
        return f"<ConsumerBatch of {len(self)} records of {self.topic}-{self.partition} up to {self.next_offset}>"


def _cut(column: Any, part: Rows) -> Any:
    return column if part.rows == len(part.columns) else column[part.start : part.stop]


def _joined(columns: list[Any]) -> IntColumn:
    if not columns:
        return cast(IntColumn, array("q"))
    if len(columns) == 1:
        return cast(IntColumn, columns[0])
    if not isinstance(columns[0], array):
        import numpy

        return cast(IntColumn, numpy.concatenate(columns))
    joined = array("q")
    for column in columns:
        joined.extend(column)
    return cast(IntColumn, joined)


def batch_rows(batch: BatchView, start_offset: int) -> Rows:
    """The rows of a batch from an offset on. CorruptRecord if it is damaged, InflatesTooFar as above."""
    columns = read_columns(batch, WHOLE_BYTES_MAX)
    start = 0 if batch.base_offset >= start_offset else bisect_left(columns.offsets, start_offset)
    return Rows(columns, start, len(columns))


def deserialized(
    records: Sequence[ConsumerRecord],
    key_deserializer: Callable[[bytes], Any] | None,
    value_deserializer: Callable[[bytes], Any] | None,
) -> tuple[list[ConsumerRecord], Exception | None]:
    """The records up to the first that a deserializer refuses, and why it did. Null is not given to deserializers."""
    made: list[ConsumerRecord] = []
    try:
        for topic, partition, offset, timestamp, kind, key, value, headers, _ in records:
            sizes = raw_size(key), raw_size(value)
            if key is not None and key_deserializer is not None:
                key = key_deserializer(key)
            if value is not None and value_deserializer is not None:
                value = value_deserializer(value)
            made.append(ConsumerRecord(topic, partition, offset, timestamp, kind, key, value, headers, sizes))
    except Exception as error:
        return made, error
    return made, None
