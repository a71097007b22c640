"""The five codecs of record batches, with a limit on what a peer's bytes may inflate to.

`decompress` takes bytes that nobody vouches for. Whatever they are, it returns at most `max_bytes` bytes or raises
`CorruptRecord`: for broken and truncated input, and for input that would inflate past the limit. Sizes that the input
states about itself are compared with the limit before anything is allocated, and are otherwise only hints. Memory
stays below `max_bytes` plus a few MiB while a bomb is being inflated, and below twice the result for good input (the
pieces and their concatenation); `tests/protocol/test_compression.py` measures both.

What follows the compressed data, and data in several pieces, is treated as Kafka's Java client treats it:

    gzip    members are concatenated; bytes after a member that do not start another one are ignored
    snappy  raw (one block, as librdkafka writes it) or xerial-framed (as Java does), told apart by the frame's magic,
            with which no raw block can begin. A raw block must end where the data ends; a frame may hold many chunks
            and further frames, and up to 3 bytes after them are ignored
    lz4     one frame; bytes after it are ignored. Linked blocks, which Java refuses, are read
    zstd    frames are concatenated and skippable frames skipped; anything else after a frame is an error

What we write is read by all of Java, librdkafka, kafka-python and aiokafka: raw snappy, and lz4 frames with independent
blocks of 64 KB.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import IntEnum
from struct import unpack_from
from typing import Any

import cramjam
import lz4.frame
import zstandard

from minikafka.protocol.errors import CorruptRecord, InflatesTooFar
from minikafka.protocol.varint import Buffer


class Compression(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# Inflating goes in steps of at least this size, so that most batches take one step and a bomb is noticed soon.
STEP_BYTES = 1 << 20

GZIP_WINDOW_BITS = 31  # 15 for the largest window, 16 for the gzip header and trailer
_GZIP_MEMBER_START = b"\x1f\x8b\x08"
_GZIP_MEMBER_BYTES_MIN = 18  # header 10, trailer 8
# What a member that is not the first gets to begin with.
_GZIP_FEED_BYTES = 256

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
# Version and lowest compatible version follow.
XERIAL_HEADER = _XERIAL_MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1))

_LZ4_MAGIC = b"\x04\x22\x4d\x18"

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50  # the low four bits are free
_ZSTD_BLOCK_BYTES_MAX = 1 << 17
ZSTD_LEVEL = 3
# A context keeps the window of the largest frame that it has seen. Java declares 2 MiB at its default level, and 8 MiB
# at most up to level 19.
_ZSTD_POOLED_WINDOW_BYTES_MAX = 8 << 20

# RuntimeError is what lz4 raises for bad frames.
CODEC_ERRORS = (zlib.error, cramjam.DecompressionError, zstandard.ZstdError, RuntimeError)

# A zstd context costs ten times what a small batch costs and must not be shared by two threads at a time. Popping from
# and appending to a list are atomic, so these need no lock; each holds as many contexts as were ever used at once.
_zstd_decompressors: list[zstandard.ZstdDecompressor] = []
_zstd_compressors: list[zstandard.ZstdCompressor] = []


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """The data as one compressed stream; `level` is the codec's own scale, snappy has none."""
    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.GZIP:
        deflate = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, GZIP_WINDOW_BITS)
        return deflate.compress(data) + deflate.flush()
    if codec is Compression.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    if codec is Compression.LZ4:
        frame: bytes = lz4.frame.compress(
            data,
            compression_level=level or 0,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return frame
    return _compress_zstd(data, level)


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    if level is not None and level != ZSTD_LEVEL:
        return zstandard.ZstdCompressor(level=level).compress(data)
    try:
        compressor = _zstd_compressors.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
    compressed = compressor.compress(data)
    _zstd_compressors.append(compressor)
    return compressed


def decompress(codec: Compression, data: Buffer, max_bytes: int) -> bytes:
    """The data inflated, never more than `max_bytes`; CorruptRecord for anything else."""
    if codec is Compression.NONE:
        if len(data) > max_bytes:
            raise _too_large(max_bytes)
        return bytes(data)
    try:
        return _DECODERS[codec](data, max_bytes)
    except CODEC_ERRORS as error:
        raise CorruptRecord(f"{codec.name.lower()} data is broken: {error}") from error


def _too_large(max_bytes: int) -> InflatesTooFar:
    return InflatesTooFar(f"records take more than {max_bytes} bytes when decompressed")


def _gzip(data: Buffer, max_bytes: int) -> bytes:
    return _limited(gzip_pieces(data), max_bytes)


def _limited(pieces: Iterator[bytes], max_bytes: int) -> bytes:
    kept: list[bytes] = []
    room = max_bytes
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            raise _too_large(max_bytes)
        kept.append(piece)
    return kept[0] if len(kept) == 1 else b"".join(kept)


def gzip_pieces(data: Buffer) -> Iterator[bytes]:
    """The members one after the other, inflated in steps.

    zlib copies whatever it leaves of its input. So it gets no more at a time than the member has taken already, and all
    copies together grow with the data, however many members there are.
    """
    view = memoryview(data)
    pos = 0
    # Nearly all data are one member.
    feed = STEP_BYTES
    while True:
        inflate = zlib.decompressobj(GZIP_WINDOW_BITS)
        source: Buffer = b""
        while True:
            if not source:
                source = view[pos : pos + feed]
                pos += len(source)
                feed = min(2 * feed, STEP_BYTES)
            piece = inflate.decompress(source, STEP_BYTES)
            if piece:
                yield piece
            if inflate.eof:
                break
            source = inflate.unconsumed_tail
            if not piece and not source and pos == len(view):
                raise CorruptRecord("gzip data is truncated")
        pos -= len(inflate.unused_data)
        feed = _GZIP_FEED_BYTES
        if len(view) - pos < _GZIP_MEMBER_BYTES_MIN or view[pos : pos + 3] != _GZIP_MEMBER_START:
            return


def _snappy(data: Buffer, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    room = max_bytes
    for block in snappy_blocks(data):
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise _too_large(max_bytes)
        piece = bytes(cramjam.snappy.decompress_raw(block))
        room -= len(piece)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def snappy_blocks(data: Buffer) -> Iterator[memoryview]:
    """The one raw block, or those of Java's frames."""
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield _checked_block(view)
        return
    pos = 0
    while len(view) - pos >= 4:
        if view[pos : pos + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            pos += len(XERIAL_HEADER)
            continue
        (size,) = unpack_from(">I", view, pos)
        pos += 4
        if size > len(view) - pos:
            raise CorruptRecord(f"snappy chunk of {size} bytes with {len(view) - pos} left")
        yield _checked_block(view[pos : pos + size])
        pos += size


def _checked_block(block: memoryview) -> memoryview:
    if not len(block):
        raise CorruptRecord("snappy block without a byte")
    return block


def check_lz4(data: Buffer) -> None:
    # A skippable frame would pass for an empty one.
    if data[: len(_LZ4_MAGIC)] != _LZ4_MAGIC:
        raise CorruptRecord("lz4 data does not start with a frame")


def _lz4(data: Buffer, max_bytes: int) -> bytes:
    check_lz4(data)
    inflate: Any = lz4.frame.LZ4FrameDecompressor()
    pieces: list[bytes] = []
    room = max_bytes
    # Four is more than lz4 usually gains, so one step does, without setting aside what a bomb might need.
    step = max(STEP_BYTES, 4 * len(data))
    source: Buffer = data
    while not inflate.eof:
        piece: bytes = inflate.decompress(source, max_length=min(step, room + 1))
        room -= len(piece)
        if room < 0:
            raise _too_large(max_bytes)
        if not piece and not inflate.eof:
            raise CorruptRecord("lz4 data is truncated")
        pieces.append(piece)
        source = b""
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _zstd(data: Buffer, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    room = max_bytes
    for start, stop, bound in zstd_frames(data):
        piece = _zstd_one(data[start:stop], bound, room, max_bytes)
        room -= len(piece)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def zstd_frames(data: Buffer) -> Iterator[tuple[int, int, int]]:
    """Where the frames begin and end, and the most that each can inflate to; skippable ones are left out."""
    pos = 0
    while pos < len(data) or not pos:
        if len(data) - pos < 8:
            raise CorruptRecord("zstd data is truncated")
        magic, size = unpack_from("<II", data, pos)
        if magic & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
            pos += 8 + size
            if pos > len(data):
                raise CorruptRecord("zstd data is truncated")
            continue
        if magic != _ZSTD_MAGIC:
            raise CorruptRecord(f"no zstd frame at byte {pos} of the data")
        stop, bound = _zstd_frame(data, pos)
        yield pos, stop, bound
        pos = stop


def _zstd_frame(data: Buffer, pos: int) -> tuple[int, int]:
    """Where the frame at `pos` ends and the most that it can inflate to, from the headers of its blocks."""
    # 18 bytes is the longest header. The checksum flag is bit 2 of the byte after the magic.
    has_checksum = data[pos + 4] & 4
    pos += zstandard.frame_header_size(data[pos : pos + 18])
    bound = last = 0
    while not last:
        if len(data) - pos < 3:
            raise CorruptRecord("zstd data is truncated")
        header = data[pos] | data[pos + 1] << 8 | data[pos + 2] << 16
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        # Kinds 0 and 1 are stored and repeated bytes, for which `size` is the inflated size; 2 is compressed.
        bound += size if kind < 2 else _ZSTD_BLOCK_BYTES_MAX
        pos += 3 + (1 if kind == 1 else size)
    stop = pos + (4 if has_checksum else 0)
    if stop > len(data):
        raise CorruptRecord("zstd data is truncated")
    return stop, bound


def check_zstd_size(frame: Buffer, bound: int) -> Any:
    """The parameters of a frame that states no more than it can hold."""
    header = zstandard.get_frame_parameters(frame)
    if header.content_size != zstandard.CONTENTSIZE_UNKNOWN and header.content_size > bound:
        raise CorruptRecord(f"zstd frame states {header.content_size} bytes and can hold {bound}")
    return header


def _zstd_one(frame: Buffer, bound: int, room: int, max_bytes: int) -> bytes:
    header = check_zstd_size(frame, bound)
    if header.content_size != zstandard.CONTENTSIZE_UNKNOWN and header.content_size > room:
        raise _too_large(max_bytes)
    pooled = header.window_size <= _ZSTD_POOLED_WINDOW_BYTES_MAX
    try:
        decompressor = _zstd_decompressors.pop() if pooled else zstandard.ZstdDecompressor()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        piece = decompressor.decompress(frame, max_output_size=min(bound, room) or 1)
    except zstandard.ZstdError as error:
        # A frame that does not state its size may be good, and only larger than this.
        raise (_too_large(max_bytes) if room < bound else error) from error
    # After an error the context is dropped, since its state is unknown.
    if pooled:
        _zstd_decompressors.append(decompressor)
    return piece


_DECODERS = {
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
