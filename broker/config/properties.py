"""Properties files, as Java reads them.

A line is `key=value`, `key:value` or `key value`; `#` and `!` begin comments; a backslash at the end continues a line
and blanks before the rest are dropped; `\\t`, `\\n`, `\\r`, `\\f` and `\\uXXXX` are what they look like, and before
anything else a backslash only takes away that character's meaning. The last of several lines for a key wins.

Java takes the bytes for Latin-1. What is not plain ASCII is UTF-8 in practice and is read as such where it can be.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from minikafka.broker.config.errors import ConfigError

_BLANKS: Final = " \t\f"
_ENDS_OF_KEY: Final = "=:" + _BLANKS
_ESCAPE: Final = r"(?s)\\(u[0-9a-fA-F]{4}|.|$)"
_MEANINGS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """One assignment, and the line on which it begins."""

    key: str
    value: str
    line: int


def read_properties(path: str) -> list[Property]:
    """The assignments of a file; the one place of this package that touches the disk for its user."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return parse_properties(text, path)


def parse_properties(text: str, name: str) -> list[Property]:
    """The assignments of a text in their order; `name` is for the error, which can only be a bad `\\uXXXX`."""
    return [_assignment(line, number, name) for line, number in _logical_lines(text)]


def format_properties(values: Mapping[str, str]) -> str:
    """A text that `parse_properties` and Java read back as these values."""
    return "".join(f"{_escaped(key, ' =:')}={_escaped(value)}\n" for key, value in values.items())


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Lines with their continuations, without comments and blank ones."""
    whole, first = "", 0
    for number, natural in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = natural.lstrip(_BLANKS)
        if not first:
            if not line or line[0] in "#!":
                continue
            first = number
        whole += line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            whole = whole[:-1]
            # A line of a single backslash is still nothing: the next one may be a comment again.
            first = first if whole else 0
            continue
        yield whole, first
        whole, first = "", 0
    if first:
        yield whole, first


def _assignment(line: str, number: int, name: str) -> Property:
    end = _end_of_key(line)
    rest = line[end:].lstrip(_BLANKS)
    value = rest[1:].lstrip(_BLANKS) if rest[:1] in ("=", ":") else rest
    try:
        return Property(_unescaped(line[:end]), _unescaped(value), number)
    except ValueError as error:
        raise ConfigError(f"{name}:{number}: {error}") from error


def _end_of_key(line: str) -> int:
    """Where the first separator or blank is that no backslash precedes."""
    at = 0
    while at < len(line) and line[at] not in _ENDS_OF_KEY:
        at += 2 if line[at] == "\\" else 1
    return min(at, len(line))


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    # Characters beyond 16 bits are written as two halves; one without the other is an error.
    units = re.sub(_ESCAPE, _meaning, text).encode("utf-16-be", "surrogatepass")
    try:
        return units.decode("utf-16-be")
    except UnicodeDecodeError as error:
        raise ValueError("\\uXXXX is half a character") from error


def _meaning(found: re.Match[str]) -> str:
    what = found[1]
    if what[:1] != "u":
        return _MEANINGS.get(what, what)
    if len(what) == 1:
        raise ValueError("\\u must be followed by four hexadecimal digits")
    return chr(int(what[1:], 16))


def _escaped(text: str, special: str = "") -> str:
    escaped = []
    for at, char in enumerate(text):
        if char in "\\" + special or (at == 0 and char in " #!"):
            escaped.append("\\" + char)
        elif " " <= char <= "~":
            escaped.append(char)
        else:
            # Beyond 16 bits Java writes both halves of a surrogate pair.
            units = char.encode("utf-16-be", "surrogatepass")
            escaped += [f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)]
    return "".join(escaped)
