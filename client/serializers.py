"""Keys and values to bytes and back.

A serializer is any callable from a value to bytes (or None, which is a tombstone), a deserializer the other way round.
An option that takes one also takes a name: "bytes", "str", "json" or "msgpack". Without one, a value must be bytes (or
text, which becomes UTF-8) to be sent, and arrives as bytes.

    producer = Producer(value_serializer="json")
    consumer = Consumer("topic", value_deserializer=lambda data: MyMessage.parse(data))

None never reaches a serializer: a null key or value stays null.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgpack

from minikafka.client.errors import ConfigError, SerializationFailed

Serializer: TypeAlias = Callable[[Any], "bytes | None"]
Deserializer: TypeAlias = Callable[[bytes], Any]


def to_bytes(value: object) -> bytes:
    """What is bytes already, in any form, and text as UTF-8."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise SerializationFailed(f"{type(value).__name__} is neither bytes nor text; set a serializer")


def _to_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _to_msgpack(value: object) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


def _from_bytes(data: bytes) -> bytes:
    return data


SERIALIZERS: Final[dict[str, Serializer]] = {
    "bytes": to_bytes,
    "str": lambda value: str(value).encode(),
    "json": _to_json,
    "msgpack": _to_msgpack,
}
DESERIALIZERS: Final[dict[str, Deserializer]] = {
    "bytes": _from_bytes,
    "str": lambda data: data.decode(),
    "json": json.loads,
    "msgpack": msgpack.unpackb,
}


def find_serializer(given: Serializer | str | None) -> Serializer | None:
    """The callable for an option's value; None if there is none, and values must be bytes."""
    found: Serializer | None = _find(given, SERIALIZERS, "serializer")
    return found


def find_deserializer(given: Deserializer | str | None) -> Deserializer | None:
    """The callable for an option's value; None if there is none, and values stay bytes."""
    found: Deserializer | None = _find(given, DESERIALIZERS, "deserializer")
    return None if found is _from_bytes else found


def _find(given: Any, known: dict[str, Any], kind: str) -> Any:
    if given is None or callable(given):
        return given
    if given in known:
        return known[given]
    names = ", ".join(map(repr, known))
    raise ConfigError(f"{given!r} is no {kind}: it must be a callable or one of {names}")


def serialize(serializer: Serializer | None, value: object) -> bytes | None:
    """One key or value as bytes; whatever a serializer raises becomes a SerializationFailed."""
    if value is None:
        return None
    if serializer is None:
        return value if type(value) is bytes else to_bytes(value)
    try:
        data = serializer(value)
    except SerializationFailed:
        raise
    except Exception as error:
        raise SerializationFailed(f"{type(value).__name__} was refused by the serializer: {error}") from error
    if data is None or type(data) is bytes:
        return data
    return to_bytes(data)


def deserialize(deserializer: Deserializer | None, data: bytes | None) -> Any:
    """One key or value of a record; whatever a deserializer raises becomes a SerializationFailed."""
    if deserializer is None or data is None:
        return data
    try:
        return deserializer(data)
    except Exception as error:
        raise SerializationFailed(f"{len(data)} bytes were refused by the deserializer: {error}") from error
