"""Reading partitions for a fetch: what is there now, within the limits of the request.

The first partition that has anything gives at least one whole batch, however large; all others stay within what is
left. What is not in memory is read by a thread: `read_now` says so with ColdRead, and `read` waits for it. After a
wait the log may be another, so bytes count only if nothing was cut off meanwhile.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.broker.replicas.leadership import FollowerFetch
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.work import Work
from minikafka.protocol.errors import KafkaError, OffsetOutOfRangeError
from minikafka.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchablePartitionResponse,
    FetchPartition,
)
from minikafka.protocol.records.batch import read_whole_batches
from minikafka.protocol.varint import Buffer
from minikafka.storage.errors import CorruptLog, ReadOvertaken, StorageError
from minikafka.storage.reading import ReadPlan
from minikafka.storage.scanning import ColdRead

_NO_EPOCH: Final = -1


class Reader(NamedTuple):
    """Who reads, and so what it gets to see."""

    is_committed: bool = False
    follower_id: int = -1
    follower_epoch: int = -1
    may_read_follower: bool = False

    @property
    def is_follower(self) -> bool:
        return self.follower_id >= 0

    def readable_end(self, partition: Partition) -> int:
        """The offset below which it sees what a partition has."""
        log = partition.log
        if self.follower_id >= 0:
            return log.log_end_offset
        return log.last_stable_offset if self.is_committed else log.high_watermark


class Budget:
    """How many bytes an answer may still hold; the first to take from it may take more."""

    __slots__ = ("has_some", "left")

    def __init__(self, max_bytes: int) -> None:
        self.left = max_bytes
        self.has_some = False

    def take(self, count: int) -> None:
        if count:
            self.has_some = True
            self.left = max(0, self.left - count)


class PartitionRead:
    """One partition of one fetch: begun on the loop, maybe read elsewhere, finished on the loop."""

    __slots__ = (
        "_bound",
        "_budget",
        "_generation",
        "_max_bytes",
        "_plan",
        "answer",
        "error",
        "has_more",
        "partition",
        "reader",
    )

    def __init__(self, partition: Partition, wanted: FetchPartition, reader: Reader, budget: Budget) -> None:
        self.partition = partition
        self.reader = reader
        self.error: KafkaError | None = None
        """What kept it from being read; the caller has to look."""
        self._budget = budget
        partition.check_epoch(wanted.current_leader_epoch)
        if not reader.may_read_follower:
            partition.check_leader()
        partition.check_online()
        is_follower = reader.follower_id >= 0
        bound = partition.bound(is_committed=reader.is_committed, is_follower=is_follower)
        self._bound = bound
        self.has_more = wanted.fetch_offset < bound.offset
        """Whether there is something to read from here, in this answer or, as long as nothing else is wanted, later."""
        self.answer = FetchablePartitionResponse(
            partition_index=partition.index,
            high_watermark=bound.high_watermark,
            last_stable_offset=bound.last_stable_offset,
            log_start_offset=bound.log_start_offset,
            records=b"",
        )
        self._generation = partition.log.generation
        self._max_bytes = min(wanted.partition_max_bytes, budget.left)
        self._plan = self._planned(wanted)
        if is_follower and self.answer.diverging_epoch is None:
            partition.on_follower_fetch(
                FollowerFetch(reader.follower_id, reader.follower_epoch, wanted.fetch_offset, wanted.log_start_offset)
            )

    def _planned(self, wanted: FetchPartition) -> ReadPlan | None:
        if wanted.last_fetched_epoch != _NO_EPOCH:
            diverging = _diverging(self.partition, wanted)
            if diverging is not None:
                self.answer.diverging_epoch = diverging
                return None
        plan = self.partition.plan_read(wanted.fetch_offset, max(0, self._max_bytes), self._bound)
        # Without room only the first batch of the whole answer is read.
        return plan if self._max_bytes > 0 or not self._budget.has_some else None

    def leave(self) -> None:
        """Read nothing: the reader is sent elsewhere."""
        self._plan = None

    def read_now(self) -> None:
        """Read what is in memory; raises ColdRead if it is not."""
        if self._plan is not None:
            try:
                self._finish(self._plan.run_nowait() if self.has_more else b"")
            except StorageError as error:
                self._fail(error)

    async def read(self, work: Work) -> None:
        """Read it from wherever it is."""
        try:
            self.read_now()
        except ColdRead:
            await self._read_waiting(work)

    async def _read_waiting(self, work: Work) -> None:
        while self._plan is not None:
            plan = self._plan
            try:
                data = await work.run_blocking(plan.run)
            except ReadOvertaken:
                if not self._is_same_log():
                    return
                self._plan_again(plan)
            except StorageError as error:
                if self._is_same_log():
                    self._fail(error)
                return
            else:
                if self._is_same_log():
                    self._finish(data)
                return

    def _plan_again(self, plan: ReadPlan) -> None:
        """Retention or compaction has taken the segment away; what is left of the log may still have the offset."""
        self._plan = None
        try:
            self._plan = self.partition.plan_read(plan.offset, plan.max_bytes, self._bound)
        except KafkaError as error:
            self.error = error

    def _is_same_log(self) -> bool:
        return self.partition.log.generation == self._generation and not self.partition.is_offline

    def _fail(self, error: StorageError) -> None:
        # One bad batch is not a bad disk: whoever wants it gets an error, and the rest can still be read.
        is_bad_batch = isinstance(error, CorruptLog)
        self.error = self.partition.corruption(error) if is_bad_batch else self.partition.disk_failure(error)

    def _finish(self, data: Buffer) -> None:
        if self._budget.has_some and len(data) > self._max_bytes:
            data = b""
        self._budget.take(len(data))
        self.answer.records = data
        if self.reader.is_committed:
            self.answer.aborted_transactions = self._aborted(data) if data else []
        statistics = self.partition.statistics
        statistics.fetch_requests += 1
        if self.reader.follower_id >= 0:
            statistics.replication_bytes_out += len(data)
        else:
            statistics.bytes_out += len(data)

    def _aborted(self, data: Buffer) -> list[AbortedTransaction]:
        """The aborted transactions that a reader of these batches has to skip."""
        assert self._plan is not None
        if not self.partition.log.has_aborted_from(self._plan.offset):
            return []
        # Up to where the batches go: what was aborted behind them is for a later fetch.
        batches, _ = read_whole_batches(data)
        end = batches[-1].next_offset if batches else self._bound.offset
        return [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in self.partition.log.aborted_transactions(self._plan.offset, end)
        ]


def _diverging(partition: Partition, wanted: FetchPartition) -> EpochEndOffset | None:
    """Where a reader's log and ours part, if they do before the offset it wants."""
    epoch, end_offset = partition.log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch == _NO_EPOCH:
        raise OffsetOutOfRangeError(f"{partition}: nothing is known of epoch {wanted.last_fetched_epoch}")
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None
