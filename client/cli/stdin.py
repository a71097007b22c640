"""Reading input while an event loop runs: in pieces, by a thread of its own.

The thread is a daemon that reads the descriptor itself: one that waits in a buffered `stdin` for a line which never
comes would keep the interpreter from ending. It reads ahead by a few pieces at most.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import BinaryIO, Final

from minikafka.client.errors import RecordTooLarge

_PIECE_BYTES: Final = 1 << 17
_PIECES_AHEAD: Final = 4


async def read_pieces(source: BinaryIO) -> AsyncIterator[bytes]:
    """What there is to read, as it comes, until the end."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(_PIECES_AHEAD)
    descriptor = source.fileno()

    def read() -> None:
        piece: bytes | OSError = b"first"
        while piece and not isinstance(piece, OSError):
            room.acquire()
            try:
                piece = os.read(descriptor, _PIECE_BYTES)
            except OSError as error:
                piece = error
            try:
                loop.call_soon_threadsafe(pieces.put_nowait, piece)
            except RuntimeError:
                # The loop is closed: nobody wants it any more.
                return

    threading.Thread(target=read, name="read input", daemon=True).start()
    while True:
        piece = await pieces.get()
        room.release()
        if isinstance(piece, OSError):
            raise piece
        if not piece:
            return
        yield piece


async def read_lines(source: BinaryIO, delimiter: bytes, max_bytes: int) -> AsyncIterator[list[bytes]]:
    """The same cut into lines, without their ends; some at a time. The last one need not have an end.

    RecordTooLarge for a line above `max_bytes`, before all of it is in memory."""
    parts: list[bytes] = []
    size, seam = 0, b""
    async for piece in read_pieces(source):
        parts.append(piece)
        size += len(piece)
        # A delimiter may lie across pieces. They are joined when there is one.
        seam += piece
        if delimiter in seam:
            *lines, rest = b"".join(parts).split(delimiter)
            yield lines
            parts, size, seam = [rest], len(rest), rest
        seam = seam[len(seam) - min(len(seam), len(delimiter) - 1) :]
        if size > max_bytes:
            raise RecordTooLarge(f"a line has more than {max_bytes} bytes, which is max_request_size")
    if rest := b"".join(parts):
        yield [rest]
