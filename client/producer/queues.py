"""The batches of one partition, from the first record to the answer; and the partitions of a topic.

    open        takes records
    waiting     full, or sent before and to be sent again; in their order
    in flight   sent, not answered yet; in their order
    failed      answered with something that lets them be sent again, once nothing is in flight any more

When what is sent where is decided by `sender`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from minikafka.client.producer.batch import Batch
from minikafka.client.producer.sequences import Numbering
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import KafkaError, UnknownTopicOrPartitionError
from minikafka.protocol.hashing import partition_for_key

_KEYS_MAX: Final = 1 << 14
"""Keys whose partition is remembered: looking it up is ten times faster than murmur2 in Python."""


class PartitionQueue:
    """See the module's description."""

    __slots__ = (
        "batches",
        "failed",
        "failures",
        "in_flight",
        "known_id",
        "last_error",
        "leaves_epoch",
        "node_id",
        "numbering",
        "open",
        "paused_until_ms",
        "timer",
        "topic_partition",
        "waiting",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.open: Batch | None = None
        self.waiting: deque[Batch] = deque()
        self.in_flight: deque[Batch] = deque()
        self.failed: list[Batch] = []
        self.numbering = Numbering()
        self.known_id = -1  # of the producer that has delivered a batch: a leader knows it
        self.leaves_epoch = False  # no batch gets its first number until `leave_epoch` has happened
        self.node_id = -1  # where what is in flight was sent to
        self.paused_until_ms = 0.0
        self.failures = 0  # in a row
        self.last_error: KafkaError | None = None  # why nothing of it got through lately
        self.batches = 0  # made so far
        self.timer: asyncio.TimerHandle | None = None  # looks again when a pause or the lingering is over

    def __iter__(self) -> Iterator[Batch]:
        """All batches, the oldest first."""
        # What failed is older or newer than what is in flight, one by one.
        yield from sorted([*self.failed, *self.in_flight], key=lambda batch: batch.order)
        yield from [*self.waiting]
        if self.open is not None:
            yield self.open

    @property
    def is_empty(self) -> bool:
        return self.open is None and not self.waiting and not self.in_flight and not self.failed

    def new_batch(self, deadline_ms: int, ready_ms: float) -> Batch:
        """Open another batch; the one before is full."""
        self.close_open()
        self.batches += 1
        self.open = Batch(self.topic_partition, (self.batches,), deadline_ms, ready_ms)
        return self.open

    def close_open(self) -> None:
        """Take no more records into the open batch."""
        if self.open is not None:
            self.waiting.append(self.open)
            self.open = None

    def ready_at_ms(self) -> float | None:
        """When there is something to send, if nothing else speaks against it; None if there is nothing."""
        if self.waiting:
            return self.paused_until_ms
        return None if self.open is None else max(self.open.ready_ms, self.paused_until_ms)

    @property
    def next_size(self) -> int:
        """The bytes of the batch that is next, before compression."""
        batch = self.waiting[0] if self.waiting else self.open
        return 0 if batch is None else batch.size

    def is_sendable(self, now_ms: float, node_id: int, in_flight_max: int) -> bool:
        """Whether the next batch can go to a node now."""
        if self.failed or len(self.in_flight) >= in_flight_max or (self.in_flight and self.node_id != node_id):
            return False
        if self.in_flight and self.known_id != self.numbering.identity.producer_id:
            return False
        if self.leaves_epoch and not (self.waiting and self.waiting[0].sequence >= 0):
            return False
        ready_ms = self.ready_at_ms()
        return ready_ms is not None and ready_ms <= now_ms

    def take(self, node_id: int) -> Batch:
        """The next batch, in flight from now on."""
        if not self.waiting:
            self.close_open()
        batch = self.waiting.popleft()
        self.in_flight.append(batch)
        self.node_id = node_id
        return batch

    def is_oldest(self, batch: Batch) -> bool:
        """Whether nothing before this batch is without an answer or to be sent again."""
        return self.in_flight[0] is batch and all(batch.order < failed.order for failed in self.failed)

    def requeue_failed(self) -> None:
        """When the last one in flight is answered: what failed is to be sent again, in its order."""
        if self.failed and not self.in_flight:
            self.waiting.extendleft(sorted(self.failed, key=lambda batch: batch.order, reverse=True))
            self.failed = []

    def to_drop(self) -> list[Batch]:
        """The batches that were given up and need not be sent again: no later one depends on them."""
        unneeded = []
        is_needed = False  # by a later batch
        for batch in reversed([*self]):
            if batch in self.in_flight:
                is_needed |= not batch.is_done
            elif not batch.is_done:
                is_needed |= batch.is_uncertain
            elif batch.sequence < 0 or not is_needed:
                unneeded.append(batch)
        return unneeded[::-1]

    def drop(self, batch: Batch) -> None:
        """Take a batch out that is not in flight."""
        if batch is self.open:
            self.open = None
        elif batch in self.waiting:
            self.waiting.remove(batch)
        else:
            self.failed.remove(batch)

    def leave_epoch(self) -> bool:
        """Give new numbers to what waits, if the epoch is to be left and nothing may still be written in it."""
        if not self.leaves_epoch or self.in_flight or any(batch.is_uncertain for batch in self.waiting):
            return False
        self.leaves_epoch = False
        for batch in self.waiting:
            batch.number_anew()
        return True

    def replace_by_halves(self, batch: Batch) -> tuple[Batch, Batch]:
        """A batch that failed as two, to be sent again in its place."""
        halves = batch.split()
        self.failed += halves
        return halves


class Topic:
    """A topic that is sent to: its queues, and which of them takes records without a key."""

    __slots__ = ("_by_key", "_made", "_rng", "available", "name", "queues", "sticky")

    def __init__(self, name: str, rng: Random) -> None:
        self.name = name
        self._rng = rng
        self.queues: list[PartitionQueue] = []
        self._made: list[PartitionQueue] = []  # those of partitions that are gone, too
        self.available: list[int] = []
        self._by_key: dict[bytes, PartitionQueue] = {}
        self.sticky: PartitionQueue

    def update(self, leaders: Sequence[int | None]) -> None:
        """Take in who leads the partitions, in their order; there may be more of them than before, and fewer if the
        topic was made anew."""
        if leaders and len(leaders) != len(self.queues):
            new = range(len(self._made), len(leaders))
            self._made += [PartitionQueue(TopicPartition(self.name, index)) for index in new]
            # A partition that comes back goes on with its numbers: a broker may have told what it knew a while ago.
            self.queues = self._made[: len(leaders)]
            self._by_key.clear()
        self.available = [index for index, leader in enumerate(leaders) if leader is not None]
        if leaders and getattr(self, "sticky", None) not in self.queues:
            self.choose_sticky()

    def choose_sticky(self) -> None:
        """Let another partition take the records without a key: one that has a leader, if there is any."""
        if len(self.queues) == 1:
            self.sticky = self.queues[0]
            return
        found = [self.queues[index] for index in self.available] or self.queues
        others = [queue for queue in found if queue is not getattr(self, "sticky", None)]
        self.sticky = self._rng.choice(others or found)

    def queue_for_key(self, key: bytes) -> PartitionQueue:
        queue = self._by_key.get(key)
        if queue is None:
            if len(self._by_key) >= _KEYS_MAX:
                self._by_key.clear()
            queue = self._by_key[key] = self.queues[partition_for_key(key, len(self.queues))]
        return queue

    def queue_at(self, partition: int) -> PartitionQueue:
        if not 0 <= partition < len(self.queues):
            raise UnknownTopicOrPartitionError(
                f"topic {self.name!r} has partitions 0 to {len(self.queues) - 1}, not {partition}"
            )
        return self.queues[partition]
