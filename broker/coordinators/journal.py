"""A partition of an internal topic, as its coordinator uses it: written in batches of its own, and read as a whole.

What was appended counts when all in-sync replicas have it. If that fails, or takes too long, nobody knows whether it is
there: it is never taken for written, and whoever asked for it is told to try again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from typing import Final, NamedTuple

from minikafka.broker.clock import Clock
from minikafka.broker.replicas.commits import Promise
from minikafka.broker.replicas.leadership import Leadership
from minikafka.broker.replicas.partition import ACKS_ALL, Partition
from minikafka.broker.replicas.waiting import CommitWait
from minikafka.broker.work import Work
from minikafka.protocol.compression import Compression
from minikafka.protocol.errors import KafkaError, NotLeaderOrFollowerError
from minikafka.protocol.records.batch import BatchView, read_whole_batches
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.protocol.records.encoder import Header
from minikafka.storage.errors import CorruptLog, ReadOvertaken, StorageError
from minikafka.storage.producers import Origin
from minikafka.storage.validation import RejectedRecords
from minikafka.storage.verification import Verification

log: Final = logging.getLogger(__name__)

_READ_BYTES: Final = 1 << 16
"""Few enough that nobody notices how long it takes to go through them."""

_LOAD_TIMEOUT_MS: Final = 10_000
"""After this the load looks whether it is still wanted."""


class Entry(NamedTuple):
    """A record to be written; without a value it deletes what is kept under the key."""

    key: bytes
    value: bytes | None


class LabelledEntry(NamedTuple):
    """A record to be written, with what others need not know of it."""

    key: bytes
    value: bytes | None
    headers: tuple[Header, ...]


class Within(NamedTuple):
    """The transaction that a batch is part of, which its coordinator has vouched for."""

    producer_id: int
    epoch: int
    verification: Verification | None


class Written(NamedTuple):
    """A batch that is in our own log."""

    base_offset: int
    promise: Promise | None
    """What is missing until it counts, if anything."""


class Journal:
    """One partition, as long as it is led here by one leadership."""

    def __init__(self, partition: Partition, clock: Clock, work: Work) -> None:
        leadership = partition.leadership
        assert leadership is not None
        self.partition = partition
        self.leadership: Leadership = leadership
        self._clock = clock
        self._work = work

    @property
    def is_current(self) -> bool:
        """Whether this still is the leader that it was, which is to be asked after every wait."""
        return self.partition.leadership is self.leadership and not self.partition.is_offline

    def append(
        self,
        entries: Iterable[Entry | LabelledEntry],
        compression: Compression = Compression.NONE,
        within: Within | None = None,
    ) -> Written:
        """Write entries as one batch."""
        if not self.is_current:
            raise NotLeaderOrFollowerError(f"{self.partition} is led by another, or anew")
        now_ms, builder = self._clock.wall_ms(), BatchBuilder()
        for entry in entries:
            builder.append(now_ms, *entry)
        verification = None
        if within is None:
            batch = builder.build(compression=compression)
        else:
            producer_id, epoch, verification = within
            batch = builder.build(
                compression=compression, producer_id=producer_id, producer_epoch=epoch, is_transactional=True
            )
        try:
            appended = self.partition.append(
                BatchView(batch), ACKS_ALL, now_ms, Origin.COORDINATOR, verification=verification
            )
        except RejectedRecords as rejected:
            raise rejected.error from rejected
        return Written(appended.base_offset, self.partition.promise(appended.last_offset + 1, ACKS_ALL))

    async def wait(self, written: Written, timeout_ms: int) -> KafkaError | None:
        """Wait until it counts; or why that is not known."""
        if written.promise is not None:
            errors = await CommitWait([written.promise]).wait_committed(timeout_ms)
            if errors:
                return errors[self.partition]
        return None if self.is_current else NotLeaderOrFollowerError(f"{self.partition} is led by another, or anew")

    async def read_all(self) -> AsyncIterator[BatchView]:
        """All batches that there are when this is called, once they are committed; fewer if leadership is lost.

        What is not committed may vanish with this leader, and whoever had been told of it would see it go back."""
        partition = self.partition
        end_offset = partition.log.log_end_offset
        await self._committed(end_offset)
        offset = partition.log.log_start_offset
        while self.is_current and offset < end_offset:
            plan = partition.log.plan_read(offset, _READ_BYTES, end_offset)
            try:
                data = await self._work.run_blocking(plan.run)
            except ReadOvertaken:
                offset = max(offset, partition.log.log_start_offset)
                continue
            except CorruptLog as error:
                raise partition.corruption(error) from error
            except StorageError as error:
                raise partition.disk_failure(error) from error
            batches, _ = read_whole_batches(data)
            if not batches:
                return
            for batch in batches:
                if not self.is_current:
                    return
                if batch.next_offset > offset:
                    yield batch
                    offset = batch.next_offset
            await asyncio.sleep(0)

    async def _committed(self, end_offset: int) -> None:
        while self.is_current:
            promise = self.partition.promise(end_offset, ACKS_ALL)
            if promise is None or not await CommitWait([promise]).wait_committed(_LOAD_TIMEOUT_MS):
                return
            log.info("%s: waiting for what was written before to be committed", self.partition)
            # Too few replicas is told at once, and would be told again at once.
            await asyncio.sleep(0.1)
