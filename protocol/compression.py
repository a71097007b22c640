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
from enum import IntEnum
from struct import unpack_from
from typing import Any

import cramjam
import lz4.frame
import zstandard

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.varint import Buffer


class Compression(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# Inflating goes in steps of at least this size, so that most batches take one step and a bomb is noticed soon.
_STEP_BYTES = 1 << 20

_GZIP_WINDOW_BITS = 31  # 15 for the largest window, 16 for the gzip header and trailer
_GZIP_MEMBER_START = b"\x1f\x8b\x08"
_GZIP_MEMBER_BYTES_MIN = 18  # header 10, trailer 8

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16  # magic 8, version 4, lowest compatible version 4

_LZ4_MAGIC = b"\x04\x22\x4d\x18"

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50  # the low four bits are free
_ZSTD_BLOCK_BYTES_MAX = 1 << 17
_ZSTD_LEVEL = 3
# A context keeps the window of the largest frame that it has seen. Java declares 2 MiB at its default level, and 8 MiB
# at most up to level 19.
_ZSTD_POOLED_WINDOW_BYTES_MAX = 8 << 20

# A zstd context costs ten times what a small batch costs and must not be shared by two threads at a time. Popping from
# and appending to a list are atomic, so these need no lock; each holds as many contexts as were ever used at once.
_zstd_decompressors: list[zstandard.ZstdDecompressor] = []
_zstd_compressors: list[zstandard.ZstdCompressor] = []


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """The data as one compressed stream; `level` is the codec's own scale, snappy has none."""
    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.GZIP:
        deflate = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
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
    if level is not None and level != _ZSTD_LEVEL:
        return zstandard.ZstdCompressor(level=level).compress(data)
    try:
        compressor = _zstd_compressors.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
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
    except (zlib.error, cramjam.DecompressionError, zstandard.ZstdError, RuntimeError) as error:
        # RuntimeError is what lz4 raises for bad frames.
        raise CorruptRecord(f"{codec.name.lower()} data is broken: {error}") from error


def _too_large(max_bytes: int) -> CorruptRecord:
    return CorruptRecord(f"records take more than {max_bytes} bytes when decompressed")


def _gzip(data: Buffer, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    room = max_bytes
    source: Buffer = data
    while True:
        inflate = zlib.decompressobj(_GZIP_WINDOW_BITS)
        while True:
            # One byte past the limit tells "full" from "too large". Zero would mean "no limit".
            piece = inflate.decompress(source, min(_STEP_BYTES, room + 1))
            room -= len(piece)
            if room < 0:
                raise _too_large(max_bytes)
            pieces.append(piece)
            if inflate.eof:
                break
            source = inflate.unconsumed_tail
            if not piece and not source:
                raise CorruptRecord("gzip data is truncated")
        source = inflate.unused_data
        if len(source) < _GZIP_MEMBER_BYTES_MIN or not source.startswith(_GZIP_MEMBER_START):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _snappy_block(view, max_bytes, max_bytes)
    pieces: list[bytes] = []
    room = max_bytes
    pos = 0
    while len(view) - pos >= 4:
        if view[pos : pos + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            pos += _XERIAL_HEADER_BYTES
            continue
        (size,) = unpack_from(">I", view, pos)
        pos += 4
        if size > len(view) - pos:
            raise CorruptRecord(f"snappy chunk of {size} bytes with {len(view) - pos} left")
        piece = _snappy_block(view[pos : pos + size], room, max_bytes)
        room -= len(piece)
        pieces.append(piece)
        pos += size
    return b"".join(pieces)


def _snappy_block(block: Buffer, room: int, max_bytes: int) -> bytes:
    if not len(block):
        raise CorruptRecord("snappy block without a byte")
    if cramjam.snappy.decompress_raw_len(block) > room:
        raise _too_large(max_bytes)
    return bytes(cramjam.snappy.decompress_raw(block))


def _lz4(data: Buffer, max_bytes: int) -> bytes:
    # A skippable frame would pass for an empty one.
    if data[: len(_LZ4_MAGIC)] != _LZ4_MAGIC:
        raise CorruptRecord("lz4 data does not start with a frame")
    inflate: Any = lz4.frame.LZ4FrameDecompressor()
    pieces: list[bytes] = []
    room = max_bytes
    # Four is more than lz4 usually gains, so one step does, without setting aside what a bomb might need.
    step = max(_STEP_BYTES, 4 * len(data))
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
    pos = 0
    while pos < len(data) or not pieces:
        if len(data) - pos < 8:
            raise CorruptRecord("zstd data is truncated")
        magic, size = unpack_from("<II", data, pos)
        if magic & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
            pos += 8 + size
            if pos > len(data):
                raise CorruptRecord("zstd data is truncated")
            pieces.append(b"")
            continue
        if magic != _ZSTD_MAGIC:
            raise CorruptRecord(f"no zstd frame at byte {pos} of the data")
        stop, bound = _zstd_frame(data, pos)
        piece = _zstd_one(data[pos:stop], bound, room, max_bytes)
        room -= len(piece)
        pieces.append(piece)
        pos = stop
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


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


def _zstd_one(frame: Buffer, bound: int, room: int, max_bytes: int) -> bytes:
    header = zstandard.get_frame_parameters(frame)
    if header.content_size != zstandard.CONTENTSIZE_UNKNOWN:
        if header.content_size > room:
            raise _too_large(max_bytes)
        if header.content_size > bound:
            raise CorruptRecord(f"zstd frame states {header.content_size} bytes and can hold {bound}")
    pooled = header.window_size <= _ZSTD_POOLED_WINDOW_BYTES_MAX
    try:
        decompressor = _zstd_decompressors.pop() if pooled else zstandard.ZstdDecompressor()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    piece = decompressor.decompress(frame, max_output_size=min(bound, room) or 1)
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
