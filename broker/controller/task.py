"""On every broker: who is the controller, and being it.

Every broker that is registered stands for election whenever there is no controller. The winner runs a `Controller`
until it is not the controller any more: its session is over, its node is gone, or another epoch has begun. Whoever
is asked something that only a controller can do says so if it is none.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from minikafka.broker.clock import Clock
from minikafka.broker.controller.controller import Controller
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.metadata import Metadata
from minikafka.broker.network.net import Net
from minikafka.broker.statistics import ControllerStatistics
from minikafka.broker.work import Work
from minikafka.broker.zookeeper.coord import Closed, Coord, CoordError, Disconnected, NoNode, Waker
from minikafka.broker.zookeeper.election import Controllership, elect, resign
from minikafka.broker.zookeeper.znodes import CONTROLLER, broker_path, decode_controller
from minikafka.protocol.errors import NotControllerError

log: Final = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 1.0
"""After a fault of our own, so that another broker is elected and the logs do not overflow."""


class ControllerTask:
    """See the module's description."""

    def __init__(
        self,
        broker_id: int,
        coord: Coord,
        net: Net,
        clock: Clock,
        work: Work,
        config: LiveConfig,
        metadata: Metadata,
        statistics: ControllerStatistics | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._coord = coord
        self._net = net
        self._clock = clock
        self._work = work
        self._config = config
        self._metadata = metadata
        self._statistics = statistics or ControllerStatistics()
        self._controller: Controller | None = None
        self._running: asyncio.Task[None] | None = None
        config.add_listener(self._on_config)

    @property
    def controller(self) -> Controller:
        """The controller that runs here; NotControllerError if it is another broker, or none yet."""
        if self._controller is None:
            raise NotControllerError
        return self._controller

    @property
    def is_active(self) -> bool:
        return self._controller is not None

    async def run(self) -> None:
        """Stand for election and serve, until cancelled."""
        waker = Waker()
        try:
            while True:
                await self._coord.connected()
                try:
                    await self._turn(waker)
                except Disconnected:
                    continue
                except Closed:
                    raise
                except CoordError as error:
                    # Somebody has had a hand in it. Until that is mended brokers can do without a controller.
                    log.error("cannot tell who is the controller: %s", error)
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._coord.forget(waker)

    async def _turn(self, waker: Waker) -> None:
        """Look who is the controller: be it, or wait until something changes."""
        is_registered = await self._is_registered(waker)
        found = await self._find(waker)
        self._metadata.set_controller(None if found is None else found.broker_id)
        if is_registered and (found is None or found.session_id == self._coord.session.id):
            held = await elect(self._coord, self._broker_id, self._clock.wall_ms())
            if held is not None:
                await self._serve(held, waker)
            elif found is not None:
                # The node is ours, the epoch is not: somebody has had a hand in it, and has to finish.
                await asyncio.sleep(_PAUSE_SECONDS)
            return
        await waker.wait()

    async def _is_registered(self, waker: Waker) -> bool:
        """Whether this broker is, in this session: one that others do not know should not decide for them."""
        stat = await self._coord.exists(broker_path(self._broker_id), waker)
        return stat is not None and stat.ephemeral_owner == self._coord.session.id

    async def _find(self, waker: Waker) -> _Elected | None:
        try:
            data, stat = await self._coord.get(CONTROLLER, waker)
            return _Elected(decode_controller(data), stat.ephemeral_owner)
        except NoNode:
            return None

    # ------------------------------------------------------------------------------------- being the controller

    async def _serve(self, held: Controllership, waker: Waker) -> None:
        """Run the controller until it is over."""
        controller = Controller(
            self._broker_id, held, self._coord, self._net, self._work, self._config, self._statistics
        )
        self._controller = controller
        session_id = self._coord.session.id
        self._metadata.set_controller(self._broker_id)
        running = self._running = self._work.spawn(controller.run(), f"controller of epoch {held.epoch}")
        guard = self._work.spawn(self._guard(waker), "guard of the controller")
        try:
            await asyncio.wait({running, guard}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._controller = None
            running.cancel()
            guard.cancel()
        (ended,) = await asyncio.gather(running, return_exceptions=True)
        log.info("epoch %d is over", held.epoch)
        if self._coord.session.id != session_id:
            # Servers may hold on to the last session for as long as it would have lasted, and nobody else be elected.
            await resign(self._coord, held)
        elif not isinstance(ended, asyncio.CancelledError):
            # Fenced, or by a fault of ours that is logged by now: somebody else may do better.
            await resign(self._coord, held)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _guard(self, waker: Waker) -> None:
        """Until `/controller` is not ours any more, which an operator may bring about by deleting it."""
        session_id = self._coord.session.id
        while True:
            try:
                found = await self._find(waker)
            except Disconnected:
                found = _Elected(self._broker_id, session_id)
                await self._coord.connected()
            if found is None or found.session_id != session_id or self._coord.session.id != session_id:
                return
            await waker.wait()

    async def stop(self) -> None:
        """Be sure to decide nothing any more; `run` has been cancelled before."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def _on_config(self, topic: str | None) -> None:
        if self._controller is not None:
            self._controller.config_changed(topic)


class _Elected(NamedTuple):
    broker_id: int
    session_id: int
