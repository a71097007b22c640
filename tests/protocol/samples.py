"""Values for every declared message, made from its schema.

`full` is deterministic: every field that a version carries gets a value unlike its neighbours' and
unlike its default, arrays get two elements, so that swapped or missing fields show in the bytes.
`messages` is a hypothesis strategy for the same.  `to_kafka_json` names things as Kafka does.
"""

import base64
import itertools
import random
from collections.abc import Iterator
from typing import Any, TypeVar

from hypothesis import strategies as st

from minikafka.protocol.apis import APIS
from minikafka.protocol.message import Message, VersionPrefixed
from minikafka.protocol.messages import consumer_protocol, coordinator_records
from minikafka.protocol.schema import Field, Kind, Struct, Wire

M = TypeVar("M", bound=Struct)

RECORD_FORMATS: list[type[VersionPrefixed]] = [
    consumer_protocol.ConsumerProtocolSubscription,
    consumer_protocol.ConsumerProtocolAssignment,
    coordinator_records.OffsetCommitKey,
    coordinator_records.OffsetCommitValue,
    coordinator_records.GroupMetadataKey,
    coordinator_records.GroupMetadataValue,
    coordinator_records.TransactionLogKey,
    coordinator_records.TransactionLogValue,
]

RANGES = {"b": 7, "h": 15, "i": 31, "q": 63}


def all_messages() -> list[type[Message]]:
    requests_and_responses = [cls for api in APIS.values() for cls in (api.request, api.response)]
    return [*requests_and_responses, *RECORD_FORMATS]


def all_versions() -> list[tuple[type[Message], int]]:
    return [(cls, version) for cls in all_messages() for version in range(cls.versions[0], cls.versions[1] + 1)]


def version_id(value: object) -> str:
    return value.__name__ if isinstance(value, type) else f"v{value}"


# ------------------------------------------------------------------------------------------ full


def full(cls: type[M], version: int, seed: int = 0) -> M:
    """A message with every field of the version set."""
    return _full(cls, version, itertools.count(seed * 1000 + 1))


def _full(cls: type[M], version: int, serial: Iterator[int]) -> M:
    values = {f.name: _full_field(f, version, serial) if f.exists(version) else f.absent for f in cls.fields}
    return cls(**values)


def _full_field(f: Field, version: int, serial: Iterator[int]) -> Any:
    if f.is_list:
        return [_full_value(f.wire, version, serial) for _ in range(2)]
    return _full_value(f.wire, version, serial)


def _full_value(wire: Wire | type[Struct], version: int, serial: Iterator[int]) -> Any:
    if isinstance(wire, type):
        return _full(wire, version, serial)
    number = next(serial)
    match wire.kind, wire.format:
        case Kind.STRING, _:
            return f"s{number}-\u00e9\u20ac"
        case ((Kind.BYTES | Kind.RECORDS), _):
            return b"b%d\x00\xff" % number
        case _, "?":
            return True
        case _, "d":
            return number + 0.25
        case _, "16s":
            return number.to_bytes(2, "big") * 8
        case _, "b":
            return number % 127 + 1
    return number


# --------------------------------------------------------------------------------------- arbitrary


def arbitrary(cls: type[M], version: int, rng: random.Random) -> M:
    """A message with nulls, empty and long values, and numbers at their limits, all by `rng`."""
    values = {f.name: _arbitrary_field(f, version, rng) if f.exists(version) else f.absent for f in cls.fields}
    return cls(**values)


def _arbitrary_field(f: Field, version: int, rng: random.Random) -> Any:
    if f.may_be_null(version) and rng.random() < 0.3:
        return None
    if not f.is_list:
        return _arbitrary_value(f.wire, version, rng)
    is_fixed = isinstance(f.wire, Wire) and f.wire.kind is Kind.FIXED
    size = rng.choice([0, 1, 1, 2, 3, 130 if is_fixed else 2])
    return [_arbitrary_value(f.wire, version, rng) for _ in range(size)]


def _arbitrary_value(wire: Wire | type[Struct], version: int, rng: random.Random) -> Any:
    if isinstance(wire, type):
        return arbitrary(wire, version, rng)
    if wire.kind is Kind.STRING:
        return rng.choice(["", "a", "topic", "\u00fc" * 63, "\U0001f600" * 40, "n" * 126, "n" * 127])
    if wire.kind is not Kind.FIXED:
        return rng.randbytes(rng.choice([0, 1, 5, 126, 127, 200]))
    if wire.format in RANGES:
        bits = RANGES[wire.format]
        return rng.choice([0, 1, -1, (1 << bits) - 1, -(1 << bits), rng.randrange(1 << bits)])
    return {"?": rng.random() < 0.5, "d": rng.random() * 1e9, "16s": rng.randbytes(16)}[wire.format]


# -------------------------------------------------------------------------------------- hypothesis


def messages(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Any value of a message that the version can carry."""
    present = {f.name: _field_values(f, version) for f in cls.fields if f.exists(version)}
    absent = {f.name: st.just(f.absent) for f in cls.fields if not f.exists(version)}
    return st.builds(cls, **present, **absent)


def _field_values(f: Field, version: int) -> st.SearchStrategy[Any]:
    values = _values(f.wire, version)
    if f.is_list:
        values = st.lists(values, max_size=3)
    tagged_struct = f.is_tagged and isinstance(f.wire, type) and not f.is_list
    return st.none() | values if f.may_be_null(version) or tagged_struct else values


def _values(wire: Wire | type[Struct], version: int) -> st.SearchStrategy[Any]:
    if isinstance(wire, type):
        return messages(wire, version)
    if wire.kind is Kind.STRING:
        return st.text(st.characters(codec="utf-8"), max_size=200)
    if wire.kind is not Kind.FIXED:
        return st.binary(max_size=300)
    if wire.format in RANGES:
        bits = RANGES[wire.format]
        return st.integers(-(1 << bits), (1 << bits) - 1)
    return {"?": st.booleans(), "d": st.floats(allow_nan=False), "16s": st.binary(min_size=16, max_size=16)}[
        wire.format
    ]


# ------------------------------------------------------------------------------------- Kafka's JSON


def camel(name: str) -> str:
    """`topic_data` as Kafka's schemas spell it, but for the first letter: `topicData`."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def to_kafka_json(message: Struct, version: int) -> dict[str, Any]:
    """The JSON that Kafka's own converters read for a message of that version."""
    return {
        camel(f.name): _json_value(getattr(message, f.name), f.wire, version)
        for f in type(message).fields
        if f.exists(version) and not (f.is_tagged and getattr(message, f.name) is None)
    }


def _json_value(value: Any, wire: Wire | type[Struct], version: int) -> Any:
    if isinstance(value, list):
        return [_json_value(each, wire, version) for each in value]
    if isinstance(value, Struct):
        return to_kafka_json(value, version)
    if isinstance(value, bytes) and isinstance(wire, Wire):
        if wire.format == "16s":
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        return base64.b64encode(value).decode()
    return value
