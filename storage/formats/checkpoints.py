"""Checkpoints: lines of text that say how far something has come.

    0                    version
    2                    number of entries
    orders 0 1500        per log directory: topic, partition, offset
    orders 1 37

    0
    1
    5 1200               per partition, of leaders: epoch, start offset

An empty file, and one that ends after its version, has no entries: Kafka creates the file before it first writes it.
Otherwise the last line must end in a newline. Kafka does not ask for that, but without it a file that lost its tail
would give `5 12` for `5 1200`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from minikafka.protocol.varint import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, Buffer
from minikafka.storage.formats.bad_file import BadFile

_VERSION: Final = 0
# A file of more lines than this is not one of ours, and is not worth the memory.
_ENTRIES_MAX: Final = 10_000_000
_number = re.compile(r"[+-]?[0-9]{1,19}")


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    return _encode(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def parse_offsets(data: Buffer) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition; of two entries for one partition the last counts, as in Kafka."""
    offsets = {}
    for words, position in _parse(data, 3):
        offsets[words[0], _int32(words[1], position)] = _int64(words[2], position)
    return offsets


def encode_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    return _encode(f"{epoch} {start_offset}" for epoch, start_offset in epochs)


def parse_epochs(data: Buffer) -> list[tuple[int, int]]:
    """Leader epochs and the offsets they start at, as they stand; whether they grow is not looked at."""
    return [(_int32(words[0], position), _int64(words[1], position)) for words, position in _parse(data, 2)]


def _encode(entries: Iterable[str]) -> bytes:
    lines = [*entries]
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode()


def _parse(data: Buffer, word_count: int) -> list[tuple[list[str], int]]:
    """The words of every entry, and where its line starts."""
    if not data:
        return []
    lines = _lines(bytes(data))
    version = _int32(*lines[0])
    if version != _VERSION:
        raise BadFile(f"version {version} of a checkpoint is not known")
    if len(lines) == 1:
        return []
    count = _int32(*lines[1])
    entries = [(line.split(), position) for line, position in lines[2:]]
    for words, position in entries:
        if len(words) != word_count:
            raise BadFile(f"an entry has {len(words)} words instead of {word_count}", position)
    if len(entries) != count:
        raise BadFile(f"{count} entries are announced, {len(entries)} are there", lines[1][1])
    return entries


def _lines(data: bytes) -> list[tuple[str, int]]:
    """The lines and where they start."""
    if not data.endswith(b"\n"):
        raise BadFile("the last line is not whole", data.rfind(b"\n") + 1)
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise BadFile("not plain text", error.start) from None
    if text.count("\n") > _ENTRIES_MAX:
        raise BadFile("too many lines")
    lines, position = [], 0
    for line in text[:-1].split("\n"):
        lines.append((line, position))
        position += len(line) + 1
    return lines


def _int32(word: str, position: int) -> int:
    return _int(word, position, INT32_MIN, INT32_MAX)


def _int64(word: str, position: int) -> int:
    return _int(word, position, INT64_MIN, INT64_MAX)


def _int(word: str, position: int, least: int, most: int) -> int:
    # int() takes more than Java does: spaces, underscores, other scripts' digits.
    if not _number.fullmatch(word) or not least <= (value := int(word)) <= most:
        raise BadFile(f"{word[:40]!r} is not a number that can stand here", position)
    return value
