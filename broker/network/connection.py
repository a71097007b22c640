"""One client's connection: frames in, answers out in the order of the requests.

A request is begun as soon as its frame is whole, also while earlier ones still wait for replicas or for
data; only its answer waits its turn.  What came together is begun in turns (see `shares`).  Reading stops while
requests that came wait for a turn, while too many requests or too many bytes are in flight, while memory is short, and
while the peer does not read what it is sent.  So a connection has a bounded share of memory and of the loop.

Whatever a peer does wrong closes its connection and nothing else.  An exception that nobody expected is
our fault: it is logged, and the connection is closed too, since its answer cannot be given.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, cast

from minikafka.broker.network.reply import Parts, Reply, Serve, Shortcut, Slot
from minikafka.broker.network.shares import SMALL_BYTES, TURN_BYTES, TURN_MS, TURN_REQUESTS, Shares
from minikafka.protocol.errors import DecodeError
from minikafka.protocol.frame import FrameReader, total_bytes

log: Final = logging.getLogger(__name__)

IN_FLIGHT_REQUESTS_MAX: Final = 128
"""Beyond what any client pipelines; a peer that sends more waits until some are answered."""

HELD_BYTES_MAX: Final = 64 << 20
"""What the responses of one connection may be expected to make it hold; above it a fetch gets its first batch only."""

_SMALL_BYTES: Final = 4096
"""Answers up to this size may wait for those to other requests of the same read, and leave with them."""


class ConnectionLimits(NamedTuple):
    frame_bytes_max: int
    in_flight_bytes_max: int
    write_buffer_bytes: int = 1 << 20


class Connection(asyncio.BufferedProtocol):
    """See the module's description."""

    def __init__(
        self,
        serve: Serve,
        listener: str,
        limits: ConnectionLimits,
        scratch: bytearray,
        on_closed: Callable[[Connection], None],
        shares: Shares | None = None,
    ) -> None:
        # Of the server.
        self._serve = serve
        self._limits = limits
        self._on_closed = on_closed
        self._shares = shares or Shares()
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
        self.is_of_broker = False
        """It is a broker's, and its memory is not counted."""
        self.has_released = False
        """Set by the handler that needs nothing of the bytes of its request any more."""
        # Of the stream.
        self._reader = FrameReader(limits.frame_bytes_max, scratch)
        self._transport: asyncio.Transport | None = None
        self._backlog: deque[bytes | bytearray] = deque()
        self._slots: deque[Slot] = deque()
        self._out: Parts = []
        self._backlog_bytes = 0
        # Of requests in flight, and of responses that wait for earlier ones.
        self._in_flight_bytes = 0
        self._reserved_bytes = 0
        self._unsent_bytes = 0
        # The sum of all these, as it was counted last.
        self._held_bytes = 0
        self._is_entered = False
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
        if len(frames) == 1 and not self._backlog and not self._shares.is_short:
            self._begin(frames[0])
            if self._out:
                self._write()
        elif frames:
            self._backlog += frames
            self._backlog_bytes += sum(map(len, frames))
            if not self._is_entered:
                self.take_turn()
        if not frames or self._held_bytes or self._reader.held_bytes:
            self._account()
            if self._shares.is_short:
                self.regulate()

    def eof_received(self) -> bool:
        """A peer may stop sending and still wait for answers; it is closed when they are out."""
        self._is_ending = True
        if not self.is_busy:
            self.close()
        return True

    def pause_writing(self) -> None:
        self._peer_reads = False
        self.regulate()

    def resume_writing(self) -> None:
        self._peer_reads = True
        self.count_unsent()
        self.regulate()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = self.shortcut = None
        self._takes_requests = False
        self._drop_backlog()
        self._slots.clear()
        self._shares.leave(self)
        # Soon rather than now: one that has not begun would leave what it was to wait for behind.
        loop = asyncio.get_running_loop()
        for task in self._waiting:
            loop.call_soon(task.cancel)
        self._on_closed(self)

    # --------------------------------------------------------------------------------------------- requests

    def take_turn(self) -> None:
        """Begin what came together, as far as there is room for it and the turn lasts."""
        self._is_entered, backlog, clock = False, self._backlog, self._shares.clock
        left, left_bytes, until_ms = TURN_REQUESTS, TURN_BYTES, clock.monotonic_ms() + TURN_MS
        while backlog and left > 0 and left_bytes > 0 and not self._is_full and self._is_admitted(len(backlog[0])):
            frame = backlog.popleft()
            left, left_bytes = left - 1, left_bytes - len(frame)
            self._backlog_bytes -= len(frame)
            self._begin(frame)
            if len(frame) > SMALL_BYTES and self._shares.alone is self:
                self._shares.leave(self)
            if clock.monotonic_ms() >= until_ms:
                break
        if self._out:
            self._write()
        self._account()
        self.regulate()
        if self._is_ending and not self.is_busy:
            self.close()

    def _is_admitted(self, size: int) -> bool:
        """Whether there is memory for a request of this size, or it is its turn to be served without."""
        return size <= SMALL_BYTES or self.is_of_broker or self._shares.admits(self)

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
            size, self.has_released = 0 if self.has_released else len(frame), False
            self._enqueue(size, reply)

    def _enqueue(self, size: int, reply: Reply) -> None:
        slot = Slot(size)
        self._slots.append(slot)
        self._in_flight_bytes += size
        if reply is None or isinstance(reply, list):
            self._finish(slot, reply)
        else:
            task = asyncio.ensure_future(self._await(slot, reply))
            self._waiting[task] = None
            task.add_done_callback(self._waiting.pop)
            self._account()
        self.regulate()

    async def _await(self, slot: Slot, reply: Awaitable[Parts | None]) -> None:
        try:
            self._finish(slot, await reply)
            self._write()
        except asyncio.CancelledError:
            raise
        except DecodeError as error:
            self._refuse(error)
        except Exception:
            self._fail()

    def _finish(self, slot: Slot, parts: Parts | None) -> None:
        """An answer is there: it and those behind it can be written, as far as none before them is missing."""
        slot.parts = parts
        slot.is_ready = True
        slots = self._slots
        if parts and slots and slots[0] is not slot:
            # The request is done with, and its response waits for earlier ones.
            size = total_bytes(parts)
            self._in_flight_bytes += size - slot.size
            slot.size = size
            self.regulate()
        while slots and slots[0].is_ready:
            done = slots.popleft()
            self._in_flight_bytes -= done.size
            if done.parts:
                self._out += done.parts
        self._account()

    def _write(self) -> None:
        """Hand over what is to be written, and see what that makes possible."""
        out, self._out = self._out, []
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if out:
            transport.writelines(out)
            if (unsent := transport.get_write_buffer_size()) != self._unsent_bytes:
                self._unsent_bytes = unsent
                self._account()
        if self._is_paused:
            self.regulate()
        if self._is_ending and not self.is_busy:
            self.close()

    # ------------------------------------------------------------------------------------------------- memory

    def count_unsent(self) -> None:
        """See how much the peer has taken: nothing notifies of that but when it is all, or nearly."""
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if unsent != self._unsent_bytes:
            self._unsent_bytes = unsent
            self._account()

    @property
    def room_bytes(self) -> int:
        """How many bytes of records a response may have now."""
        left = HELD_BYTES_MAX if self.is_of_broker else self._shares.left_bytes
        return max(0, min(HELD_BYTES_MAX - self._held_bytes, left))

    def become_brokers(self) -> None:
        """It has shown that it is a broker's."""
        self.is_of_broker = True
        self._account()
        self._shares.leave(self)

    def reserve(self, size: int) -> None:
        """Count what a thread is about to read for a response; a negative size when it has."""
        self._reserved_bytes += size
        self._account()

    def _account(self) -> None:
        """Count what is held now."""
        held = 0
        if self._transport is not None and not self.is_of_broker:
            held = self._reader.held_bytes + self._backlog_bytes + self._reserved_bytes
            held += self._in_flight_bytes + self._unsent_bytes
        if held != self._held_bytes:
            difference, self._held_bytes = held - self._held_bytes, held
            self._shares.change(difference)

    @property
    def _is_full(self) -> bool:
        """Whether nothing more may be begun before something else has left."""
        return (
            not self._peer_reads
            or len(self._slots) >= IN_FLIGHT_REQUESTS_MAX
            or self._in_flight_bytes > self._limits.in_flight_bytes_max
        )

    def regulate(self) -> None:
        """Read on only while there is room for more; what has come already goes first."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if (is_full := self._is_full) and self._shares.alone is self:
            self._shares.leave(self)
        if self._backlog:
            may_read = False
            if not is_full and not self._is_entered and self._is_admitted(len(self._backlog[0])):
                self._is_entered = True
                self._shares.enter(self)
        else:
            may_read = not is_full and self._is_admitted(self._reader.held_bytes)
        if may_read is self._is_paused:
            self._is_paused = not may_read
            if may_read:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _drop_backlog(self) -> None:
        self._backlog.clear()
        self._backlog_bytes = 0
        self._account()

    # ---------------------------------------------------------------------------------------------- closing

    @property
    def is_busy(self) -> bool:
        """Whether an answer is still owed."""
        return bool(self._slots or self._backlog)

    def is_alive(self) -> bool:
        """Whether bytes have moved since this was asked last, in either direction.

        A peer that reads a large answer slowly is alive, and one that takes none of what it asked for is not.
        """
        has_news, before = self.has_news, self._unsent_seen
        self.count_unsent()
        unsent = self._unsent_bytes
        self.has_news, self._unsent_seen = False, unsent
        return has_news or unsent < before

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not taken of the responses that were handed over, as it was when somebody looked."""
        return self._unsent_bytes

    @property
    def is_awaited(self) -> bool:
        """Whether it is for this broker to act: it owes an answer, and the peer has taken all earlier ones."""
        return self.is_busy and not self._unsent_bytes

    @property
    def is_amid_frame(self) -> bool:
        """Whether the peer has begun a request and not finished it, although it could have."""
        return not self._is_paused and not self._reader.is_between_frames

    def drain(self) -> None:
        """Take no more requests; close when those in flight are answered."""
        self._takes_requests = False
        self._drop_backlog()
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
