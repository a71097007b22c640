"""The loop's side of a session: its state as last announced, who listens to it, and who waits for which path.

Everything here runs on the event loop. Whatever talks to ZooKeeper announces and fires; it so decides when the rest of
the broker learns of a change, and nobody sees a state that was not announced to all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from minikafka.broker.zookeeper.coord import (
    NO_SESSION,
    Closed,
    ConnectionLoss,
    CoordError,
    Listener,
    Session,
    SessionExpired,
    SessionState,
    Waker,
)

log: Final = logging.getLogger(__name__)


class SessionDesk:
    """What every Coord has in common."""

    def __init__(self) -> None:
        self._session = NO_SESSION
        self._listeners: dict[Listener, None] = {}
        # In the order in which they were armed, so that a simulated run is the same every time.
        self._armed: dict[str, dict[Waker, None]] = {}
        self._end: CoordError | None = None
        # Set while there is no point in waiting for a connection.
        self._settled = asyncio.Event()

    @property
    def session(self) -> Session:
        return self._session

    async def connected(self) -> Session:
        # Let news in first that is on its way already: else whoever has just failed would try again at once.
        await asyncio.sleep(0)
        while self._end is None and self._session.state is not SessionState.CONNECTED:
            await self._settled.wait()
        self._raise_end()
        return self._session

    def add_listener(self, listener: Listener) -> Callable[[], None]:
        # Not the listener itself, of which there may be two.
        def own(session: Session) -> None:
            listener(session)

        self._listeners[own] = None
        return lambda: self._listeners.pop(own, None)

    def forget(self, waker: Waker, path: str | None = None) -> None:
        for each in [path] if path is not None else list(self._armed):
            if (wakers := self._armed.get(each)) is not None:
                wakers.pop(waker, None)
                if not wakers:
                    del self._armed[each]

    # For whoever talks to ZooKeeper

    def announce(self, session: Session) -> None:
        """Tell everybody. With a connection everything armed wakes: no watch outlives the connection it was set on."""
        if session == self._session or self._end is not None:
            return
        self._session = session
        if session.state is SessionState.CONNECTED:
            self._settled.set()
            for path in list(self._armed):
                self.fire(path)
        else:
            self._settled.clear()
        self._tell(session)

    def arm(self, path: str, waker: Waker) -> None:
        """To be done before the request is sent: a new connection in between must wake, too."""
        self._armed.setdefault(path, {})[waker] = None

    def fire(self, path: str) -> None:
        for waker in self._armed.pop(path, ()):
            waker.wake(path)

    def end(self, why: CoordError) -> None:
        """There will be no further session."""
        if self._end is None:
            self._end = why
            self._settled.set()
            self._armed.clear()
            if self._session.state is not SessionState.LOST:
                self._session = Session(SessionState.LOST, self._session.id)
                self._tell(self._session)

    def end_closed(self) -> None:
        self.end(Closed("the ZooKeeper session was closed"))

    def require_session(self) -> None:
        """Raise unless there is a session that is connected."""
        self._raise_end()
        if self._session.state is SessionState.SUSPENDED:
            raise ConnectionLoss("not connected to ZooKeeper")
        if self._session.state is SessionState.LOST:
            raise SessionExpired("there is no ZooKeeper session")

    def _raise_end(self) -> None:
        if self._end is not None:
            # A new one each time: an exception collects the traceback of every raise.
            raise type(self._end)(*self._end.args)

    def _tell(self, session: Session) -> None:
        for listener in list(self._listeners):
            try:
                listener(session)
            except Exception:
                # The others have to know all the same.
                log.exception("a listener failed when the ZooKeeper session became %s", session.state.value)
