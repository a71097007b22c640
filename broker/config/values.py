"""Texts <-> values, as Kafka reads and writes them.

Configs travel and are stored as text. Blanks around a value do not count, numbers have Java's ranges, lists are
separated by commas. Numbers that are not finite are refused, which Kafka lets pass and then stumbles over.
"""

import re
from collections.abc import Callable
from math import isfinite
from typing import Final

from minikafka.broker.config.errors import BadValue
from minikafka.broker.config.keys import Key, Kind

Value = bool | int | float | str | tuple[str, ...] | None

# What Java's `trim` takes away, and what its `\s` is.
_BLANKS: Final = "".join(map(chr, range(0x21)))
_BLANKS_AT_COMMA: Final = " \t\n\v\f\r"

# Patterns are texts: `re` compiles them on first use and keeps them, and most brokers never need most of them.
_WHOLE: Final = r"[+-]?[0-9]+"
_DECIMAL: Final = r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
_BITS: Final = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
# The longest number of 64 bits has 19 digits; more could only be zeros in front.
_DIGITS_MAX: Final = 40

# Releases of Kafka, with the highest of the internal versions on the way to each.
_RELEASES: Final = {
    **dict.fromkeys(("0.8.0", "0.8.1", "0.8.2", "0.9.0"), -1),
    **dict.fromkeys(("0.10.2", "1.0", "1.1", "2.5", "2.6", "3.1", "3.2", "3.4", "3.8", "3.9"), 0),
    **dict.fromkeys(("0.10.0", "2.0", "2.2", "2.3", "2.4", "2.8", "3.0", "4.0"), 1),
    **dict.fromkeys(("0.10.1", "0.11.0", "2.1", "2.7", "3.5", "3.6"), 2),
    "3.3": 3,
    "3.7": 4,
}
_VERSION: Final = r"(0\.[0-9]+\.[0-9]+|[1-9][0-9]*\.[0-9]+)(?:-IV([0-9]+)|(?:\.[0-9]+)*)"

_HOST: Final = r"(?:[0-9A-Za-z._%-]+|\[[0-9A-Fa-f:.%]+\])"
# Up to 65535.
_PORT: Final = r"(?:[0-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_HOST_AND_PORT: Final = _HOST + r":" + _PORT
_SERVER: Final = _HOST + r"(?::" + _PORT + r")?"


def parse(key: Key, text: str) -> Value:
    """The value of a key, or a BadValue that says what is allowed."""
    if not _is_unicode(text):
        raise BadValue("must be valid Unicode")
    value = _PARSERS.get(key.kind, _string)(text.strip(_BLANKS))
    if value is None or not _is_allowed(key, value):
        raise BadValue(f"must be {allowed(key)}")
    return value


def render(value: Value) -> str | None:
    """The text by which Kafka shows a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return None if value is None else str(value)


def allowed(key: Key) -> str:
    """What a key takes, in words."""
    if key.form:
        return _FORMS[key.form][0]
    if key.one_of:
        return "one of " + ", ".join(key.one_of)
    if key.each_of:
        return "a list of " + ", ".join(key.each_of)
    if key.kind in _BITS or key.kind is Kind.DOUBLE:
        return _allowed_number(key)
    return {Kind.BOOLEAN: "true or false", Kind.LIST: "a list, separated by commas"}.get(key.kind, "a text")


def split(text: str) -> tuple[str, ...]:
    """The elements of a list; an empty text has none."""
    stripped = text.strip(_BLANKS)
    return tuple(each.strip(_BLANKS_AT_COMMA) for each in stripped.split(",")) if stripped else ()


def _is_unicode(text: str) -> bool:
    """Whether a text can be sent: a variable's bytes and ZooKeeper's JSON may hold what is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _allowed_number(key: Key) -> str:
    noun = "a number" if key.kind is Kind.DOUBLE else f"a {_BITS[key.kind]}-bit whole number"
    if key.low is not None:
        noun += f" of at least {key.low}" if key.high is None else f" from {key.low} to {key.high}"
    return " or ".join([noun, *map(str, key.also)])


def _is_allowed(key: Key, value: Value) -> bool:
    if key.form:
        return _FORMS[key.form][1](value)
    if key.one_of:
        return (value.lower() if key.any_case and isinstance(value, str) else value) in key.one_of
    if key.each_of:
        return isinstance(value, tuple) and all(each in key.each_of for each in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    if value in key.also:
        return True
    return (key.low is None or value >= key.low) and (key.high is None or value <= key.high)


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _whole(bits: int) -> Callable[[str], int | None]:
    limit = 1 << (bits - 1)

    def number(text: str) -> int | None:
        if len(text) > _DIGITS_MAX or not re.fullmatch(_WHOLE, text):
            return None
        value = int(text)
        return value if -limit <= value < limit else None

    return number


def _double(text: str) -> float | None:
    found = re.fullmatch(_DECIMAL, text)
    value = float(found[1]) if found else float("nan")
    return value if isfinite(value) else None


def _string(text: str) -> str:
    return text


_PARSERS: Final[dict[Kind, Callable[[str], Value]]] = {
    Kind.BOOLEAN: _boolean,
    Kind.SHORT: _whole(16),
    Kind.INT: _whole(32),
    Kind.LONG: _whole(64),
    Kind.DOUBLE: _double,
    Kind.LIST: split,
}


def _is_version(value: Value) -> bool:
    found = re.fullmatch(_VERSION, str(value))
    # Without internal version any patch release will do: 3.9.1 counts as 3.9.
    return found is not None and int(found[2] or -1) <= _RELEASES.get(found[1], -2)


def _is_throttled(value: Value) -> bool:
    assert isinstance(value, tuple)
    return value == ("*",) or all(re.fullmatch(r"(?:[0-9]+:[0-9]+)?", each) for each in value)


def _is_ensemble(value: Value) -> bool:
    servers, _, path = str(value).partition("/")
    return all(re.fullmatch(_SERVER, each) for each in split(servers) or ("",)) and not set(path) & set(" ,")


def _each(pattern: str) -> Callable[[Value], bool]:
    def check(value: Value) -> bool:
        return isinstance(value, tuple) and all(re.fullmatch(pattern, each) for each in value)

    return check


_FORMS: Final[dict[str, tuple[str, Callable[[Value], bool]]]] = {
    "addresses": ("a list of host:port", _each(r".*" + _HOST_AND_PORT)),
    "non-empty": ("a text that is not empty", bool),
    "throttled": ("* or a list of partition:broker", _is_throttled),
    "version": ("a version of Kafka up to 4.0", _is_version),
    "voters": ("a list of id@host:port", _each(r"[0-9]+@" + _HOST_AND_PORT)),
    "zookeeper": ("host:port,host:port/path", _is_ensemble),
}


def _java_double(value: float) -> str:
    """`Double.toString`: plain from 0.001 up to ten million, otherwise with an exponent, always with a point."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = repr(value)
        return plain if "e" not in plain else f"{value:f}"
    mantissa, _, exponent = f"{value:e}".partition("e")
    # `repr` has the shortest digits that give this number again; `:e` only the place of the point.
    digits = re.sub(r"e.*|[-.]", "", repr(value)).strip("0")
    return f"{'-' if mantissa[0] == '-' else ''}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"
