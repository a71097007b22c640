"""Recorded request bodies into bytes.

Bodies have Kafka's field names; fields left out have the schema's default. Placeholders stand for values seen before.
"""

import re
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from minikafka.protocol.apis import Api
from minikafka.protocol.message import Request
from minikafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from minikafka.protocol.schema import Field, Kind, Struct, Wire
from tests.compat.replay.batches import build_batch
from tests.compat.replay.names import Names
from tests.protocol.recordings import snake

PLACEHOLDER: Final = re.compile(r"(<[^>]*>)(?: \+ (\d+))?")
_LONG_TEXT: Final = re.compile(r"(.)\1*… (\d+) characters")
_TAGS: Final = "_tags"


class BodyWriter:
    """Knows what names and placeholders stand for in this playing."""

    def __init__(self, names: Names, bound: Mapping[str, Any]) -> None:
        self._names = names
        self._bound = bound

    def encoded(self, api: Api, version: int, body: dict[str, Any]) -> bytes:
        assert issubclass(api.request, Request)
        message = self.struct(api.request, body)
        assert isinstance(message, Request)
        encoded = b"".join(message.encode(version))
        return encoded[:-1] + _tag_section(body[_TAGS]) if _TAGS in body else encoded

    def struct(self, cls: type[Struct], body: dict[str, Any]) -> Struct:
        known = {f.name: f for f in cls.fields}
        values = {name: f.absent for name, f in known.items()}
        for key, value in body.items():
            if key != _TAGS:
                values[snake(key)] = self._value(known[snake(key)], value)
        return cls(**values)

    def _value(self, f: Field, value: Any) -> Any:
        if value is None:
            return None
        return [self._single(f.wire, each) for each in value] if f.is_list else self._single(f.wire, value)

    def _single(self, wire: Wire | type[Struct], value: Any) -> Any:
        if isinstance(wire, type):
            return self.struct(wire, value)
        if wire.kind is Kind.RECORDS:
            return self._records(value)
        if isinstance(value, dict):
            return self._described(value)
        value = self._filled_in(value)
        if wire.kind is Kind.BYTES:
            return value.encode()
        if wire.kind is Kind.STRING:
            return self._names.real(_expanded(str(value)))
        return UUID(value).bytes if wire.format == "16s" else value

    def _filled_in(self, value: Any) -> Any:
        found = PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return value
        return self._bound[found[1]] + int(found[2]) if found[2] else self._bound[found[1]]

    def _records(self, value: Any) -> bytes:
        if isinstance(value, list):
            return b"".join(map(self._records, value))
        return self.batch(value["batch"]) if value else b""

    def batch(self, told: dict[str, Any]) -> bytes:
        return build_batch({key: self._filled_in(value) for key, value in told.items()})

    def _described(self, value: dict[str, Any]) -> bytes:
        fields = dict(value["ConsumerProtocolSubscription"])
        version = fields.pop("version")
        subscription = self.struct(ConsumerProtocolSubscription, fields)
        assert isinstance(subscription, ConsumerProtocolSubscription)
        return subscription.dump(version)


def _expanded(text: str) -> str:
    long = _LONG_TEXT.fullmatch(text)
    return long[1] * int(long[2]) if long else text


def _tag_section(tags: list[tuple[int, str]]) -> bytes:
    """Tagged fields that no schema has. Numbers and lengths are small, one byte each."""
    return bytes([len(tags)]) + b"".join(bytes([tag, len(value)]) + value.encode() for tag, value in tags)
