"""The few helpers that generated codecs call: slow paths, complaints, and cached row formats."""

import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn

from minikafka.protocol.errors import DecodeError
from minikafka.protocol.varint import read_uvarint, write_uvarint

ROWS_CACHED_MAX: Final = 64
"""Counts above this are compiled anew each time: the count is the peer's, the cache is ours."""

STRING_BYTES_MAX: Final = (1 << 15) - 1
"""A compact length could say more, but Kafka accepts no string that a classic length cannot hold."""

COPY_BELOW_BYTES: Final = 512
"""Records shorter than this are copied into the part being written; a part of their own costs more."""


class Rows(dict[int, Any]):
    """`rows[n]` packs or unpacks an array by its length field, and the fixed values around it.

    The key is the length as it stands on the wire: a compact array of three writes four (`bias`).
    """

    def __init__(self, head: str, element: str, tail: str, *, bias: int, method: str) -> None:
        self._head, self._element, self._tail = head, element, tail
        self._bias = bias
        self._method = method

    def __missing__(self, length: int) -> Callable[..., Any]:
        count = length - self._bias
        shape = struct.Struct(f">{self._head}{count}{self._element}{self._tail}")
        made: Callable[..., Any] = getattr(shape, self._method)
        if count <= ROWS_CACHED_MAX:
            self[length] = made
        return made


def long_length(buf: bytes | bytearray, pos: int, length: int, name: str) -> tuple[int, int]:
    """A compact length whose first byte, already read, was not one of the plain 1 to 127.

    A null can hide in padding (0x80 0x00), so the verdict comes after the number.  Where null is
    allowed, Kafka would take it for one; nobody sends it.
    """
    if length == 0:
        unexpected_null(name)
    length, pos = read_uvarint(buf, pos - 1)
    if length == 0:
        raise DecodeError(f"{name} has a padded null for its length")
    return length, pos


def long_string_length(buf: bytes | bytearray, pos: int, length: int, name: str) -> tuple[int, int]:
    """The same for a string, which has a limit of its own."""
    length, pos = long_length(buf, pos, length, name)
    if length > STRING_BYTES_MAX + 1:
        raise DecodeError(f"{name} is a string of {length - 1} bytes, at most {STRING_BYTES_MAX} are accepted")
    return length, pos


def write_long_string_length(out: bytearray, length: int) -> None:
    """A compact length above 127; too long a string fails as it does in versions with classic lengths."""
    if length > STRING_BYTES_MAX + 1:
        raise struct.error(f"string of {length - 1} bytes, at most {STRING_BYTES_MAX} can be written")
    write_uvarint(out, length)


def count_tags(buf: bytes | bytearray, pos: int, left: int) -> tuple[int, int]:
    """How many tagged fields follow: each takes a turn of a loop, so they count like elements."""
    count, pos = read_uvarint(buf, pos)
    if count > left:
        bad_count(count, left, "tags")
    return count, pos


def skip_tags(buf: bytes | bytearray, pos: int, left: int) -> tuple[int, int]:
    """Step over the tagged fields of a struct that knows none; returns the position and what is left."""
    count, pos = count_tags(buf, pos, left)
    for _ in range(count):
        _tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
    return pos, left - count


def unexpected_null(name: str) -> NoReturn:
    raise DecodeError(f"{name} may not be null")


def bad_count(count: int, left: int, name: str) -> NoReturn:
    raise DecodeError(f"{name} claims {count} elements, the message may have {left} more")


def bad_tag_size(tag: int, pos: int, stop: int) -> NoReturn:
    raise DecodeError(f"tag {tag} should end at {stop}, its value ends at {pos}")


def too_short(end: int, pos: int) -> NoReturn:
    raise DecodeError(f"message needs {pos} bytes, there are {end}")
