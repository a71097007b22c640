"""Values for every declared message, made from its schema.

`full` is deterministic: every field that a version carries gets a value unlike its neighbours' and
unlike its default, arrays get two elements, so that swapped or missing fields show in the bytes.
`messages` is a hypothesis strategy for the same.
"""

import itertools
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
