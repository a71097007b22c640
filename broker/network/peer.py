"""A connection to another broker, from the asking side: for the controller, leaders and followers.

One object is one connection. Requests are written in the order in which they are asked, without waiting for earlier
answers, and answered in that order. When the connection breaks, or an answer takes too long, it is gone for good with
all that is in flight: who still wants an answer connects anew. What was asked may have been done all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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


class Peer(asyncio.BufferedProtocol):
    """See the module's description."""

    def __init__(self, name: str, client_id: str, timeout_seconds: float, scratch: bytearray | None = None) -> None:
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._pipeline: Pipeline[asyncio.Future[Any]] = Pipeline(client_id)
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
        send = self._pipeline.send
        return await self._answer(lambda waiting: send(request, version, waiting), timeout_seconds)

    async def ask_control(self, request: ControlMessage, answer: type[_A], timeout_seconds: float | None = None) -> _A:
        """The same for a request of the control plane."""
        send = self._pipeline.send_control
        found: _A = await self._answer(lambda waiting: send(request, answer, CONTROL_VERSION, waiting), timeout_seconds)
        return found

    async def _answer(self, send: Callable[[asyncio.Future[Any]], list[Buffer]], timeout_seconds: float | None) -> Any:
        if self._transport is None:
            raise PeerGone(f"{self._name}: {self._why_gone}")
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._transport.writelines(send(waiting))
        try:
            async with asyncio.timeout(timeout_seconds or self._timeout_seconds):
                return await waiting
        except TimeoutError:
            # Answers come in order, so none of the later ones can be had either.
            self._break("no answer in time")
            raise PeerGone(f"{self._name}: no answer in time") from None

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
                waiting, answer = self._pipeline.receive(frame)
                # Nobody waits any more if the task that asked was cancelled.
                if not waiting.done():
                    waiting.set_result(answer)
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
        for waiting in self._pipeline.abandon():
            if not waiting.done():
                waiting.set_exception(PeerGone(f"{self._name}: {why}"))
