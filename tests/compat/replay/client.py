"""A connection that says what it is told to, right or wrong, and hands back what comes.

Shares the codec with the broker, but not the connection: a defect there must not hide behind itself.
"""

import asyncio
import struct
from collections import deque
from contextlib import suppress
from typing import Final

from minikafka.protocol.apis import Api
from minikafka.protocol.headers import (
    RequestHeader,
    encode_request_header,
    response_body_position,
    response_header_is_flexible,
)
from minikafka.protocol.message import Response
from tests.compat.replay.cluster import Address

ANSWER_SECONDS_MAX: Final = 20.0
_size: Final = struct.Struct(">i")


class Closed(Exception):
    """The broker closed the connection."""


class Connection:
    """Requests out, frames in. Answers come in the order of the requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._next_id = 1
        self._reading = asyncio.create_task(self._read())
        self.is_closed = False
        self.strays: list[bytes] = []

    @classmethod
    async def open(cls, address: Address) -> "Connection":
        return cls(*await asyncio.open_connection(*address))

    async def close(self) -> None:
        self.is_closed = True
        self._reading.cancel()
        self._writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await self._reading
        with suppress(OSError):
            await self._writer.wait_closed()

    def send(self, frame: bytes) -> asyncio.Future[bytes]:
        """Send bytes that ask for one answer; the future is the answer's frame."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self.is_closed:
            answer.set_exception(Closed())
            return answer
        self._waiting.append(answer)
        self._writer.write(frame)
        return answer

    def forget(self, answer: asyncio.Future[bytes]) -> None:
        """No answer is expected any more."""
        self._waiting.remove(answer)

    def half_close(self) -> None:
        self._writer.write_eof()

    async def trickle(self, data: bytes) -> None:
        """Send one byte at a time."""
        for byte in data:
            self._writer.write(bytes([byte]))
            await self._writer.drain()
            await asyncio.sleep(0.001)

    def frame(self, api: Api, version: int, body: bytes, client_id: str | None = "oracle") -> bytes:
        header = RequestHeader(api.key, version, self._next_id, client_id)
        self._next_id += 1
        message = encode_request_header(header, api.is_flexible(version)) + body
        return _size.pack(len(message)) + message

    async def _read(self) -> None:
        try:
            while True:
                (size,) = _size.unpack(await self._reader.readexactly(_size.size))
                self._deliver(await self._reader.readexactly(size))
        except (OSError, asyncio.IncompleteReadError):
            self.is_closed = True
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_exception(Closed())
            self._waiting.clear()

    def _deliver(self, frame: bytes) -> None:
        if not self._waiting:
            self.strays.append(frame)
            return
        waiting = self._waiting.popleft()
        if not waiting.done():
            waiting.set_result(frame)


def decoded(api: Api, version: int, frame: bytes) -> Response:
    is_flexible = response_header_is_flexible(api.key, api.is_flexible(version))
    answer = api.response.decode(frame, version, response_body_position(frame, is_flexible))
    assert isinstance(answer, Response)
    return answer
