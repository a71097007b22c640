"""A connection to another broker, from the asking side: for the controller, leaders and followers.

One object is one connection. Requests are written in the order in which they are asked, without waiting for earlier
answers, and answered in that order. When the connection breaks, or an answer takes too long, it is gone for good with
all that is in flight: who still wants an answer connects anew. What was asked may have been done all the same.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final, Self, TypeVar, cast

from minikafka.broker.network.net import Net
from minikafka.protocol.control_codec import CONTROL_VERSION, ControlMessage
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.message import Request
from minikafka.protocol.pipeline import Pipeline
from minikafka.protocol.varint import Buffer

_A = TypeVar("_A", bound=ControlMessage)

ANSWER_BYTES_MAX: Final = 1 << 28
"""More than any answer that one broker asks of another; follows what really comes, so it costs nothing."""


class PeerGone(Exception):
    """There is no connection to the broker, or there is none any more; what was asked may have been done."""


class Asked:
    """A request that was sent. Its answer is awaited as `answer`, and that wait can be interrupted."""

    __slots__ = ("answer", "timer")

    def __init__(self, answer: asyncio.Future[Any]) -> None:
        self.answer = answer
        self.timer: asyncio.TimerHandle | None = None

    def interrupt(self) -> None:
        """Let whoever waits go on with None; the answer itself will be in another future then."""
        interrupted = self.answer
        if not interrupted.done():
            self.answer = interrupted.get_loop().create_future()
            interrupted.set_result(None)

    def give_up(self) -> None:
        """Nobody wants the answer any more, nor to know why there is none."""
        if not self.answer.cancel() and not self.answer.cancelled():
            self.answer.exception()


class Peer(asyncio.BufferedProtocol):
    """See the module's description."""

    def __init__(self, name: str, client_id: str, timeout_seconds: float, scratch: bytearray | None = None) -> None:
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._pipeline: Pipeline[Asked] = Pipeline(client_id)
        self._reader = FrameReader(ANSWER_BYTES_MAX, scratch)
        self._transport: asyncio.Transport | None = None
        self._why_gone = "not connected yet"

    @classmethod
    async def connect(
        cls,
        net: Net,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_seconds: float,
        scratch: bytearray | None = None,
    ) -> Self:
        """Dial a broker; PeerGone if it does not answer in time. Peers may share a scratch buffer to read into."""
        name = f"{host}:{port}"
        try:
            async with asyncio.timeout(timeout_seconds):
                return await net.connect(partial(cls, name, client_id, timeout_seconds, scratch), host, port)
        except (OSError, TimeoutError) as error:
            raise PeerGone(f"{name}: {str(error) or 'no answer'}") from None

    # ------------------------------------------------------------------------------------------------ asking

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    async def ask(self, request: Request, version: int, timeout_seconds: float | None = None) -> Any:
        """The answer to a Kafka request, decoded; PeerGone if there is none in time."""
        return await self.send(request, version, timeout_seconds).answer

    async def ask_control(self, request: ControlMessage, answer: type[_A], timeout_seconds: float | None = None) -> _A:
        """The same for a request of the control plane."""
        asked = self._new()
        self._write(asked, self._pipeline.send_control(request, answer, CONTROL_VERSION, asked), timeout_seconds)
        found: _A = await asked.answer
        return found

    def send(self, request: Request, version: int, timeout_seconds: float | None = None) -> Asked:
        """Send a Kafka request at once; its answer can be waited for later."""
        asked = self._new()
        self._write(asked, self._pipeline.send(request, version, asked), timeout_seconds)
        return asked

    def _new(self) -> Asked:
        if self._transport is None:
            raise PeerGone(f"{self._name}: {self._why_gone}")
        return Asked(asyncio.get_running_loop().create_future())

    def _write(self, asked: Asked, parts: list[Buffer], timeout_seconds: float | None) -> None:
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        asked.timer = loop.call_later(timeout_seconds or self._timeout_seconds, self._expire, asked)
        self._transport.writelines(parts)

    def _expire(self, asked: Asked) -> None:
        if not asked.answer.done():
            # Answers come in order, so none of the later ones can be had either.
            self._break("no answer in time")

    def close(self) -> None:
        """Give up the connection, and with it what is in flight."""
        self._break("closed")

    # --------------------------------------------------------------------------------- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop are like asyncio's, but no subclasses of them.
        self._transport = transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._reader.buffer_updated(nbytes):
                asked, answer = self._pipeline.receive(frame)
                assert asked.timer is not None
                asked.timer.cancel()
                # Nobody waits any more if the task that asked was cancelled.
                if not asked.answer.done():
                    asked.answer.set_result(answer)
        except DecodeError as error:
            self._break(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._break(str(exc or "the broker closed the connection"))

    def _break(self, why: str) -> None:
        transport, self._transport = self._transport, None
        if transport is None:
            return
        self._why_gone = why
        transport.abort()
        for asked in self._pipeline.abandon():
            assert asked.timer is not None
            asked.timer.cancel()
            if not asked.answer.done():
                asked.answer.set_exception(PeerGone(f"{self._name}: {why}"))
