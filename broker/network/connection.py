"""One client's connection: frames in, answers out in the order of the requests.

A request is begun as soon as its frame is whole, also while earlier ones still wait for replicas or for
data; only its answer waits its turn.  Reading stops while too many requests or too many bytes are in flight,
and while the peer does not read what it is sent, so a connection has a bounded share of memory.

Whatever a peer does wrong closes its connection and nothing else.  An exception that nobody expected is
our fault: it is logged, and the connection is closed too, since its answer cannot be given.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol, cast

from minikafka.protocol.errors import DecodeError
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.varint import Buffer

log: Final = logging.getLogger(__name__)

IN_FLIGHT_REQUESTS_MAX: Final = 128
"""Beyond what any client pipelines; a peer that sends more waits until some are answered."""

Parts = list[Buffer]
Reply = Parts | Awaitable[Parts | None] | None
"""The frame of an answer, or None where none is due; at once or later."""


class ConnectionLimits(NamedTuple):
    frame_bytes_max: int
    in_flight_bytes_max: int
    write_buffer_bytes: int = 1 << 20


class Serve(Protocol):
    """What takes the requests: `dispatch.Dispatcher`."""

    def __call__(self, connection: Connection, frame: bytes | bytearray) -> Reply: ...


class _Slot:
    """The place of one answer in the order of answers."""

    __slots__ = ("is_ready", "parts", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.parts: Parts | None = None
        self.is_ready = False


class Connection(asyncio.BufferedProtocol):
    """See the module's description."""

    def __init__(
        self,
        serve: Serve,
        listener: str,
        limits: ConnectionLimits,
        scratch: bytearray,
        monotonic_ms: Callable[[], int],
        on_closed: Callable[[Connection], None],
    ) -> None:
        # Of the server.
        self._serve = serve
        self._limits = limits
        self._monotonic_ms = monotonic_ms
        self._on_closed = on_closed
        # Of the peer.
        self.listener = listener
        self.principal = "User:ANONYMOUS"
        self.peer_host = ""
        self.local_address: tuple[str, int] = ("", 0)
        # Of the stream.
        self._reader = FrameReader(limits.frame_bytes_max, scratch)
        self._transport: asyncio.Transport | None = None
        self._slots: deque[_Slot] = deque()
        self._in_flight_bytes = 0
        self._peer_reads = True
        self._is_paused = False
        self._is_draining = False
        self._waiting: set[asyncio.Task[None]] = set()
        self.last_active_ms = monotonic_ms()

    # ------------------------------------------------------------------------------- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asked of it: the transports of uvloop are like asyncio's, but no subclasses of them.
        transport = self._transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes)
        self.peer_host = _host(transport.get_extra_info("peername"))
        local = transport.get_extra_info("sockname")
        self.local_address = (_host(local), local[1] if local else 0)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active_ms = self._monotonic_ms()
        try:
            for frame in self._reader.buffer_updated(nbytes):
                self._begin(frame)
        except DecodeError as error:
            log.info("%s: closing, %s", self.peer_host, error)
            self.close()

    def eof_received(self) -> bool:
        """A peer may stop sending and still wait for answers; it is closed when they are out."""
        self._is_draining = True
        if not self._slots:
            self.close()
        return True

    def pause_writing(self) -> None:
        self._peer_reads = False
        self._regulate()

    def resume_writing(self) -> None:
        self._peer_reads = True
        self._regulate()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for task in self._waiting:
            task.cancel()
        self._slots.clear()
        self._on_closed(self)

    # --------------------------------------------------------------------------------------------- requests

    def _begin(self, frame: bytes | bytearray) -> None:
        if self._transport is None or self._is_draining:
            return
        slot = _Slot(len(frame))
        self._slots.append(slot)
        self._in_flight_bytes += slot.size
        try:
            reply = self._serve(self, frame)
        except DecodeError:
            raise
        except Exception:
            self._fail()
            return
        if reply is None or isinstance(reply, list):
            self._finish(slot, reply)
        else:
            task = asyncio.ensure_future(self._await(slot, reply))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        self._regulate()

    async def _await(self, slot: _Slot, reply: Awaitable[Parts | None]) -> None:
        try:
            self._finish(slot, await reply)
        except asyncio.CancelledError:
            raise
        except DecodeError as error:
            log.info("%s: closing, %s", self.peer_host, error)
            self.close()
        except Exception:
            self._fail()

    def _finish(self, slot: _Slot, parts: Parts | None) -> None:
        """An answer is there: write it and those behind it, as far as none before them is missing."""
        slot.parts = parts
        slot.is_ready = True
        out: Parts = []
        while self._slots and self._slots[0].is_ready:
            done = self._slots.popleft()
            self._in_flight_bytes -= done.size
            if done.parts:
                out += done.parts
        if self._transport is not None and out:
            self._transport.writelines(out)
        if self._is_draining and not self._slots:
            self.close()
        self._regulate()

    def _regulate(self) -> None:
        """Read on only while there is room for more."""
        if self._transport is None or self._transport.is_closing():
            return
        is_full = (
            not self._peer_reads
            or len(self._slots) >= IN_FLIGHT_REQUESTS_MAX
            or self._in_flight_bytes > self._limits.in_flight_bytes_max
        )
        if is_full and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        elif not is_full and self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    # ---------------------------------------------------------------------------------------------- closing

    @property
    def is_busy(self) -> bool:
        """Whether an answer is still owed."""
        return bool(self._slots)

    @property
    def is_amid_frame(self) -> bool:
        """Whether the peer has begun a request and not finished it."""
        return not self._reader.is_between_frames

    def drain(self) -> None:
        """Take no more requests; close when those in flight are answered."""
        self._is_draining = True
        if not self._slots:
            self.close()

    def close(self) -> None:
        """Write what is buffered, then close."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close without writing any more."""
        if self._transport is not None:
            self._transport.abort()

    def _fail(self) -> None:
        log.exception("%s: a request could not be served, closing its connection", self.peer_host)
        self.close()


def _host(address: Any) -> str:
    return str(address[0]) if address else ""
