"""Being a member of the cluster: registered in ZooKeeper, again in every session, under an epoch of its own.

A session that is lost takes the registration with it, and every role: the controller gives them to others, and gives
some back once there is a new registration. A request of the controller is for one broker epoch and counts in no other,
and in none while there is no registration (KIP-380); the highest controller epoch that was heard of is remembered here
too, since what an older one says must not count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from minikafka.broker.statistics import SessionStatistics
from minikafka.broker.zookeeper.coord import Coord, CoordError, Session, SessionState
from minikafka.broker.zookeeper.registration import Registration
from minikafka.broker.zookeeper.znodes import BrokerNode

log: Final = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0


class Membership:
    """See the module's description."""

    def __init__(self, coord: Coord, broker_id: int, session_timeout_ms: int, statistics: SessionStatistics) -> None:
        self._coord = coord
        # A node may outlive its process by a session, and a server by a tick or two.
        self._registration = Registration(coord, broker_id, 1.5 * session_timeout_ms / 1000 + 1)
        self._statistics = statistics
        self._session_id = 0
        self._sessions_lost = 0
        self._news = asyncio.Event()
        self._registered = asyncio.Event()
        self.broker_epoch = -1
        self.first_epoch = self.last_epoch = -1
        """Those of this process: whatever it has had since the first, it has."""
        self.controller_epoch = 0
        self.on_lost: Callable[[], None] = lambda: None
        """Called when the session is over: no role of it counts any more."""
        self._stop_listening = coord.add_listener(self._on_session)

    @property
    def is_registered(self) -> bool:
        return self.broker_epoch >= 0

    async def join(self, describe: Callable[[], BrokerNode]) -> None:
        """Register; DuplicateBroker if the id is taken. What is registered is put together at that moment."""
        while True:
            # As of before: if there is another session by the time of the answer, `run` has to look again.
            self._session_id, sessions_lost = self._coord.session.id, self._sessions_lost
            epoch = self.last_epoch = await self._registration.register(describe())
            self.first_epoch = epoch if self.first_epoch < 0 else self.first_epoch
            if sessions_lost == self._sessions_lost:
                break
            # The registration may have gone with a session since; in the one that there is now it is found or made.
        self.broker_epoch = epoch
        self._registered.set()

    async def wait_registered(self) -> int:
        """The broker epoch, as soon as there is one."""
        while not self.is_registered:
            await self._registered.wait()
        return self.broker_epoch

    async def run(self, describe: Callable[[], BrokerNode]) -> None:
        """Register again whenever a new session has begun, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            session = await self._coord.connected()
            if session.id == self._session_id:
                continue
            try:
                await self.join(describe)
            except CoordError as error:
                # Somebody else has our id by now. Without it this broker is nobody, but its id may come free again.
                log.error("cannot register again: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._news.set()

    def stop(self) -> None:
        self._stop_listening()

    def _on_session(self, session: Session) -> None:
        if session.state is SessionState.CONNECTED:
            self._statistics.connects += 1
            self._news.set()
        elif session.state is SessionState.SUSPENDED:
            self._statistics.disconnects += 1
        elif self._session_id:
            self._statistics.expires += 1
            self._sessions_lost += 1
            self.broker_epoch = -1
            self._registered.clear()
            self.on_lost()
