"""The partitions of an internal topic that are led here, each with what is kept in it.

A partition is loaded when this broker begins to lead it, and dropped when it does not any more. Both go by the
leadership itself: a load that ends after that is over publishes nothing, and what is loaded is used only as long as
it lasts. Nobody has to be told in the right order for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from minikafka.broker.context import Context
from minikafka.broker.coordinators.journal import Journal
from minikafka.broker.replicas.partition import Partition
from minikafka.protocol.errors import CoordinatorLoadInProgressError, CorruptRecord, KafkaError, NotCoordinatorError
from minikafka.protocol.hashing import coordinator_partition
from minikafka.protocol.records.batch import BatchView

log: Final = logging.getLogger(__name__)


class Shard(Protocol):
    """What is kept in one partition."""

    def apply(self, batch: BatchView) -> None:
        """Take note of what was written, in the order in which it was."""

    def open(self) -> None:
        """All was read: begin to serve."""

    def close(self) -> None:
        """Another broker serves; whoever waits is told so."""


_S = TypeVar("_S", bound=Shard)


class _Seat(Generic[_S]):
    """A partition that is led here; it watches for the end of that."""

    def __init__(self, journal: Journal, shard: _S) -> None:
        self.journal = journal
        self.shard = shard
        self.is_open = False

    def on_change(self, partition: Partition) -> None:
        if not self.journal.is_current:
            self.close()

    def close(self) -> None:
        self.journal.partition.watchers.pop(self, None)
        if self.is_open:
            self.is_open = False
            self.shard.close()


class Shards(Generic[_S]):
    """See the module's description."""

    def __init__(self, context: Context, topic: str, make: Callable[[Journal], _S]) -> None:
        self.topic = topic
        self._context = context
        self._make = make
        self._seats: dict[int, _Seat[_S]] = {}

    def of(self, key: str) -> _S:
        """Where a group or a transactional id is kept, if that is here, and surely nowhere else."""
        index = self.index_of(key)
        shard = self.at(index)
        if not self._context.contact.may_answer(self._seats[index].journal.partition):
            raise NotCoordinatorError(f"{self.topic}-{index} may be led by another broker, nothing is heard of others")
        return shard

    def partition_of(self, key: str) -> Partition | None:
        """Where a group or a transactional id is kept, if that is here."""
        seat = self._seats.get(self.index_of(key))
        return None if seat is None else seat.journal.partition

    def index_of(self, key: str) -> int:
        topic = self._context.metadata.topics.get(self.topic)
        return coordinator_partition(key, len(topic.partitions)) if topic is not None and topic.partitions else -1

    def at(self, index: int) -> _S:
        seat = self._seats.get(index)
        if seat is None or not seat.journal.is_current:
            raise NotCoordinatorError(f"{self.topic}-{index} is led by another broker")
        if not seat.is_open:
            raise CoordinatorLoadInProgressError(f"{self.topic}-{index} is being loaded")
        return seat.shard

    def __iter__(self) -> Iterator[_S]:
        return (each.shard for each in list(self._seats.values()) if each.is_open and each.journal.is_current)

    @property
    def is_loading(self) -> bool:
        return any(not each.is_open and each.journal.is_current for each in self._seats.values())

    @property
    def is_doubtful(self) -> bool:
        """Whether any of this may be kept by another broker by now."""
        return any(self._context.contact.is_doubtful(each.journal.partition) for each in self._seats.values())

    # --------------------------------------------------------------------------------------------- coming and going

    def on_role_changed(self, partition: Partition) -> None:
        """A partition has another leader, another epoch, or is gone."""
        if partition.topic != self.topic:
            return
        seat = self._seats.get(partition.index)
        if seat is not None and not seat.journal.is_current:
            del self._seats[partition.index]
            seat.close()
            seat = None
        if seat is None and partition.leadership is not None and not partition.is_offline:
            self._load(partition)

    def _load(self, partition: Partition) -> None:
        journal = Journal(partition, self._context.clock, self._context.work)
        seat = self._seats[partition.index] = _Seat(journal, self._make(journal))
        self._context.work.spawn(self._fill(seat), f"loading {partition}")

    async def _fill(self, seat: _Seat[_S]) -> None:
        partition, began = seat.journal.partition, self._context.clock.monotonic_ms()
        try:
            async for batch in seat.journal.read_all():
                seat.shard.apply(batch)
        except (KafkaError, CorruptRecord) as error:
            # It keeps being loaded, which is what clients are told, until another broker leads.
            log.error("%s cannot be loaded: %s", partition, error)
            return
        if not seat.journal.is_current:
            log.info("%s is not led here any more, what was loaded is dropped", partition)
            return
        partition.watchers[seat] = None
        seat.is_open = True
        seat.shard.open()
        log.debug("%s was loaded in %d ms", partition, self._context.clock.monotonic_ms() - began)

    def close(self) -> None:
        """Serve nothing any more."""
        for seat in self._seats.values():
            seat.close()
        self._seats.clear()
