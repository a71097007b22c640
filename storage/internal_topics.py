"""The records of Kafka's two internal topics in readable form: groups and their offsets, and transactions."""

from __future__ import annotations

from typing import Any, Final

from minikafka.protocol.errors import DecodeError
from minikafka.protocol.message import VersionPrefixed
from minikafka.protocol.messages.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)
from minikafka.protocol.schema import Struct

# By topic, and there by the version of the key.
_COMMITTED_OFFSET: Final = (OffsetCommitKey, OffsetCommitValue)
_KINDS: Final[dict[str, dict[int, tuple[type[VersionPrefixed], type[VersionPrefixed]]]]] = {
    "__consumer_offsets": {0: _COMMITTED_OFFSET, 1: _COMMITTED_OFFSET, 2: (GroupMetadataKey, GroupMetadataValue)},
    "__transaction_state": {0: (TransactionLogKey, TransactionLogValue)},
}

Fields = dict[str, Any]


def decode_internal(topic: str | None, key: bytes | None, value: bytes | None) -> tuple[Fields, Fields | None] | None:
    """Key and value as fields by name, the value None for a tombstone; None if they are not such records."""
    kinds = _KINDS.get(topic or "")
    if kinds is None or key is None or len(key) < 2:
        return None
    kind = kinds.get(int.from_bytes(key[:2], "big", signed=True))
    if kind is None:
        return None
    try:
        return _fields(kind[0].parse(key)), None if value is None else _fields(kind[1].parse(value))
    except DecodeError:
        return None


def _fields(struct: Struct) -> Fields:
    return {field.name: _plain(getattr(struct, field.name)) for field in type(struct).fields}


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return _fields(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return bytes(value) if isinstance(value, memoryview | bytearray) else value
