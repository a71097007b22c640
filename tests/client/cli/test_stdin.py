"""Lines of an input, however they are cut into pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, BinaryIO

import pytest

from minikafka.client.cli import stdin
from minikafka.client.errors import RecordTooLarge


class Pieces:
    """What an input gives, piece by piece, and how much was taken of it."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.taken = 0

    async def read(self, source: BinaryIO) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            self.taken += len(piece)
            yield piece


async def lines_of(pieces: Pieces, delimiter: bytes, monkeypatch: pytest.MonkeyPatch, limit: int = 1000) -> list[bytes]:
    monkeypatch.setattr(stdin, "read_pieces", pieces.read)
    source: Any = None
    return [line async for lines in stdin.read_lines(source, delimiter, limit) for line in lines]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("delimiter", [b"\n", b"--", b"aba"])
@pytest.mark.parametrize("end", [b"", b"rest"])
async def test_lines_are_cut_at_delimiters(
    size: int, delimiter: bytes, end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = delimiter.join([b"one", b"", b"three", b"4", end])
    pieces = Pieces(*(text[at : at + size] for at in range(0, len(text), size)))
    expected = [b"one", b"", b"three", b"4", *([end] if end else [])]
    assert await lines_of(pieces, delimiter, monkeypatch) == expected


async def test_line_without_end_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = Pieces(*[b"x" * 100] * 1000)
    with pytest.raises(RecordTooLarge, match="more than 1000 bytes"):
        await lines_of(pieces, b"\n", monkeypatch)
    assert pieces.taken <= 1100
