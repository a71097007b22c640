"""Rows into topics: a producer that is told of parts, and says at the end whether all of them are there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from minikafka.client.producer import BatchDelivery, Delivery, Producer, ProducerConfig
from minikafka.client.producer.sequences import Identity
from minikafka.spark_jobs.link import LoopThread
from minikafka.spark_jobs.sink.columns import Part, read_parts

# Records that are handed over at once, and go to the same partition.
_CHUNK_ROWS: Final = 10_000


class OpenEndedProducer(Producer):
    """A producer whose transaction somebody else may end, who needs to know its identity for that."""

    @property
    def identity(self) -> Identity | None:
        return self._identities.current


class Sender:
    """One producer, used from code that does not await."""

    def __init__(self, config: ProducerConfig) -> None:
        self._thread = LoopThread("minikafka producer")
        self._producer = OpenEndedProducer(config=config)
        self._sent: list[Delivery | BatchDelivery] = []
        self._is_transactional = config.transactional_id is not None
        try:
            self._thread.run(self._producer.start())
        except BaseException:
            self._thread.close()
            raise

    def send(self, batches: Iterable[Any], topic: str | None) -> int:
        """Send the rows of Arrow batches, and wait until all of them are acknowledged; returns how many."""
        rows = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            if self._is_transactional and not rows:
                self._thread.run(self._producer.begin_transaction())
            for part in read_parts(batch, topic):
                self._thread.run(self._send_part(part))
            rows += batch.num_rows
        self._thread.run(self._finish())
        return rows

    async def _send_part(self, part: Part) -> None:
        producer, sent = self._producer, self._sent
        if part.is_plain:
            for start in range(0, len(part.values), _CHUNK_ROWS):
                sent.append(await producer.send_batch(part.topic, part.values[start : start + _CHUNK_ROWS]))
        else:
            nothing: list[None] = [None] * len(part.values)
            columns = part.values, part.keys or nothing, part.partitions or nothing, part.headers or nothing
            for value, key, partition, headers in zip(*columns, strict=True):
                sent.append(await producer.send(part.topic, value, key=key, partition=partition, headers=headers))
        # The first error is told at once, and what has arrived is forgotten.
        self._sent = [each for each in sent if not await _has_arrived(each)]

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
