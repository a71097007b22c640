"""The codecs in pieces: the same bytes and the same verdicts as in one go, in little memory, at linear cost."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.compression import STEP_BYTES, Compression, compress, decompress
from minikafka.protocol.errors import CorruptRecord, InflatesTooFar
from minikafka.protocol.streams import deflate, inflate
from tests.protocol.test_compression import SAMPLES, xerial

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
LARGE = os.urandom(100_000) * 40


@pytest.mark.parametrize("codec", [*Compression])
@pytest.mark.parametrize("number", range(len(SAMPLES) + 1))
def test_pieces_are_the_data(codec: Compression, number: int) -> None:
    data = [*SAMPLES, LARGE][number]
    packed = compress(codec, data)
    pieces = [*inflate(codec, packed)]
    assert b"".join(pieces) == data
    if codec is not Compression.SNAPPY:
        assert max(map(len, pieces), default=0) <= STEP_BYTES


@pytest.mark.parametrize("codec", [*Compression])
def test_deflated_pieces_are_read_in_one_go(codec: Compression) -> None:
    pieces = [b"first", b"", LARGE[:70_000], LARGE]
    packed = b"".join(deflate(codec, pieces))
    assert decompress(codec, packed, 1 << 30) == b"".join(pieces) == b"".join(inflate(codec, packed))


def test_several_frames_and_members() -> None:
    def joined(codec: Compression, data: bytes) -> bytes:
        return b"".join(inflate(codec, data))

    assert joined(Compression.SNAPPY, xerial(b"a", b"b" * 70_000) + xerial(b"c")) == b"a" + b"b" * 70_000 + b"c"
    members = [gzip.compress(data) for data in (b"a", b"", b"b")]
    assert joined(Compression.GZIP, b"".join(members) + b"x") == b"ab"
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"a")
    assert joined(Compression.ZSTD, unsized + compress(Compression.ZSTD, b"b")) == b"ab"


@given(st.sampled_from(CODECS), st.binary(max_size=300), st.integers(0, 400), st.integers(0, 255))
def test_verdicts_are_those_of_one_go(codec: Compression, data: bytes, at: int, byte: int) -> None:
    packed = bytearray(compress(codec, data * 3))
    packed[at % len(packed)] = byte
    for cut in (packed, packed[: at % len(packed)]):
        try:
            expected: bytes | None = decompress(codec, cut, 1 << 20)
        except CorruptRecord:
            expected = None
        try:
            found: bytes | None = b"".join(inflate(codec, cut))
        except CorruptRecord:
            found = None
        # A block that states an impossible size is refused sooner; what is whole is read alike.
        assert found == expected


@pytest.mark.parametrize("codec", CODECS)
def test_too_far_is_not_broken(codec: Compression) -> None:
    packed = compress(codec, bytes(100_000))
    if codec is Compression.ZSTD:
        packed = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(100_000))
    with pytest.raises(InflatesTooFar):
        decompress(codec, packed, 99_999)
    assert len(decompress(codec, packed, 100_000)) == 100_000


class CountedInflate:
    """zlib's object, and how many bytes it is given and gives back uneaten."""

    copied = 0

    def __init__(self, bits: int) -> None:
        self._inner = zlib.decompressobj(bits)

    def decompress(self, data: bytes, limit: int) -> bytes:
        piece = self._inner.decompress(data, limit)
        CountedInflate.copied += len(self._inner.unused_data) + len(self._inner.unconsumed_tail)
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Zlib:
    error = zlib.error
    decompressobj = CountedInflate


def test_gzip_members_cost_no_more_than_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = gzip.compress(b"")
    monkeypatch.setattr("minikafka.protocol.compression.zlib", Zlib)
    costs = []
    for count in (1000, 2000, 4000):
        CountedInflate.copied = 0
        assert decompress(Compression.GZIP, empty * count, 100) == b""
        costs.append(CountedInflate.copied)
    assert costs[2] < 2.2 * costs[1] < 5 * costs[0]


def test_bomb_is_inflated_bit_by_bit() -> None:
    """A gigabyte in a few kilobytes: whoever has seen enough stops, and little was inflated."""
    packed = zstandard.ZstdCompressor().compress(bytes(1 << 28))
    assert len(packed) < 30_000
    pieces: Iterator[bytes] = inflate(Compression.ZSTD, packed)
    assert len(next(pieces)) == STEP_BYTES
