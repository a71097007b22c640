"""The producer id and epoch: asked of the cluster, raised when batches must be numbered anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from minikafka.client.cluster import Cluster, CoordinatorKind
from minikafka.client.producer.config import ProducerConfig
from minikafka.client.producer.coordinator import ask_coordinator
from minikafka.client.producer.sequences import Identity, Mode
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse

log: Final = logging.getLogger(__name__)

_NO_TIMEOUT_MS: Final = (1 << 31) - 1
"""What Kafka's own client states where there is no transaction."""


class Identities:
    """The identity that new batches get; None while there is none and batches have to wait."""

    def __init__(self, cluster: Cluster, config: ProducerConfig) -> None:
        self._cluster = cluster
        self._config = config
        self.current: Identity | None = Identity() if config.mode is Mode.PLAIN else None
        self.on_change: Callable[[], None] = lambda: None
        self._renewing: asyncio.Task[None] | None = None

    async def obtain(self) -> None:
        """Get an identity. With a transactional id this fences whoever used it before, and ends its transaction;
        if there is an identity already, it is the same with the next epoch."""
        if self._config.mode is Mode.PLAIN:
            return
        transactional_id = self._config.transactional_id
        known = self.current or Identity()
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=self._config.transaction_timeout_ms if transactional_id else _NO_TIMEOUT_MS,
            producer_id=known.producer_id if transactional_id else -1,
            producer_epoch=known.epoch if transactional_id else -1,
        )

        async def ask() -> Identity:
            answer: InitProducerIdResponse
            if transactional_id is None:
                answer = await self._cluster.request_any(request)
            else:
                answer = await ask_coordinator(self._cluster, CoordinatorKind.TRANSACTION, transactional_id, request)
            if answer.error_code:
                raise error_for(answer.error_code)
            return Identity(answer.producer_id, answer.producer_epoch)

        self.current = await self._cluster.retry(ask, timeout_ms=self._config.max_block_ms)

    def adopt(self, identity: Identity) -> None:
        """Go on as who the coordinator says; nothing is in flight."""
        self.current = identity

    def bump(self) -> None:
        """Go to the next epoch, without asking: a producer without a transactional id owns its id for ever."""
        assert self.current is not None
        self.current = self.current.bumped()
        if self.current is None and self._renewing is None:
            self._renewing = asyncio.create_task(self._renew(), name="get a producer id")

    async def _renew(self) -> None:
        while self.current is None:
            try:
                await self.obtain()
            except KafkaError as error:
                log.warning("no producer id: %s", error)
                await asyncio.sleep(self._cluster.backoff.delay_s(1))
        self._renewing = None
        self.on_change()

    async def stop(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
