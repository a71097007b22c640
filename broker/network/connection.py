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
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol, cast

from minikafka.protocol.errors import DecodeError
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.varint import Buffer

log: Final = logging.getLogger(__name__)

IN_FLIGHT_REQUESTS_MAX: Final = 128
"""Beyond what any client pipelines; a peer that sends more waits until some are answered."""

_SMALL_BYTES: Final = 4096
"""Answers up to this size may wait for those to other requests of the same read, and leave with them."""

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


class Shortcut(Protocol):
    """What may answer a request that is like an earlier one of its connection, undecoded; None if it does not."""

    def __call__(self, frame: bytearray) -> Reply: ...


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
        on_closed: Callable[[Connection], None],
    ) -> None:
        # Of the server.
        self._serve = serve
        self._limits = limits
        self._on_closed = on_closed
        # For the server: whether anything has come since it looked last, and since when nothing has.
        self.has_news = True
        self.silent_since_ms = 0
        self._unsent_seen = 0
        self.number = 0
        """Later connections have higher ones."""
        # Of the peer.
        self.listener = listener
        self.principal = "User:ANONYMOUS"
        self.peer_host = ""
        self.local_address: tuple[str, int] = ("", 0)
        self.shortcut: Shortcut | None = None
        # Of the stream.
        self._reader = FrameReader(limits.frame_bytes_max, scratch)
        self._transport: asyncio.Transport | None = None
        self._backlog: deque[bytes | bytearray] = deque()
        self._slots: deque[_Slot] = deque()
        self._out: Parts = []
        self._in_flight_bytes = 0
        self._peer_reads = True
        self._is_paused = False
        self._takes_requests = True
        # Nothing more will come: closed as soon as nothing is owed.
        self._is_ending = False
        self._waiting: dict[asyncio.Task[None], None] = {}

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
        self.has_news = True
        try:
            frames = self._reader.buffer_updated(nbytes)
        except DecodeError as error:
            self._refuse(error)
            return
        if self._backlog:
            self._backlog += frames
        elif len(frames) == 1:
            self._begin(frames[0])
        else:
            self._begin_all(frames)
        if self._out:
            self._write()

    def eof_received(self) -> bool:
        """A peer may stop sending and still wait for answers; it is closed when they are out."""
        self._is_ending = True
        if not self.is_busy:
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
        self._takes_requests = False
        self.shortcut = None
        self._backlog.clear()
        # Soon rather than now: one that has not begun would leave what it was to wait for behind.
        loop = asyncio.get_running_loop()
        for task in self._waiting:
            loop.call_soon(task.cancel)
        self._slots.clear()
        self._on_closed(self)

    # --------------------------------------------------------------------------------------------- requests

    def _begin_all(self, frames: Iterable[bytes | bytearray]) -> None:
        """Begin requests as long as there is room for more; the others wait for that."""
        rest = iter(frames)
        for frame in rest:
            self._begin(frame)
            if self._is_paused:
                self._backlog.extend(rest)

    def _begin(self, frame: bytes | bytearray) -> None:
        if not self._takes_requests:
            return
        try:
            reply = self._serve(self, frame)
        except DecodeError as error:
            self._refuse(error)
            return
        except Exception:
            self._fail()
            return
        if type(reply) is list and not self._slots:
            # Nothing else is owed, so it is its turn. Small answers to one read leave together.
            self._out += reply
            if len(reply) > 1 or len(reply[0]) > _SMALL_BYTES:
                self._write()
        elif reply is not None or self._slots:
            self._enqueue(len(frame), reply)

    def _enqueue(self, size: int, reply: Reply) -> None:
        slot = _Slot(size)
        self._slots.append(slot)
        self._in_flight_bytes += size
        if reply is None or isinstance(reply, list):
            self._finish(slot, reply)
        else:
            task = asyncio.ensure_future(self._await(slot, reply))
            self._waiting[task] = None
            task.add_done_callback(self._waiting.pop)
        self._regulate()

    async def _await(self, slot: _Slot, reply: Awaitable[Parts | None]) -> None:
        try:
            self._finish(slot, await reply)
            self._write()
        except asyncio.CancelledError:
            raise
        except DecodeError as error:
            self._refuse(error)
        except Exception:
            self._fail()

    def _finish(self, slot: _Slot, parts: Parts | None) -> None:
        """An answer is there: it and those behind it can be written, as far as none before them is missing."""
        slot.parts = parts
        slot.is_ready = True
        slots = self._slots
        while slots and slots[0].is_ready:
            done = slots.popleft()
            self._in_flight_bytes -= done.size
            if done.parts:
                self._out += done.parts

    def _write(self) -> None:
        """Hand over what is to be written, and see what that makes possible."""
        out, self._out = self._out, []
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if out:
            transport.writelines(out)
        if self._is_paused:
            self._regulate()
        if self._is_ending and not self.is_busy:
            self.close()

    def _regulate(self) -> None:
        """Read on only while there is room for more."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        is_full = (
            not self._peer_reads
            or len(self._slots) >= IN_FLIGHT_REQUESTS_MAX
            or self._in_flight_bytes > self._limits.in_flight_bytes_max
        )
        if is_full and not self._is_paused:
            self._is_paused = True
            transport.pause_reading()
        elif not is_full and self._is_paused:
            self._is_paused = False
            frames, self._backlog = self._backlog, deque()
            self._begin_all(frames)
            if not self._is_paused:
                transport.resume_reading()
            if self._out:
                self._write()

    # ---------------------------------------------------------------------------------------------- closing

    @property
    def is_busy(self) -> bool:
        """Whether an answer is still owed."""
        return bool(self._slots or self._backlog)

    def is_alive(self) -> bool:
        """Whether bytes have moved since this was asked last, in either direction.

        A peer that reads a large answer slowly is alive, and one that takes none of what it asked for is not.
        """
        has_news, before, unsent = self.has_news, self._unsent_seen, self.unsent_bytes
        self.has_news, self._unsent_seen = False, unsent
        return has_news or unsent < before

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not taken yet of the answers that were handed over."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def is_awaited(self) -> bool:
        """Whether it is for this broker to act: it owes an answer, and the peer has taken all earlier ones."""
        return self.is_busy and not self.unsent_bytes

    @property
    def is_amid_frame(self) -> bool:
        """Whether the peer has begun a request and not finished it, although it could have."""
        return not self._is_paused and not self._reader.is_between_frames

    def drain(self) -> None:
        """Take no more requests; close when those in flight are answered."""
        self._takes_requests = False
        self._backlog.clear()
        self._is_ending = True
        if not self.is_busy:
            self.close()

    def close(self) -> None:
        """Write what is there to be written, then close."""
        self._takes_requests = False
        if self._transport is not None:
            if self._out:
                out, self._out = self._out, []
                self._transport.writelines(out)
            self._transport.close()

    def abort(self) -> None:
        """Close without writing any more."""
        self._takes_requests = False
        if self._transport is not None:
            self._transport.abort()

    def _refuse(self, error: DecodeError) -> None:
        log.info("%s: closing, %s", self.peer_host, error)
        self.close()

    def _fail(self) -> None:
        log.exception("%s: a request could not be served, closing its connection", self.peer_host)
        self.close()


def _host(address: Any) -> str:
    return str(address[0]) if address else ""
