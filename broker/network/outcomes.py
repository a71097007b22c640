"""Which errors an answer holds, whatever its shape, so that they can be counted.

Where in a message there are error codes follows from its declaration, and is looked up once for each class.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import cache
from typing import Any, Final, NamedTuple

from minikafka.protocol.schema import Struct

_CODE: Final = "error_code"


class _Places(NamedTuple):
    """Where a struct has error codes: itself, and in its lists."""

    has_code: bool
    lists: tuple[tuple[str, _Places], ...]


@cache
def _places(struct: type[Struct]) -> _Places:
    lists = tuple(
        (field.name, places)
        for field in struct.fields
        if field.is_list and isinstance(field.wire, type) and any(places := _places(field.wire))
    )
    return _Places(any(field.name == _CODE for field in struct.fields), lists)


def count_errors(answer: Struct, errors: MutableMapping[int, int]) -> None:
    """Add the errors in an answer to the counts of them; what went well is not counted."""
    places = _places(type(answer))
    if places.has_code or places.lists:
        for code in _codes(answer, places):
            if code:
                errors[code] = errors.get(code, 0) + 1


def _codes(struct: Any, places: _Places) -> Iterator[int]:
    if places.has_code:
        yield getattr(struct, _CODE)
    for name, inner in places.lists:
        for each in getattr(struct, name) or ():
            yield from _codes(each, inner)
