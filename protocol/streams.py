"""The codecs of record batches in pieces, for data that is too large to be in memory as a whole.

`inflate` gives the same bytes as `compression.decompress` and refuses the same input, if need be after good pieces.
A piece takes about a MiB at most, with one exception: a raw snappy block cannot be taken apart, so it is one piece. It
inflates to less than 22 times its size, and a block that states more is refused before memory is set aside. What the
codec itself needs to look back comes on top, up to 128 MiB for zstd data that ask for it.

`deflate` compresses pieces into pieces. Snappy data are framed as Java frames them, one block for each 32 KiB.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final

import cramjam
import lz4.frame
import zstandard

from minikafka.protocol import compression
from minikafka.protocol.compression import GZIP_WINDOW_BITS, STEP_BYTES, XERIAL_HEADER, Compression
from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.varint import Buffer

# A copy of 64 bytes takes three.
_SNAPPY_RATIO_MAX: Final = 22
_XERIAL_BLOCK_BYTES: Final = 1 << 15
_pack_size: Final = Struct(">I").pack


def inflate(codec: Compression, data: Buffer) -> Iterator[bytes]:
    """The data in pieces; CorruptRecord where they are bad."""
    try:
        if codec is Compression.NONE:
            view = memoryview(data)
            yield from (bytes(view[at : at + STEP_BYTES]) for at in range(0, len(view), STEP_BYTES))
        elif codec is Compression.GZIP:
            yield from compression.gzip_pieces(data)
        elif codec is Compression.SNAPPY:
            yield from _snappy(data)
        elif codec is Compression.LZ4:
            yield from _lz4(data)
        else:
            yield from _zstd(data)
    except compression.CODEC_ERRORS as error:
        raise CorruptRecord(f"{codec.name.lower()} data is broken: {error}") from error


def _snappy(data: Buffer) -> Iterator[bytes]:
    for block in compression.snappy_blocks(data):
        if cramjam.snappy.decompress_raw_len(block) > _SNAPPY_RATIO_MAX * len(block):
            raise CorruptRecord(f"a snappy block of {len(block)} bytes cannot hold as much as it states")
        yield bytes(cramjam.snappy.decompress_raw(block))


def _lz4(data: Buffer) -> Iterator[bytes]:
    compression.check_lz4(data)
    inflating: Any = lz4.frame.LZ4FrameDecompressor()
    source: Buffer = data
    while not inflating.eof:
        piece: bytes = inflating.decompress(source, max_length=STEP_BYTES)
        if not piece and not inflating.eof:
            raise CorruptRecord("lz4 data is truncated")
        yield piece
        source = b""


def _zstd(data: Buffer) -> Iterator[bytes]:
    for start, stop, bound in compression.zstd_frames(data):
        frame = data[start:stop]
        compression.check_zstd_size(frame, bound)
        with zstandard.ZstdDecompressor().stream_reader(frame) as reader:
            while piece := reader.read(STEP_BYTES):
                yield piece


def deflate(codec: Compression, pieces: Iterable[bytes], level: int | None = None) -> Iterator[bytes]:
    """The pieces as one compressed stream; `level` is the codec's own scale."""
    if codec is Compression.NONE:
        yield from pieces
    elif codec is Compression.SNAPPY:
        yield XERIAL_HEADER
        for piece in pieces:
            view = memoryview(piece)
            for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
                block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
                yield _pack_size(len(block))
                yield block
    else:
        deflating = _deflating(codec, level)
        if codec is Compression.LZ4:
            yield deflating.begin()
        for piece in pieces:
            yield deflating.compress(piece)
        yield deflating.flush()


def _deflating(codec: Compression, level: int | None) -> Any:
    if codec is Compression.GZIP:
        return zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, GZIP_WINDOW_BITS)
    if codec is Compression.LZ4:
        return lz4.frame.LZ4FrameCompressor(
            compression_level=level or 0, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False
        )
    return zstandard.ZstdCompressor(level=compression.ZSTD_LEVEL if level is None else level).compressobj()
