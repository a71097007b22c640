"""What all connections of a broker have in common, and how it is divided among them: memory, and turns of the loop.

**Memory.** A connection counts what it holds: requests that have come, whole or in part, until they are answered or
their records are in the log; responses until the peer has taken them. The sum over all clients is compared with one
limit (`queued.max.request.bytes`). What happens above it, while memory is *short*:

- Requests up to `SMALL_BYTES` are read and answered as ever: heartbeats, metadata, fetches. A fetch is given what is
  left for it, and its first batch in any case (KIP-74).
- Larger requests wait, and their connections are not read. One of them at a time is *admitted alone*, whatever its
  size, for as long as it takes to come and to be begun. So a request larger than what is left is served, and requests
  that came in part and together fill the memory are finished one after the other: who waits, waits for one who goes on.
- A peer that takes nothing of what it asked for is closed by the server within seconds, not after its idle time.

Connections of brokers are left out of all that: they have been let in for their own sake, are few, and what they
replicate or decide is what producers wait for. Nothing that a client holds can keep them from being read.

**Turns.** What a connection has sent is begun in turns: so many requests, bytes and milliseconds, then another
connection has its turn, brokers before clients; and after some milliseconds of turns the loop looks at sockets, timers
and ZooKeeper again. A request is never interrupted, so a turn may be as long as one request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from minikafka.broker.clock import Clock, SystemClock

MEMORY_BYTES: Final = 256 << 20
"""For all clients together, unless `queued.max.request.bytes` says otherwise."""

SMALL_BYTES: Final = 16 << 10
"""A request that is served however short memory is."""

TURN_REQUESTS: Final = 64
TURN_BYTES: Final = 1 << 20
TURN_MS: Final = 1
"""Counted in whole milliseconds of the clock, so a turn takes between nothing and one of them, or one request."""

TURNS_MS: Final = 4
"""Of all turns together, before the loop gets on with its other work."""


class Member(Protocol):
    """A connection, as far as it matters here."""

    is_of_broker: bool

    def take_turn(self) -> None:
        """Begin what may be begun now, and enter again if there is more."""

    def regulate(self) -> None:
        """Go on, or stop: there may be memory."""


class Shares:
    """See the module's description."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.memory_bytes = memory_bytes
        self.used_bytes = 0
        self.is_short = False
        # Who is admitted although memory is short, and who waits, the first to come first.
        self.alone: Member | None = None
        self.alone_since_ms = 0
        self._waiting: dict[Member, None] = {}
        self._ready: tuple[deque[Member], deque[Member]] = (deque(), deque())
        self._is_scheduled = False

    # ------------------------------------------------------------------------------------------------- memory

    @property
    def left_bytes(self) -> int:
        return max(0, self.memory_bytes - self.used_bytes)

    def change(self, difference: int) -> None:
        """A client holds so much more, or less."""
        self.used_bytes += difference
        self.is_short = self.used_bytes >= self.memory_bytes
        if not self.is_short:
            self.alone = None
            waiting, self._waiting = self._waiting, {}
            for member in waiting:
                # Not from within whatever has just let go of memory.
                asyncio.get_running_loop().call_soon(member.regulate)

    def admits(self, member: Member) -> bool:
        """Whether a large request may be read and begun now; who is refused is called when that may have changed."""
        if not self.is_short or self.alone is member:
            return True
        if self.alone is None:
            self.alone, self.alone_since_ms = member, self.clock.monotonic_ms()
            self._waiting.pop(member, None)
            return True
        self._waiting[member] = None
        return False

    def leave(self, member: Member) -> None:
        """Its large request is begun, or will not come any more."""
        self._waiting.pop(member, None)
        if self.alone is member:
            self.alone = None
        self._offer()

    def _offer(self) -> None:
        """Have the first that waits be admitted alone, or the next one if it cannot go on by now."""
        if self.alone is None and self._waiting:
            member = next(iter(self._waiting))
            del self._waiting[member]
            # Kept for it meanwhile, or one that has more to do takes the place again, and those that wait never get it.
            self.alone, self.alone_since_ms = member, self.clock.monotonic_ms()
            # Not from within whatever has just let go of memory.
            asyncio.get_running_loop().call_soon(self._offer_to, member)

    def _offer_to(self, member: Member) -> None:
        if self.alone is member:
            self.alone = None
        member.regulate()
        self._offer()

    # -------------------------------------------------------------------------------------------------- turns

    def enter(self, member: Member) -> None:
        """Have its turn come; at most once at a time."""
        self._ready[0 if member.is_of_broker else 1].append(member)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        brokers, clients = self._ready
        until_ms = self.clock.monotonic_ms() + TURNS_MS
        try:
            # Those that are here now: who enters again has its next turn when the loop has looked around. However much
            # brokers send, one client has a turn.
            for queue in (brokers, clients):
                for _ in range(len(queue)):
                    queue.popleft().take_turn()
                    if self.clock.monotonic_ms() >= until_ms:
                        break
        finally:
            if brokers or clients:
                self._schedule()
