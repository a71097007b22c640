"""Which columns are written, and rows by the topics they go to.

    value      binary or string, needed; null is a tombstone
    key        binary or string
    topic      string; needed unless the option `topic` is given, which then counts
    partition  int; null leaves it to the key
    headers    array<struct<key:string,value:binary>>

Other columns are not written, as with Spark's own sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from minikafka.client.producer.batch import RecordHeaders
from minikafka.spark_jobs.errors import BadColumns

_BYTES: Final = (BinaryType, StringType)
_TYPES: Final[dict[str, tuple[tuple[type[DataType], ...], str]]] = {
    "key": (_BYTES, "binary or string"),
    "value": (_BYTES, "binary or string"),
    "topic": ((StringType,), "string"),
    "partition": ((IntegerType,), "int"),
}
_HEADERS_TEXT: Final = "array<struct<key:string,value:binary>>"


def check_schema(schema: StructType, topic: str | None) -> None:
    """Raise BadColumns unless rows of this schema can be written."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise BadColumns(f"there is no column `value`, only {', '.join(types) or 'none'}")
    if topic is None and "topic" not in types:
        raise BadColumns("there is neither an option topic nor a column `topic`")
    for name, (allowed, text) in _TYPES.items():
        if name in types and not isinstance(types[name], allowed):
            raise BadColumns(f"column `{name}` must be {text}, not {types[name].simpleString()}")
    if "headers" in types and not _is_headers(types["headers"]):
        raise BadColumns(f"column `headers` must be {_HEADERS_TEXT}, not {types['headers'].simpleString()}")


def _is_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in found.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that go to one topic, as Arrow columns; None for a column that is not there, or has nothing in it."""

    topic: str
    values: Any
    keys: Any = None
    partitions: Any = None
    headers: Any = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_plain(self) -> bool:
        """Whether any partition will do for any row."""
        return self.keys is None and self.partitions is None and self.headers is None

    def take(self, rows: NDArray[np.int64]) -> Part:
        """Some of the rows, in the given order."""
        wanted = pa.array(rows)
        columns = self.values, self.keys, self.partitions, self.headers
        return Part(self.topic, *(None if column is None else column.take(wanted) for column in columns))

    def value_list(self) -> list[bytes | None]:
        found: list[bytes | None] = self.values.to_pylist()
        return found

    def key_list(self) -> list[bytes | None] | None:
        return None if self.keys is None else self.keys.to_pylist()

    def partition_list(self) -> list[int | None] | None:
        return None if self.partitions is None else self.partitions.to_pylist()

    def header_list(self) -> list[RecordHeaders | None] | None:
        return None if self.headers is None else [*map(_headers, self.headers.to_pylist())]


def read_parts(batch: Any, topic: str | None) -> Iterator[Part]:
    """The rows of an Arrow batch by topic, those of each in their order."""
    columns = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
    keys, partitions, headers = (columns.get(name) for name in ("key", "partition", "headers"))
    # Most rows have no headers even where there is a column of them, and sending them one by one is slow.
    has_headers = headers is not None and len(headers.flatten()) > 0
    whole = Part(
        topic or "",
        values=columns["value"].cast(pa.binary()),
        keys=_filled(keys, pa.binary()),
        partitions=_filled(partitions, pa.int32()),
        headers=headers if has_headers else None,
    )
    if topic is not None:
        yield whole
        return
    topics = columns["topic"]
    if topics.null_count:
        raise BadColumns("a row has null in column `topic`, and there is no option topic")
    coded = topics.dictionary_encode()
    names: list[str] = coded.dictionary.to_pylist()
    for code, rows in group_rows(coded.indices.to_numpy()):
        yield replace(whole.take(rows) if len(names) > 1 else whole, topic=names[code])


def _filled(column: Any, kind: Any) -> Any:
    return None if column is None or column.null_count == len(column) else column.cast(kind)


def group_rows(codes: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The rows that have the same code, for each code, in their order."""
    order = np.argsort(codes, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        yield int(codes[rows[0]]), rows


def _headers(found: Sequence[Any] | None) -> RecordHeaders | None:
    if not found:
        return None
    for header in found:
        if header is None or header["key"] is None:
            raise BadColumns("a header has no key")
    return [(header["key"], header["value"]) for header in found]
