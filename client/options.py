"""How an option is declared, checked and found by its Kafka name.

Options are fields of frozen dataclasses that derive from `Options`. A field is declared with `option`, which says what
Kafka calls it and what its values may be. `MyConfig(linger_ms=5)` takes Python names and values;
`MyConfig.from_config({"linger.ms": "5"})` takes Kafka's names, and text as it stands in a properties file. Whatever is
wrong is a ConfigError that names the option, and for a name that does not exist the nearest one that does.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Final, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from minikafka.client.errors import ConfigError

_T = TypeVar("_T")

_TRUE: Final = frozenset({"true", "1", "yes"})
_FALSE: Final = frozenset({"false", "0", "no"})


def option(
    default: _T,
    *kafka_names: str,
    low: int | None = None,
    choices: Iterable[object] = (),
    secret: bool = False,
    convert: Callable[[str], object] | None = None,
) -> _T:
    """A field of an options class.

    `kafka_names` are what Kafka and librdkafka call it; without any, the field's own name with dots. `low` is the
    smallest number allowed, `choices` are the values allowed, `convert` reads the option from text if the type does
    not say how. A `secret` is left out of `repr`.
    """
    details = {"kafka": kafka_names, "low": low, "choices": tuple(choices), "convert": convert}
    return dataclasses.field(default=default, repr=not secret, metadata=details)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A set of options; see the module's description."""

    def __post_init__(self) -> None:
        hints = _hints(type(self))
        for field in dataclasses.fields(self):
            _check(field, hints[field.name], getattr(self, field.name))

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """From Python names, as keyword arguments come; a name that does not exist is a ConfigError."""
        known = {field.name for field in dataclasses.fields(cls)}
        for name in options:
            if name not in known:
                raise ConfigError(_unknown(name, known))
        return cls(**options)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """From Kafka's dotted names; values may be text."""
        hints = _hints(cls)
        by_name = {name: field for field in dataclasses.fields(cls) for name in kafka_names(field)}
        options: dict[str, object] = {}
        for name, value in config.items():
            field = by_name.get(name)
            if field is None:
                raise ConfigError(_unknown(name, by_name))
            if field.name in options:
                raise ConfigError(f"{name} is given twice, under two of its names")
            options[field.name] = _from_text(name, field, hints[field.name], value)
        return cls(**options)


def kafka_names(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    """What Kafka calls an option."""
    return field.metadata.get("kafka") or (field.name.replace("_", "."),)


# Reading annotations that are text means compiling them: a millisecond, for something that never changes.
_known_hints: Final[dict[type, dict[str, object]]] = {}


def _hints(cls: type[Options]) -> dict[str, object]:
    found = _known_hints.get(cls)
    if found is None:
        found = _known_hints[cls] = get_type_hints(cls)
    return found


def _unknown(name: object, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(name), sorted(known), 1, 0.5)
    return f"there is no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _members(hint: object) -> tuple[object, ...]:
    """The types of a union, or the one type."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _check(field: dataclasses.Field[Any], hint: object, value: object) -> None:
    plain = [each for each in _members(hint) if each in (bool, int, float, str, NoneType)]
    # Callables, contexts and lists are checked by whoever uses them.
    if len(plain) == len(_members(hint)):
        fits = any(type(value) is each or (each is float and type(value) is int) for each in plain)
        if not fits:
            wanted = " or ".join("None" if each is NoneType else getattr(each, "__name__", "") for each in plain)
            raise ConfigError(f"{field.name} must be {wanted}, not {_shown(field, value)}")
    choices, low = field.metadata.get("choices"), field.metadata.get("low")
    if choices and value not in choices:
        allowed = ", ".join(map(repr, choices))
        raise ConfigError(f"{field.name} must be one of {allowed}, not {_shown(field, value)}")
    if low is not None and isinstance(value, int | float) and value < low:
        raise ConfigError(f"{field.name} must be {low} or more, not {value}")


def _shown(field: dataclasses.Field[Any], value: object) -> str:
    return repr(value) if field.repr else f"a {type(value).__name__} that is not shown"


def _from_text(name: str, field: dataclasses.Field[Any], hint: object, value: object) -> object:
    convert = field.metadata.get("convert")
    if convert is not None:
        return convert(str(value))
    if not isinstance(value, str):
        return value
    members = _members(hint)
    text = value.strip()
    if str in members or not {bool, int, float} & {*members}:
        return value if not (text == "" and NoneType in members) else None
    if bool in members and text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    for number in (int, float):
        if number in members:
            try:
                return number(text)
            except ValueError:
                continue
    raise ConfigError(f"{name} cannot be {_shown(field, value)}")
