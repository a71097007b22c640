"""The five codecs: what others write is read, what we write others read, and bad input costs little."""

import os
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from types import ModuleType

import aiokafka.codec
import kafka.codec
import lz4.frame
import pytest
import zstandard
from cramjam import snappy
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.compression import Compression, compress, decompress
from minikafka.protocol.errors import CorruptRecord

GZIP, SNAPPY, LZ4, ZSTD = CODECS = [codec for codec in Compression if codec is not Compression.NONE]
LEVELS: dict[Compression, list[int]] = {GZIP: [1, 9], SNAPPY: [], LZ4: [1, 9, 17], ZSTD: [-5, 1, 19]}

STARTS: dict[Compression, bytes] = {
    GZIP: b"\x1f\x8b\x08",
    SNAPPY: b"\x82SNAPPY\x00",
    LZ4: b"\x04\x22\x4d\x18",
    ZSTD: b"\x28\xb5\x2f\xfd",
}

# kafka-python does snappy with python-snappy, which we do not need.
RIVALS = [
    (rival, codec)
    for rival in (kafka.codec, aiokafka.codec)
    for codec in CODECS
    if getattr(rival, f"has_{codec.name.lower()}")()
]

TEXT = b"hello world " * 20
MIB = 1 << 20

SAMPLES = [b"", b"a", TEXT, bytes(300_000), os.urandom(300_000), (b"%07d" % 1234567) * 100_000]


def xerial(*chunks: bytes) -> bytes:
    """Snappy blocks in the frame that Java writes."""
    frame = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for chunk in chunks:
        block = bytes(snappy.compress_raw(chunk))
        frame += struct.pack(">i", len(block)) + block
    return frame


def lz4_frame(data: bytes, **options: object) -> bytes:
    frame: bytes = lz4.frame.compress(data, **{"block_linked": False, **options})
    return frame


SKIPPABLE = struct.pack("<II", 0x184D2A55, 4) + b"skip"
GZIPPED, ZSTD_FRAME = compress(GZIP, TEXT), compress(ZSTD, TEXT)
ZSTD_NO_SIZE = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
ZSTD_CHECKED = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
RAW = bytes(snappy.compress_raw(TEXT))

# Read by the Java client of Kafka 3.9.1 as here; None for what it refuses.
AS_JAVA = {
    "gzip": (GZIP, GZIPPED, TEXT),
    "gzip, two members": (GZIP, GZIPPED * 2, TEXT * 2),
    "gzip, then a byte": (GZIP, GZIPPED + b"x", TEXT),
    "gzip, then garbage": (GZIP, GZIPPED + b"garbage garbage garbage", TEXT),
    "gzip, then no member": (GZIP, GZIPPED + b"\x1f\x8b\x07", TEXT),
    "gzip, then half a member": (GZIP, GZIPPED + GZIPPED[:-5], None),
    "gzip, bad checksum": (GZIP, GZIPPED[:-8] + bytes(8), None),
    "gzip, only zlib": (GZIP, zlib.compress(TEXT), None),
    "gzip, nothing": (GZIP, b"", None),
    "snappy": (SNAPPY, RAW, TEXT),
    "snappy of nothing": (SNAPPY, bytes(snappy.compress_raw(b"")), b""),
    "snappy, then garbage": (SNAPPY, RAW + b"zz", None),
    "snappy, stream format": (SNAPPY, bytes(snappy.compress(TEXT)), None),
    "snappy, nothing": (SNAPPY, b"", None),
    "xerial": (SNAPPY, xerial(TEXT), TEXT),
    "xerial, two chunks": (SNAPPY, xerial(TEXT, b"more"), TEXT + b"more"),
    "xerial, two frames": (SNAPPY, xerial(TEXT) * 2, TEXT * 2),
    "xerial, empty": (SNAPPY, xerial(), b""),
    "xerial, chunk of nothing": (SNAPPY, xerial(b""), b""),
    "xerial, then two bytes": (SNAPPY, xerial(TEXT) + b"zz", TEXT),
    "xerial, then garbage": (SNAPPY, xerial(TEXT) + b"zzzzzz", None),
    "xerial, chunk of no bytes": (SNAPPY, xerial(TEXT) + bytes(4), None),
    "xerial, negative chunk": (SNAPPY, xerial(TEXT) + struct.pack(">i", -5) + b"abcd", None),
    "xerial, truncated": (SNAPPY, xerial(TEXT)[:-2], None),
    "lz4": (LZ4, lz4_frame(TEXT), TEXT),
    "lz4, all options": (
        LZ4,
        lz4_frame(TEXT * 9000, store_size=True, content_checksum=True, block_checksum=True),
        TEXT * 9000,
    ),
    "lz4, large blocks": (LZ4, lz4_frame(TEXT * 9000, block_size=lz4.frame.BLOCKSIZE_MAX4MB), TEXT * 9000),
    "lz4, two frames": (LZ4, lz4_frame(TEXT) * 2, TEXT),
    "lz4, then garbage": (LZ4, lz4_frame(TEXT) + b"garbage", TEXT),
    "lz4, no end mark": (LZ4, lz4_frame(TEXT)[:-4], None),
    "lz4, skippable frame": (LZ4, SKIPPABLE + lz4_frame(TEXT), None),
    "lz4, bad header checksum": (LZ4, lz4_frame(TEXT)[:6] + b"\x00" + lz4_frame(TEXT)[7:], None),
    "lz4, nothing": (LZ4, b"", None),
    "zstd": (ZSTD, ZSTD_FRAME, TEXT),
    "zstd, size not stated": (ZSTD, ZSTD_NO_SIZE, TEXT),
    "zstd, two frames": (ZSTD, ZSTD_FRAME + ZSTD_NO_SIZE, TEXT * 2),
    "zstd, skippable frame": (ZSTD, SKIPPABLE + ZSTD_FRAME + SKIPPABLE, TEXT),
    "zstd, checksum": (ZSTD, ZSTD_CHECKED, TEXT),
    "zstd, bad checksum": (ZSTD, ZSTD_CHECKED[:-1] + bytes([ZSTD_CHECKED[-1] ^ 1]), None),
    "zstd, then a byte": (ZSTD, ZSTD_FRAME + b"g", None),
    "zstd, then garbage": (ZSTD, ZSTD_FRAME + b"garbage garbage", None),
}

# Where we differ, on purpose: we read linked blocks and check the content's checksum, Java does neither; it takes
# nothing, and a broken frame after a good one, for the end of zstd data.
NOT_AS_JAVA = {
    "lz4, linked blocks": (LZ4, lz4_frame(TEXT * 9000, block_linked=True), TEXT * 9000),
    "lz4, bad content checksum": (LZ4, lz4_frame(TEXT, content_checksum=True)[:-4] + bytes(4), None),
    "zstd, then half a frame": (ZSTD, ZSTD_FRAME + ZSTD_FRAME[:-3], None),
    "zstd, nothing": (ZSTD, b"", None),
}


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_round_trip(codec: Compression, data: bytes) -> None:
    for level in [None, *LEVELS.get(codec, [])]:
        compressed = compress(codec, memoryview(data), level)
        assert decompress(codec, compressed, len(data)) == data
        assert decompress(codec, memoryview(bytearray(compressed)), len(data)) == data


def test_rivals_are_there() -> None:
    assert len(RIVALS) >= 7


@pytest.mark.parametrize(("rival", "codec"), RIVALS, ids=lambda part: getattr(part, "__name__", None))
@pytest.mark.parametrize("data", SAMPLES[1:], ids=len)
def test_others_read_ours_and_we_theirs(rival: ModuleType, codec: Compression, data: bytes) -> None:
    encode, decode = (getattr(rival, f"{codec.name.lower()}_{verb}") for verb in ("encode", "decode"))
    assert bytes(decode(compress(codec, data))) == data
    assert decompress(codec, bytes(encode(data)), len(data)) == data


@pytest.mark.parametrize(
    ("codec", "data", "expected"), [*AS_JAVA.values(), *NOT_AS_JAVA.values()], ids=[*AS_JAVA, *NOT_AS_JAVA]
)
def test_unusual_streams(codec: Compression, data: bytes, expected: bytes | None) -> None:
    if expected is None:
        with pytest.raises(CorruptRecord):
            decompress(codec, data, MIB)
    else:
        assert decompress(codec, data, MIB * 4) == expected


def test_lz4_frames_are_what_java_reads() -> None:
    # Version 1, independent blocks, no checksums, no content size; blocks of 64 KB.
    assert compress(LZ4, bytes(200_000))[:6] == b"\x04\x22\x4d\x18\x60\x40"


@pytest.mark.parametrize("codec", Compression)
def test_one_byte_more_than_allowed(codec: Compression) -> None:
    for size in (1, 1000, 200_000):
        compressed = compress(codec, bytes(size))
        with pytest.raises(CorruptRecord):
            decompress(codec, compressed, size - 1)


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_truncated_anywhere(codec: Compression) -> None:
    compressed = compress(codec, TEXT + os.urandom(100))
    for size in range(len(compressed)):
        with pytest.raises(CorruptRecord):
            decompress(codec, compressed[:size], MIB)


@settings(max_examples=300)
@given(st.sampled_from(CODECS), st.data())
def test_changed_anywhere(codec: Compression, data: st.DataObject) -> None:
    damaged = bytearray(xerial(TEXT, TEXT) if codec is SNAPPY and data.draw(st.booleans()) else compress(codec, TEXT))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CorruptRecord):
        assert len(decompress(codec, damaged, 10_000)) <= 10_000


@settings(max_examples=300)
@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_anything(codec: Compression, data: bytes) -> None:
    for attempt in (data, STARTS[codec] + data):
        with suppress(CorruptRecord):
            assert len(decompress(codec, attempt, 10_000)) <= 10_000


def zstd_bomb(blocks: int, window_log: int) -> bytes:
    """A frame of 128 KiB of zeros for every 4 bytes, with a window as large as it likes to say."""
    repeated = (1 << 17) << 3 | 1 << 1
    header = struct.pack("<IBB", 0xFD2FB528, 0, window_log - 10 << 3)
    return (
        header
        + (repeated.to_bytes(3, "little") + b"\x00") * (blocks - 1)
        + (repeated | 1).to_bytes(3, "little")
        + b"\x00"
    )


def lz4_size_lie() -> bytes:
    """A frame that says to hold a TiB."""
    return bytes(lz4.frame.LZ4FrameCompressor(block_linked=False).begin(source_size=1 << 40)) + lz4_frame(TEXT)[7:]


# Each inflates to 128 MiB, or says so.
BOMBS = {
    "gzip": (GZIP, compress(GZIP, bytes(128 * MIB), 1)),
    "gzip of many members": (GZIP, compress(GZIP, bytes(MIB)) * 128),
    "snappy": (SNAPPY, bytes(snappy.compress_raw(bytes(128 * MIB)))),
    "snappy, size only": (SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00a" * 10),
    "xerial": (SNAPPY, xerial(*[bytes(MIB)] * 128)),
    "lz4": (LZ4, lz4_frame(bytes(128 * MIB))),
    "lz4, large blocks": (LZ4, lz4_frame(bytes(128 * MIB), block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    "lz4, size only": (LZ4, lz4_size_lie()),
    "zstd": (ZSTD, zstd_bomb(1024, 21)),
    "zstd, large window": (ZSTD, zstd_bomb(1024, 27)),
    "zstd, size stated": (ZSTD, compress(ZSTD, bytes(128 * MIB))),
    "zstd, size only": (ZSTD, b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 8 * MIB) + b"\x01\x00\x00"),
}

# Says by how much the memory in use grew at its worst, in another process, since peaks never go down.
MEASURE = """
import resource, sys
from minikafka.protocol.compression import Compression, decompress
from minikafka.protocol.errors import CorruptRecord
codec, limit, data = Compression(int(sys.argv[1])), int(sys.argv[2]), sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    result = len(decompress(codec, data, limit))
except CorruptRecord:
    result = -1
print(result, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def measure(codec: Compression, data: bytes, limit: int) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(codec.value), str(limit)], input=data, stdout=subprocess.PIPE, check=True
    )
    result, grown = done.stdout.split()
    return int(result), int(grown)


@pytest.mark.parametrize(("codec", "bomb"), BOMBS.values(), ids=[*BOMBS])
def test_bombs(codec: Compression, bomb: bytes) -> None:
    limit = 16 * MIB
    result, grown = measure(codec, bomb, limit)
    assert result == -1
    assert grown < limit + 12 * MIB


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_memory_for_good_input(codec: Compression) -> None:
    size = 32 * MIB
    result, grown = measure(codec, compress(codec, bytes(size)), size)
    assert result == size
    assert grown < 2 * size + 12 * MIB
