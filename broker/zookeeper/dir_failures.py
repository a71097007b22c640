"""Telling the controller that a log directory of this broker failed.

A broker that is alive with a directory less leads what was there as far as anybody knows, and serves nothing of it. So
a node is made for the controller to find, which then asks this broker for all its roles. As long as it is not known
to be made it is made again, in whatever session: one too many does no harm. Several failures may be one node.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from minikafka.broker.zookeeper.coord import Coord, CoordError, insist
from minikafka.broker.zookeeper.topic_nodes import LOG_DIR_EVENT_PREFIX, encode_log_dir_event

log: Final = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0


class DirFailures:
    """See the module's description."""

    def __init__(self, coord: Coord, broker_id: int) -> None:
        self._coord = coord
        self._event = encode_log_dir_event(broker_id)
        self._news = asyncio.Event()

    def add(self, _: object) -> None:
        """A directory failed."""
        self._news.set()

    async def run(self) -> None:
        """Tell of failures until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await insist(self._coord, self._tell)
            except CoordError as error:
                log.error("the controller cannot be told that a log directory failed: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._news.set()

    async def _tell(self) -> None:
        await self._coord.create(LOG_DIR_EVENT_PREFIX, self._event, sequence=True)
