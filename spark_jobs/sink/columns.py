"""Which columns are written, and rows as lists of what a producer takes.

    value      binary or string, needed; null is a tombstone
    key        binary or string
    topic      string; needed unless the option `topic` is given, which then counts
    partition  int; null leaves it to the key
    headers    array<struct<key:string,value:binary>>

Other columns are not written, as with Spark's own sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
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


class Part(NamedTuple):
    """Neighbouring rows that go to one topic, as columns; None for a column that is not there."""

    topic: str
    values: list[bytes | None]
    keys: list[bytes | None] | None
    partitions: list[int | None] | None
    headers: Sequence[RecordHeaders | None] | None

    @property
    def is_plain(self) -> bool:
        """Whether any partition will do for any row."""
        return self.keys is None and self.partitions is None and self.headers is None


def read_parts(batch: Any, topic: str | None) -> Iterator[Part]:
    """The rows of an Arrow batch."""
    columns = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
    values, keys = _bytes(columns["value"]), _bytes(columns.get("key"))
    partitions = columns["partition"].to_pylist() if "partition" in columns else None
    headers = [*map(_headers, columns["headers"].to_pylist())] if "headers" in columns else None
    assert values is not None
    if topic is not None:
        yield Part(topic, values, keys, partitions, headers)
        return
    topics = columns["topic"].to_pylist()
    start = 0
    while start < len(topics):
        name, stop = topics[start], start + 1
        if name is None:
            raise BadColumns("a row has null in column `topic`, and there is no option topic")
        while stop < len(topics) and topics[stop] == name:
            stop += 1
        cut = slice(start, stop)
        yield Part(name, values[cut], keys and keys[cut], partitions and partitions[cut], headers and headers[cut])
        start = stop


def _bytes(column: Any) -> list[bytes | None] | None:
    if column is None:
        return None
    found: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return found


def _headers(found: Sequence[Any] | None) -> RecordHeaders | None:
    if not found:
        return None
    for header in found:
        if header is None or header["key"] is None:
            raise BadColumns("a header has no key")
    return [(header["key"], header["value"]) for header in found]
