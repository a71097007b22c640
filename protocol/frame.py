"""Frames: a size of four bytes, then that many bytes of header and body.

`FrameReader` is made for `asyncio.BufferedProtocol` and for thousands of idle connections.  Bytes
arrive in a scratch buffer that readers may share, since a read and its handling are never apart;
small frames are copied out of it, so that each can be changed in place.  A frame that is longer than
what arrived gets a buffer of its own, into which the rest is read without a further copy.  An idle
connection so owns no buffer at all.

The size is the peer's claim: memory follows the bytes that really came, and is at most four times as much.
"""

import struct
from collections.abc import Iterable
from typing import Final

from minikafka.protocol.errors import DecodeError
from minikafka.protocol.uncleared import uncleared
from minikafka.protocol.varint import Buffer

SIZE_BYTES: Final = 4
SCRATCH_BYTES: Final = 1 << 16
"""The default read size: a Linux socket rarely has more than this at once on a loopback link."""

_ANNOUNCED_BYTES: Final = 1 << 16
"""What a frame gets on its announcement alone; from there its buffer grows with what has come."""

_GROWTH: Final = 4
"""So many times what has come: a megabyte that arrives as the usual quarter needs no second buffer."""

_size: Final = struct.Struct(">i")
_pack_size_into: Final = _size.pack_into
_unpack_size: Final = _size.unpack_from
_PLACEHOLDER: Final = bytes(SIZE_BYTES)


class FrameReader:
    """Bytes in, whole frames out; sizes outside 0..`frame_bytes_max` are a DecodeError."""

    def __init__(self, frame_bytes_max: int, scratch: bytearray | None = None) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._scratch = memoryview(bytearray(SCRATCH_BYTES) if scratch is None else scratch)
        self._head = b""  # the first bytes of a size that did not arrive whole
        self._frame: bytearray | None = None  # a frame in the making
        self._frame_bytes = 0  # its announced size
        self._filled = 0  # how much of it has come

    @property
    def is_between_frames(self) -> bool:
        return self._frame is None and not self._head

    @property
    def held_bytes(self) -> int:
        """What has come of a frame that is not whole yet."""
        return 0 if self._frame is None else self._filled

    def get_buffer(self) -> memoryview:
        """Where the next bytes should be read into."""
        if self._frame is None:
            return self._scratch
        if self._filled == len(self._frame):
            grown = uncleared(min(self._frame_bytes, _GROWTH * self._filled))
            grown[: self._filled] = self._frame
            self._frame = grown
        return memoryview(self._frame)[self._filled :]

    def buffer_updated(self, count: int) -> list[bytes | bytearray]:
        """`count` bytes were read into the buffer; returns the frames that are now whole."""
        if self._frame is None:
            return self._split(self._scratch[:count])
        self._filled += count
        if self._filled < self._frame_bytes:
            return []
        whole, self._frame = self._frame, None
        return [whole]

    def receive_data(self, data: Buffer) -> list[bytes | bytearray]:
        """The same for bytes that are already somewhere."""
        frames: list[bytes | bytearray] = []
        view = memoryview(data)
        while view:
            buffer = self.get_buffer()
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            del buffer  # a frame cannot grow while it is being viewed
            frames += self.buffer_updated(count)
            view = view[count:]
        return frames

    def _split(self, arrived: memoryview) -> list[bytes | bytearray]:
        data = memoryview(self._head + bytes(arrived)) if self._head else arrived
        frames: list[bytes | bytearray] = []
        pos, end = 0, len(data)
        while end - pos >= SIZE_BYTES:
            (size,) = _unpack_size(data, pos)
            if not 0 <= size <= self.frame_bytes_max:
                raise DecodeError(f"frame of {size} bytes, at most {self.frame_bytes_max} are accepted")
            start = pos + SIZE_BYTES
            pos = start + size
            if pos > end:
                self._begin(size, data[start:])
                self._head = b""
                return frames
            frames.append(bytearray(data[start:pos]))
            if pos == end:
                break
        self._head = bytes(data[pos:]) if pos < end else b""
        return frames

    def _begin(self, size: int, first: memoryview) -> None:
        self._frame = uncleared(min(size, max(_GROWTH * len(first), _ANNOUNCED_BYTES)))
        self._frame[: len(first)] = first
        self._frame_bytes = size
        self._filled = len(first)


def start_frame(header: bytes) -> bytearray:
    """A frame to which a message can be encoded: room for the size, then the header."""
    return bytearray(_PLACEHOLDER + header)


def finish_frame(parts: list[Buffer]) -> list[Buffer]:
    """Put the size of all parts into the room left for it in the first."""
    first = parts[0]
    assert isinstance(first, bytearray)
    size = len(first) if len(parts) == 1 else total_bytes(parts)
    _pack_size_into(first, 0, size - SIZE_BYTES)
    return parts


def total_bytes(parts: Iterable[Buffer]) -> int:
    return sum(map(len, parts))
