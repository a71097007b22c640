"""Controlled shutdown: have the controller move what is led here to others before going.

A leader that is moved while it still serves costs its clients one refused request; one that just vanishes costs them
the time until its session is over.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.network.peer import PeerGone
from minikafka.broker.replication.controller_link import ControllerLink
from minikafka.broker.zookeeper.coord import SessionState
from minikafka.protocol.control import ControlledShutdownRequest, ControlledShutdownResponse
from minikafka.protocol.errors import ErrorCode

log: Final = logging.getLogger(__name__)

_RETRY_SECONDS_MAX: Final = 1.0
"""Whatever is configured: an operator who stops a broker is waiting for it."""


_LOOK_SECONDS: Final = 0.5
_AWAY_SECONDS_MAX: Final = 5.0
"""A broker that has lost ZooKeeper for so long does not wait: most likely the controller has, too, and is helpless."""


async def hand_over(context: Context, link: ControllerLink) -> None:
    """Have others lead what is led here, if there is anybody to see to it."""
    try:
        async with asyncio.timeout(None) as patience:
            watch = _Watch(context, patience)
            try:
                await _ask(context, link)
            finally:
                watch.stop()
    except TimeoutError:
        log.warning("stopping without having handed anything over: ZooKeeper is away")


class _Watch:
    """Ends a wait when ZooKeeper has been away for too long."""

    def __init__(self, context: Context, patience: asyncio.Timeout) -> None:
        self._context = context
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._there_at = self._loop.time()
        self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        if self._context.coord.session.state is SessionState.CONNECTED:
            self._there_at = now
        if now - self._there_at >= _AWAY_SECONDS_MAX:
            self._patience.reschedule(now)
        else:
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)

    def stop(self) -> None:
        self._timer.cancel()


async def _ask(context: Context, link: ControllerLink) -> None:
    """Ask until nothing is led here that somebody else could lead, a few times at most."""
    config = context.config.broker
    for _ in range(config.controlled_shutdown_max_retries + 1):
        if not context.membership.is_registered:
            return
        request = ControlledShutdownRequest(broker_id=context.broker_id, broker_epoch=context.membership.broker_epoch)
        try:
            answer = await link.ask(request, ControlledShutdownResponse)
        except PeerGone as error:
            log.info("the controller cannot be told of the stop: %s", error)
        else:
            if not answer.error_code and not answer.remaining:
                return
            if answer.error_code:
                log.info("the controller does not let us go yet: %s", ErrorCode(answer.error_code).name)
            else:
                log.info("%d partitions are still led here", len(answer.remaining))
        await asyncio.sleep(min(config.controlled_shutdown_retry_backoff_ms / 1000, _RETRY_SECONDS_MAX))
    log.warning("stopping without having handed everything over")
