"""One partition that is followed: what to fetch next, and what came of it.

The log follows the leader's by epochs. A fetch says of which epoch the last batch is; if the leader has another end
for that epoch it says so, and the log is cut there: to the leader's end of the epoch, or to our own end of the largest
epoch that is not above it, and then asked again. It is never cut to the high watermark, of which a follower hears one
fetch late.

What is below the high watermark was committed. To cut it off would lose what was acknowledged, so that is done only
where the topic allows a leader that was not in sync, or where one was elected after our last record was written, on
request or because no better one was left (`leader_election`); else this replica stops and says so.
"""

from __future__ import annotations

import logging
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.replicas.dir_worker import DirWorker
from minikafka.broker.replicas.partition import Partition
from minikafka.protocol.messages.fetch import EpochEndOffset, FetchPartition
from minikafka.protocol.varint import Buffer
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.trimming import CutPlan, earlier_start, truncate_fully, truncate_to

log: Final = logging.getLogger(__name__)

_UNDEFINED: Final = -1


class CannotFollow(Exception):
    """Somebody has to look at this replica, and at no other, before it can go on."""


class TruncatedBelowCommitted(CannotFollow):
    """The leader's log ends before what this replica knows to be committed."""


class Following:
    """A partition in one epoch of its leader."""

    __slots__ = (
        *("_clock", "_worker", "asked", "asked_in", "failures", "is_failed", "key", "leader_epoch"),
        *("leader_high_watermark", "partition"),
    )

    def __init__(self, partition: Partition, worker: DirWorker, clock: Clock) -> None:
        self.partition = partition
        self.key = (partition.topic_id, partition.index)
        self.leader_epoch = partition.leader_epoch
        self._worker = worker
        self._clock = clock
        self.asked: FetchPartition | None = None
        """What the leader was asked for last, as its session remembers it."""
        self.asked_in = 0
        """The number of the request that did."""
        self.failures = 0
        """In a row."""
        self.is_failed = False
        self.leader_high_watermark: int | None = None
        """As the leader said last."""

    @property
    def is_current(self) -> bool:
        """Whether this is still what the partition is to be."""
        partition = self.partition
        return partition.leadership is None and not partition.is_offline and partition.leader_epoch == self.leader_epoch

    @property
    def is_behind(self) -> bool:
        """Whether it lacks something that is committed, or may."""
        committed = self.leader_high_watermark
        return committed is None or self.partition.log.log_end_offset < committed

    @property
    def lag(self) -> int:
        """How many records it lacks that are committed, as far as is known."""
        return max(0, (self.leader_high_watermark or 0) - self.partition.log.log_end_offset)

    @property
    def is_on_disk(self) -> bool:
        """Whether all that is here has been synced; after a crash what was found may not have been."""
        own = self.partition.log
        return own.recovery_point >= own.log_end_offset

    def wanted(self, max_bytes: int) -> FetchPartition:
        """The next fetch: from where our log ends."""
        own = self.partition.log
        latest = own.epochs.latest_epoch
        return FetchPartition(
            partition=self.partition.index,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=own.log_end_offset,
            last_fetched_epoch=_UNDEFINED if latest is None else latest,
            log_start_offset=own.log_start_offset,
            partition_max_bytes=max_bytes,
        )

    # -------------------------------------------------------------------------------------------------- cutting

    async def cut_at(self, diverging: EpochEndOffset) -> None:
        """Cut the log where it parts from the leader's."""
        own = self.partition.log
        if diverging.end_offset == _UNDEFINED:
            offset = own.high_watermark
        else:
            epoch, end_offset = own.end_offset_for_epoch(diverging.epoch)
            offset = min(diverging.end_offset, own.log_end_offset)
            if epoch != _UNDEFINED:
                # Of an epoch that we lack, what we have of the largest before it may still differ: it is asked again.
                offset = min(offset, end_offset) if epoch == diverging.epoch else min(end_offset, own.log_end_offset)
        await self._truncate(offset)

    async def cut_to_end(self, leader_end_offset: int) -> None:
        """The leader's log ends before ours."""
        await self._truncate(leader_end_offset)

    @property
    def _may_lose_committed(self) -> bool:
        partition = self.partition
        latest = partition.log.epochs.latest_epoch
        is_superseded = (_UNDEFINED if latest is None else latest) < partition.unclean_epoch
        return is_superseded or partition.config.unclean_leader_election_enable

    async def _truncate(self, offset: int) -> None:
        partition = self.partition
        if offset < partition.log.high_watermark and not self._may_lose_committed:
            raise TruncatedBelowCommitted(
                f"{partition}: the leader's log ends at {offset}, and here {partition.log.high_watermark} is committed"
            )
        end_offset = partition.log.log_end_offset
        if offset < end_offset:
            log.info("%s: cut from %d to %d, where the leader's log differs", partition, end_offset, offset)
        try:
            await self._prepare_cut(offset)
            if not self.is_current:
                return
            plan = await self._plan_cut(offset)
            if not self.is_current:
                return
            truncate_to(partition.log, offset, self._clock.wall_ms(), plan)
            job = partition.log_dir.after_truncation([partition.name])
            if job is not None:
                await self._worker.do(job)
        except StorageError as error:
            raise partition.disk_failure(error) from error

    async def _prepare_cut(self, offset: int) -> None:
        """Nothing is cut yet, so a bad batch is found here with the log as it was: the disk need not be bad for it."""
        partition = self.partition
        try:
            job = partition.log_dir.before_truncation({partition.name: offset})
        except CorruptLog as error:
            raise CannotFollow(f"{partition}: {error}") from error
        if job is not None:
            await self._worker.do(job)

    async def _plan_cut(self, offset: int) -> CutPlan | None:
        """What may mean reading or copying a segment is done by a thread."""
        partition = self.partition
        try:
            job = partition.log_dir.prepare_cut(partition.name, offset, self._clock.wall_ms())
            if job is None:
                return None
            await self._worker.do(job)
        except CorruptLog as error:
            raise CannotFollow(f"{partition}: {error}") from error
        return job.plan

    async def begin_earlier(self, records: Buffer) -> None:
        """If the leader's log starts within a batch, and ours is empty, let ours begin with that batch."""
        partition = self.partition
        offset = earlier_start(partition.log, records)
        if offset is None:
            return
        log.info("%s: begins at %d, with the batch in which the leader's log starts", partition, offset)
        try:
            await self._prepare_cut(offset)
            if self.is_current:
                truncate_fully(partition.log, offset)
        except StorageError as error:
            raise partition.disk_failure(error) from error

    def start_over_at(self, offset: int) -> None:
        """The leader has nothing of what comes next here any more: go on where its log begins."""
        partition = self.partition
        log.warning(
            "%s: ends at %d, and the leader's log begins at %d", partition, partition.log.log_end_offset, offset
        )
        try:
            truncate_fully(partition.log, offset)
        except StorageError as error:
            raise partition.disk_failure(error) from error
