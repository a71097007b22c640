"""One connection to one broker, from the first byte to the last.

`Connection.open` connects, encrypts, agrees on versions and logs in; after that requests can be sent. They are written
in the order in which they are asked, without waiting for earlier answers, and answered in that order. When the
connection breaks, or an answer takes too long, it is gone for good with all that is in flight: every waiting request
gets a ConnectionFailed (the one that took too long a RequestTimeout), and may have been done all the same. Who wants to
go on opens another one; `Cluster` does that.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from typing import Any, Final, Self, cast

from minikafka.client.config import Address, ClientConfig
from minikafka.client.errors import (
    AuthenticationFailed,
    ClientClosed,
    ClientError,
    ConnectionFailed,
    RequestTimeout,
    WrongListener,
)
from minikafka.client.versions import Features, Versions
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.message import Request
from minikafka.protocol.pipeline import Pipeline

ANSWER_BYTES_MAX: Final = 1 << 28
"""More than any answer that is asked for, and less than the first four bytes of a TLS or HTTP answer read as a size, so
that those are noticed. Memory follows what really comes."""

_WRITE_BUFFER_BYTES: Final = 1 << 20
"""Above this the writer of large requests waits until the socket has taken some."""

_CLOSE_S: Final = 1.0
"""How long the last bytes may take to leave; a broker that does not read is not waited for."""


class _InFlight:
    __slots__ = ("answer", "timer")

    def __init__(self, answer: asyncio.Future[Any], timer: asyncio.TimerHandle) -> None:
        self.answer = answer
        self.timer = timer


class Connection(asyncio.BufferedProtocol):
    """See the module's description. Made by `open` of `minikafka.client.handshake`."""

    def __init__(self, address: Address, config: ClientConfig, scratch: bytearray | None = None) -> None:
        self.address = address
        self.versions = Versions()
        self.features = Features()
        self.expires_at: float | None = None
        """When, by the loop's clock, the login runs out; no request should be started after it."""
        self.on_lost: Callable[[], None] | None = None
        """Called once when the connection is gone, whoever ended it."""
        self._timeout_ms = config.request_timeout_ms
        self._idle_s = config.connections_max_idle_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._pipeline: Pipeline[_InFlight] = Pipeline(config.client_id)
        self._reader = FrameReader(ANSWER_BYTES_MAX, scratch)
        self._transport: asyncio.Transport | None = None
        self._why_gone: ClientError = ConnectionFailed(f"{address}: not connected")
        self._answers = 0
        self._can_write = asyncio.Event()
        self._is_lost = asyncio.Event()
        self._used_at = self._loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None

    # ---------------------------------------------------------------------------------------------- asking

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self._loop.time() >= self.expires_at

    @property
    def can_write(self) -> bool:
        """Whether the socket keeps up; `send_nowait` works all the same, and takes memory."""
        return self._can_write.is_set()

    @property
    def in_flight(self) -> int:
        return len(self._pipeline)

    async def request(
        self, message: Request, *, min_version: int = 0, max_version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """The answer, decoded: a ProduceResponse for a ProduceRequest and so on.

        It is sent in the highest version that the broker, this side and the caller accept. `timeout_ms` takes the
        place of `request_timeout_ms`, for requests that the broker may hold back. Cancelling leaves the connection in
        use; the answer is dropped when it comes.
        """
        if not self._can_write.is_set():
            await self.wait_writable()
        return await self.send_nowait(message, min_version=min_version, max_version=max_version, timeout_ms=timeout_ms)

    def send_nowait(
        self, message: Request, *, min_version: int = 0, max_version: int | None = None, timeout_ms: int | None = None
    ) -> asyncio.Future[Any]:
        """The same without waiting: the request is on its way when this returns, behind all earlier ones."""
        transport = self._require_transport()
        version = self.versions.choose(type(message), min_version, max_version)
        waiting = _InFlight(self._loop.create_future(), cast(asyncio.TimerHandle, None))
        parts = self._pipeline.send(message, version, waiting)
        delay_s = (self._timeout_ms if timeout_ms is None else timeout_ms) / 1000
        waiting.timer = self._loop.call_later(delay_s, self._expire, waiting)
        self._used_at = self._loop.time()
        transport.writelines(parts)
        return waiting.answer

    def send_unanswered(self, message: Request, *, min_version: int = 0, max_version: int | None = None) -> None:
        """Send a request that gets no answer: Produce with acks=0."""
        transport = self._require_transport()
        version = self.versions.choose(type(message), min_version, max_version)
        self._used_at = self._loop.time()
        transport.writelines(self._pipeline.send_unanswered(message, version))

    async def wait_writable(self) -> None:
        """Wait until the socket has taken most of what was written; raises if the connection breaks."""
        await self._can_write.wait()
        self._require_transport()

    def close(self) -> None:
        """End the connection; what was written still leaves, what is in flight gets a ClientClosed."""
        self._end(ClientClosed("the connection was closed"), flush=True)

    def break_off(self, error: ClientError) -> None:
        """End the connection at once for a reason that whoever waits is told."""
        self._end(error)

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, after `close`; at most a second."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._is_lost.wait()
        except TimeoutError:
            if self._closing is not None:
                self._closing.abort()
            await self._is_lost.wait()

    def _require_transport(self) -> asyncio.Transport:
        if self._transport is None:
            raise self._copy_of(self._why_gone)
        return self._transport

    # --------------------------------------------------------------------------------- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop are like asyncio's, but no subclasses of them.
        self._transport = self._closing = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_WRITE_BUFFER_BYTES)
        self._can_write.set()
        if self._idle_s > 0:
            self._idle_timer = self._loop.call_later(self._idle_s, self._look_if_idle)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._reader.buffer_updated(nbytes):
                waiting, answer = self._pipeline.receive(frame)
                self._answers += 1
                waiting.timer.cancel()
                # Nobody waits any more if the task that asked was cancelled.
                if not waiting.answer.done():
                    waiting.answer.set_result(answer)
        except DecodeError as error:
            kind = ConnectionFailed if self._answers else WrongListener
            self._end(kind(f"{self.address}: what came is no answer of a Kafka broker ({error})"))

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        why = str(exc) if exc else "the broker closed the connection"
        # Brokers hang up on whoever speaks without logging in, and on bytes that make no sense to them.
        hint = "; is it another kind of listener?" if self._answers < 2 and len(self._pipeline) else ""
        kind = WrongListener if hint or isinstance(exc, ssl.SSLError) else ConnectionFailed
        self._end(kind(f"{self.address}: {why}{hint}"))
        self._is_lost.set()

    # ------------------------------------------------------------------------------------------- its own end

    _closing: asyncio.Transport | None = None

    def _end(self, error: ClientError, flush: bool = False) -> None:
        transport, self._transport = self._transport, None
        if transport is None:
            return
        self._why_gone = error
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if flush:
            transport.close()
        else:
            transport.abort()
        self._can_write.set()
        for waiting in self._pipeline.abandon():
            waiting.timer.cancel()
            self._fail(waiting, self._copy_of(error))
        if self.on_lost is not None:
            self.on_lost()

    def _expire(self, waiting: _InFlight) -> None:
        self._fail(waiting, RequestTimeout(f"{self.address}: no answer in time"))
        # Answers come in order, so none of the later ones can be had either.
        self._end(ConnectionFailed(f"{self.address}: an earlier request was not answered in time"))

    @staticmethod
    def _fail(waiting: _InFlight, error: ClientError) -> None:
        if not waiting.answer.done():
            waiting.answer.set_exception(error)
            # Counts as retrieved: a caller that was cancelled does not look any more, and asyncio would log that.
            waiting.answer.exception()

    def _look_if_idle(self) -> None:
        idle_s = self._loop.time() - self._used_at
        if idle_s >= self._idle_s and not len(self._pipeline):
            self._end(ConnectionFailed(f"{self.address}: closed after being idle"), flush=True)
            return
        self._idle_timer = self._loop.call_later(max(self._idle_s - idle_s, 0.1), self._look_if_idle)

    @staticmethod
    def _copy_of(error: ClientError) -> ClientError:
        # Each raise adds to the traceback of an exception, so one that is raised in many places must not be shared.
        return type(error)(*error.args)

    @classmethod
    async def dial(
        cls, address: Address, config: ClientConfig, tls: ssl.SSLContext | None, scratch: bytearray | None
    ) -> Self:
        """A connection as the transport has it: no versions agreed on, nobody logged in."""
        loop = asyncio.get_running_loop()
        host = address.host if tls is not None else None
        try:
            _, connection = await loop.create_connection(
                lambda: cls(address, config, scratch), address.host, address.port, ssl=tls, server_hostname=host
            )
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailed(f"{address}: the broker's certificate: {error.verify_message}") from None
        except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError) as error:
            # Until here nothing was sent but TLS.
            why = str(error) or "broken off; is it a TLS listener?"
            raise WrongListener(f"{address}: no TLS connection: {why}") from None
        except OSError as error:
            # Numbers below zero are of the name service, and not of the system.
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
            raise ConnectionFailed(f"{address}: {why}") from None
        return connection
