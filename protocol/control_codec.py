"""How control-plane messages become msgpack and back.

A message is a dataclass; on the wire it is a map from field names to values.  Maps describe
themselves, so brokers of neighbouring versions understand each other during a rolling upgrade: an
unknown key is ignored, a missing one takes the field's default, and only a missing key without a
default, or a value of another type, is a DecodeError.
"""

import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Final, NamedTuple, Self, dataclass_transform

import msgpack

from minikafka.protocol.errors import DecodeError
from minikafka.protocol.varint import Buffer

CONTROL_VERSION: Final = 0
"""Stands in the request header; the maps themselves have no versions."""

CONTROL_BYTES_MAX: Final = 1 << 26
"""A partition's state takes about 150 bytes: this is room for some 400,000 partitions."""

ELEMENTS_MAX: Final = 1 << 23
"""An element can be one byte here and 60 in memory: maps and arrays may hold this many in all."""

KEYS_MAX: Final = 1 << 12
"""Of one map.  A map is a struct, so it has few keys; they are counted with the rest only when it is whole."""

Convert = Callable[[Any, str], Any]


@dataclass_transform(kw_only_default=True)
class ControlStruct:
    """Base of everything in a control-plane message; subclasses become keyword-only dataclasses."""

    def __init_subclass__(cls, **options: Any) -> None:
        for name, value in options.items():
            setattr(cls, name, value)
        dataclass(kw_only=True)(cls)


class ControlMessage(ControlStruct):
    """A whole request or answer body, in one version: the map says what it holds."""

    api_key: ClassVar[int]
    versions: ClassVar[tuple[int, int]] = (CONTROL_VERSION, CONTROL_VERSION)

    @classmethod
    def supports(cls, version: int) -> bool:
        return version == CONTROL_VERSION

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether the headers around it are; they are classic."""
        del version
        return False

    @classmethod
    def decode(cls, buf: bytes | bytearray, version: int, pos: int = 0) -> Self:
        del version
        body = memoryview(buf)[pos:]
        if len(body) > CONTROL_BYTES_MAX:
            raise DecodeError(f"{cls.__name__} of {len(body)} bytes, at most {CONTROL_BYTES_MAX} are accepted")
        return typing.cast(Self, _to_struct(cls, _unpack(body, cls.__name__), cls.__name__))

    def encode(self, version: int, out: bytearray | None = None) -> list[Buffer]:
        del version
        out = bytearray() if out is None else out
        out += msgpack.packb(self, default=_to_map)
        return [out]


class ControlApi(NamedTuple):
    """One row of the control plane, as `apis.Api` is for what clients use."""

    key: int
    name: str
    request: type[ControlMessage]
    response: type[ControlMessage]

    @classmethod
    def of(cls, request: type[ControlMessage], response: type[ControlMessage]) -> Self:
        return cls(request.api_key, request.__name__.removesuffix("Request"), request, response)

    @property
    def versions(self) -> tuple[int, int]:
        return self.request.versions


class _Budget:
    """Counts what msgpack builds, while it builds it."""

    def __init__(self) -> None:
        self.left = ELEMENTS_MAX

    def take(self, built: Any) -> Any:
        self.left -= len(built) + 1
        if self.left < 0:
            raise DecodeError(f"control message of more than {ELEMENTS_MAX} elements")
        return built


def _unpack(body: memoryview, name: str) -> Any:
    take = _Budget().take
    try:
        return msgpack.unpackb(
            body,
            list_hook=take,
            object_hook=take,
            # What an array claims may be allocated at once, so the claim must not exceed the bytes either.
            max_array_len=min(len(body), ELEMENTS_MAX),
            max_map_len=min(len(body), KEYS_MAX),
        )
    except DecodeError:
        raise
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise DecodeError(f"{name}: not msgpack ({error})") from error


def _to_map(value: Any) -> dict[str, Any]:
    if not isinstance(value, ControlStruct):
        raise TypeError(f"{type(value).__name__} does not belong in a control message")
    return {f.name: getattr(value, f.name) for f in fields(value)}  # type: ignore[arg-type]


_known: Final[dict[type[ControlStruct], dict[str, tuple[Convert, bool]]]] = {}


def _converters(cls: type[ControlStruct]) -> dict[str, tuple[Convert, bool]]:
    """For each field how to check its value, and whether it must be there."""
    if cls not in _known:
        hints = typing.get_type_hints(cls)
        _known[cls] = {
            f.name: (_converter(hints[f.name]), f.default is MISSING and f.default_factory is MISSING)
            for f in fields(cls)  # type: ignore[arg-type]
        }
    return _known[cls]


def _to_struct(cls: type[ControlStruct], value: Any, where: str) -> ControlStruct:
    if not isinstance(value, dict):
        raise DecodeError(f"{where} is a {type(value).__name__}, not a map")
    given = {}
    for name, (convert, required) in _converters(cls).items():
        if name in value:
            given[name] = convert(value[name], f"{where}.{name}")
        elif required:
            raise DecodeError(f"{where} has no {name}")
    return cls(**given)


def _converter(hint: Any) -> Convert:
    if typing.get_origin(hint) is types.UnionType:
        (arm,) = (arm for arm in typing.get_args(hint) if arm is not types.NoneType)
        inner = _converter(arm)
        return lambda value, where: None if value is None else inner(value, where)
    if typing.get_origin(hint) is list:
        item = _converter(typing.get_args(hint)[0])
        return lambda value, where: [item(each, where) for each in _checked(value, list, where)]
    if issubclass(hint, ControlStruct):
        return lambda value, where: _to_struct(hint, value, where)
    return lambda value, where: _checked(value, hint, where)


def _checked(value: Any, expected: type, where: str) -> Any:
    # `type is`, since a bool would pass for an int.
    if type(value) is not expected:
        raise DecodeError(f"{where} is a {type(value).__name__}, not a {expected.__name__}")
    return value
