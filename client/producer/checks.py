"""What `send` is given beside key and value, looked at before it gets into a batch with other people's records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, cast

from minikafka.client.errors import SerializationFailed
from minikafka.client.producer.batch import RecordHeaders
from minikafka.client.serializers import Serializer, serialize

Column: TypeAlias = "list[bytes | None]"

_TIMESTAMP_END: Final = 1 << 63


def check_timestamp(timestamp_ms: object) -> None:
    """SerializationFailed unless it is a number of milliseconds that a record can have."""
    # A bool is an int too; numbers of other libraries are not what is written in the end.
    if type(timestamp_ms) is not int or not 0 <= timestamp_ms < _TIMESTAMP_END:
        raise SerializationFailed(
            f"timestamp_ms is a whole number of milliseconds since 1970, 0 or more, not {timestamp_ms!r}"
        )


def copy_headers(headers: RecordHeaders) -> RecordHeaders:
    """The headers as they are now: what the caller does to its list later is not sent. SerializationFailed for what
    is none."""
    try:
        copied = tuple([(key, value) for key, value in headers])
    except (TypeError, ValueError):
        raise SerializationFailed(f"headers are pairs of a key and a value, not {headers!r}") from None
    for key, value in copied:
        _check_header(key, value)
    return copied


def _check_header(key: object, value: object) -> None:
    if type(key) is not str:
        raise SerializationFailed(f"the key of a header is text, not {type(key).__name__}")
    if value is not None and type(value) is not bytes:
        raise SerializationFailed(f"the value of header {key!r} is bytes or None, not {type(value).__name__}")
    try:
        key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise SerializationFailed(f"the key of a header cannot be written as UTF-8: {key!r}") from None


def serialize_all(serializer: Serializer | None, column: Sequence[object]) -> Column:
    """Many keys or values as bytes."""
    if serializer is None and {*map(type, column)} == {bytes}:
        return cast(Column, column if isinstance(column, list) else [*column])
    return [serialize(serializer, each) for each in column]
