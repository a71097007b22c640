"""Read the recorded cases of a real Kafka: bodies by Kafka's field names into our messages.

Placeholders such as `<member 1>` stand for values that differ from run to run; here they become
some value of the right type, the same for the same placeholder.
"""

import json
import re
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.schema import Field, Kind, Struct, Wire

PATH = Path(__file__).parent.parent / "data" / "kafka-3.9.1-answers.json"
PLACEHOLDER = re.compile(r"<[^>]*>")


class Summarised(Exception):
    """The recording describes this value instead of giving it."""


@cache
def cases() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(PATH.read_text())["cases"]
    return loaded


def snake(name: str) -> str:
    """`V3AndBelowTopics` as we call it: `v3_and_below_topics`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def from_kafka(cls: type[Struct], body: Any) -> Struct:
    """A message from its recorded fields; those left out have the schema's default."""
    # A key with a space is a remark; `_tags` are tagged fields that no message of ours can hold.
    if not isinstance(body, dict) or any(" " in key or key == "_tags" for key in body):
        raise Summarised(body)
    known = {f.name: f for f in cls.fields}
    values = {name: f.absent for name, f in known.items()}
    for key, value in body.items():
        if snake(key) not in known:
            raise KeyError(f"{cls.__name__} has no {snake(key)}")
        values[snake(key)] = _value(known[snake(key)], value)
    return cls(**values)


def _value(f: Field, value: Any) -> Any:
    if value is None:
        return None
    if not f.is_list:
        return _single(f.wire, value)
    if not isinstance(value, list):
        raise Summarised(value)
    return [_single(f.wire, each) for each in value]


def _single(wire: Wire | type[Struct], value: Any) -> Any:
    if isinstance(wire, type):
        return from_kafka(wire, value)
    if wire.kind is Kind.STRING:
        return _expect(str, value)
    if wire.kind in (Kind.BYTES, Kind.RECORDS):
        return _bytes(value)
    if wire.format == "16s":
        return zlib.crc32(_expect(str, value).encode()).to_bytes(4, "big") * 4
    return _number(value)


def _number(value: Any) -> Any:
    if not isinstance(value, str):
        return _expect(int | float, value)
    if PLACEHOLDER.fullmatch(value):
        return zlib.crc32(value.encode()) % 100
    if value in ErrorCode.__members__:
        return ErrorCode[value].value
    raise Summarised(value)


def _bytes(value: Any) -> bytes:
    if isinstance(value, dict) and set(value) == {"hex"}:
        return bytes.fromhex(value["hex"])
    return json.dumps(value).encode()  # a description of a batch or of metadata: any bytes will do


def _expect(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise Summarised(value)
    return value
