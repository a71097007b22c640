"""Rows into topics: a producer that is told of Arrow batches, and says at the end whether all rows are there."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from typing import Any, Final

from minikafka.client.producer import BatchDelivery, Delivery, Producer, ProducerConfig
from minikafka.client.producer.partitioners import find_partitioner
from minikafka.client.producer.sequences import Identity
from minikafka.protocol.errors import KafkaError
from minikafka.spark_jobs.link import LoopThread
from minikafka.spark_jobs.sink.columns import Part, read_parts
from minikafka.spark_jobs.sink.partitioning import group_by_partition

log: Final = logging.getLogger(__name__)

# Rows for any partition that are handed over at once, and go to the same one.
_CHUNK_ROWS: Final = 10_000

# A task that has failed should not keep its worker for long.
_ABORT_SECONDS: Final = 10.0


class Sender:
    """One producer, used from code that does not await."""

    def __init__(self, config: ProducerConfig) -> None:
        self._thread = LoopThread("minikafka producer")
        self._producer = Producer(config=config)
        self._sent: list[Delivery | BatchDelivery] = []
        self._is_transactional = config.transactional_id is not None
        self._has_begun = False
        self._keys_decide = find_partitioner(config.partitioner) is None
        try:
            self._thread.run(self._producer.start())
        except BaseException:
            self._thread.close()
            raise

    def send(self, batches: Iterable[Any], topic: str | None) -> int:
        """Send the rows of Arrow batches, and wait until all of them are acknowledged; returns how many."""
        rows = 0
        for batch in batches:
            if batch.num_rows:
                # Another thread sends them, and a change of threads costs more than a row.
                self._thread.run(self._send_parts([*read_parts(batch, topic)]))
                rows += batch.num_rows
        self._thread.run(self._finish())
        return rows

    async def _send_parts(self, parts: Iterable[Part]) -> None:
        if self._is_transactional and not self._has_begun:
            await self._producer.begin_transaction()
            self._has_begun = True
        for part in parts:
            if part.headers is not None or not (self._keys_decide or part.is_plain):
                await self._send_singly(part)
            else:
                await self._send_grouped(part)
        # The first error is told at once, and what has arrived is forgotten.
        self._sent = [each for each in self._sent if not await _has_arrived(each)]

    async def _send_grouped(self, part: Part) -> None:
        count = len(await self._producer.partitions_for(part.topic))
        for partition, rows in group_by_partition(part, count):
            values, keys = rows.value_list(), rows.key_list()
            step = _CHUNK_ROWS if partition is None else len(values)
            for start in range(0, len(values), step):
                chunk = slice(start, start + step)
                self._sent.append(
                    await self._producer.send_batch(part.topic, values[chunk], keys and keys[chunk], partition)
                )

    async def _send_singly(self, part: Part) -> None:
        nothing: list[None] = [None] * len(part)
        columns = part.value_list(), part.key_list() or nothing, part.partition_list() or nothing
        for value, key, partition, headers in zip(*columns, part.header_list() or nothing, strict=True):
            self._sent.append(
                await self._producer.send(part.topic, value, key=key, partition=partition, headers=headers)
            )

    async def _finish(self) -> None:
        await self._producer.flush()
        sent, self._sent = self._sent, []
        for each in sent:
            await each

    @property
    def identity(self) -> Identity:
        identity = self._producer.identity
        assert identity is not None
        return identity

    def try_abort(self) -> None:
        """Abort the transaction if there is one: left open, it would stop those who read committed records."""
        if not self._has_begun:
            return
        try:
            self._thread.run(asyncio.wait_for(self._producer.abort_transaction(), _ABORT_SECONDS))
        except (KafkaError, TimeoutError) as error:
            log.warning("a transaction stays open until it is fenced or times out: %s", error)

    def close(self) -> None:
        """End the producer. A transaction that is open stays open."""
        try:
            self._thread.run(self._producer.stop(flush=False))
        finally:
            self._thread.close()


async def _has_arrived(sent: Delivery | BatchDelivery) -> bool:
    if not sent.done():
        return False
    await sent
    return True


# Producers outlive micro-batches, like the workers they are in. Keyed by process as well, see `link`.
_senders: Final[dict[tuple[int, ProducerConfig], Sender]] = {}


def sender_for(config: ProducerConfig) -> Sender:
    """The sender of this process for these options."""
    key = os.getpid(), config
    found = _senders.get(key)
    if found is None:
        found = _senders[key] = Sender(config)
    return found


def forget_sender(config: ProducerConfig) -> None:
    """Close a sender that has failed, so that the next one starts afresh."""
    found = _senders.pop((os.getpid(), config), None)
    if found is not None:
        found.close()
