"""Producer ids to give away: this broker's block of them, and the next one when it is used up.

A block is taken from ZooKeeper, so no id is given twice in the cluster. The next is asked for before the last id is
gone, so that hardly anybody waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from minikafka.broker.zookeeper.znodes import ProducerIdBlock

_REFILL_AT: Final = 100
"""Ids left when the next block is asked for: a tenth of one."""


class ProducerIds:
    """See the module's description; `allocate` takes a block from ZooKeeper."""

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._allocate = allocate
        self._blocks: list[range] = []
        self._refill: asyncio.Future[None] | None = None

    async def next(self) -> int:
        """An id that nobody else has."""
        while not self._blocks:
            await asyncio.shield(self._refilling())
        block = self._blocks[0]
        self._blocks[0] = block[1:]
        if len(block) == 1:
            self._blocks.pop(0)
        if sum(map(len, self._blocks)) < _REFILL_AT:
            self._refilling()
        return block[0]

    def _refilling(self) -> asyncio.Future[None]:
        if self._refill is None:
            self._refill = asyncio.ensure_future(self._fill())
            self._refill.add_done_callback(self._on_filled)
        return self._refill

    async def _fill(self) -> None:
        block = await self._allocate()
        self._blocks.append(range(block.first, block.last + 1))

    def _on_filled(self, done: asyncio.Future[None]) -> None:
        self._refill = None
        if not done.cancelled():
            # Whoever waits sees it; if nobody does, the next one asks again.
            done.exception()
