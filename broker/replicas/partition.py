"""One replica of a partition: its role and epoch, its high watermark, and the way to its log.

Every request for a partition comes through here, so this is where role and epoch are checked, where the disk's errors
end (the log directory goes offline, the peer gets KAFKA_STORAGE_ERROR), and where whoever waits is woken.

What has been told to nobody yet is not decided: after every `await` a caller asks again, and an answer that depends on
the role compares `leader_epoch`.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from minikafka.broker.config.topic import TopicConfig
from minikafka.broker.replicas.bound import Bound
from minikafka.broker.replicas.commits import CommitQueue, Promise
from minikafka.broker.replicas.keepers import Keepers
from minikafka.broker.replicas.leadership import NO_BROKER_EPOCH, FollowerFetch, Leadership, Moment
from minikafka.broker.statistics import TopicStatistics
from minikafka.protocol.control import PartitionState
from minikafka.protocol.errors import (
    CorruptMessageError,
    FencedLeaderEpochError,
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
    UnknownLeaderEpochError,
)
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.varint import Buffer
from minikafka.storage.durability import Durability, Verdict
from minikafka.storage.errors import StorageError
from minikafka.storage.log import Appended, Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.producers import Origin
from minikafka.storage.reading import ReadPlan
from minikafka.storage.trimming import advance_log_start
from minikafka.storage.validation import Inspected
from minikafka.storage.verification import Verification

log: Final = logging.getLogger(__name__)

NO_EPOCH: Final = -1
ACKS_ALL: Final = -1
_CLIENT: Final = Origin.CLIENT


class Watcher(Protocol):
    """Something that waits for partitions to change."""

    def on_change(self, partition: Partition) -> None: ...


class Partition:
    """See the module's description."""

    def __init__(
        self,
        broker_id: int,
        name: tuple[str, int],
        topic_id: bytes,
        log: Log,
        log_dir: LogDir,
        config: TopicConfig,
        statistics: TopicStatistics,
        keepers: Keepers,
    ) -> None:
        # What it is, for good.
        self.broker_id = broker_id
        self.name = name
        self.topic, self.index = name
        self.topic_id = topic_id
        self.log = log
        self.log_dir = log_dir
        self.statistics = statistics
        self._keepers = keepers
        self._is_strict = keepers.flusher.durability is Durability.FSYNC
        # Its role, as the controller told it last.
        self.leader_id = -1
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = self.unclean_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.leadership: Leadership | None = None
        self.is_offline = False
        # Whoever waits, in the order in which they came.
        self.watchers: dict[Watcher, None] = {}
        self.commits = CommitQueue()
        self.appended_bytes = 0
        self.min_isr = 1
        self.reconfigure(config)

    # ------------------------------------------------------------------------------------------------- role

    def become_leader(self, state: PartitionState) -> None:
        """Lead, or go on leading with other in-sync replicas."""
        leadership = self.leadership
        if leadership is None or state.leader_epoch != self.leader_epoch:
            leadership = Leadership(self.broker_id, state.leader_epoch, self.log.log_end_offset)
            leadership.early.on_elected(state.leader_epoch, self._keepers.clock.monotonic_ms())
            # Also if nothing is ever written in it: a follower has to learn that the epoch before it is over.
            self.log.start_epoch(state.leader_epoch)
        now_ms = self._keepers.clock.monotonic_ms()
        leadership.update(state.replicas, state.isr, state.partition_epoch, now_ms, is_recovering=state.is_recovering)
        leadership.eligible = tuple(state.eligible_replicas)
        self._take_role(state, leadership)
        if self._is_strict and self.own_end_offset < self.log.log_end_offset:
            # It counts when it is on disk, and nobody else may ever ask for that.
            self._keepers.flusher.request(self.log, self.log.log_end_offset, self._on_synced)
        if leadership.is_recovering:
            # What could be recovered was when the log was loaded; the controller may forget how it came to this.
            self._propose(leadership, leadership.isr)
        self.advance_high_watermark()

    def become_follower(self, state: PartitionState) -> None:
        """Follow whoever leads now, or wait for somebody to."""
        self._take_role(state, None)

    def _take_role(self, state: PartitionState, leadership: Leadership | None) -> None:
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch, self.unclean_epoch = state.partition_epoch, state.unclean_epoch
        self.replicas = tuple(state.replicas)
        self.leadership = leadership
        self.reconfigure_min_isr()
        self.wake()

    def resign(self) -> None:
        """Lead no longer; whoever waits is told so."""
        if self.leadership is not None:
            self.leadership = None
            # Told the same again, it leads again.
            self.partition_epoch = NO_EPOCH
            self.wake()

    def take_offline(self) -> None:
        """The disk has failed, or the replica is to go: nothing more is answered from here."""
        self.is_offline = True
        self.leadership = None
        self.wake()

    def reconfigure(self, config: TopicConfig) -> None:
        """The topic's configuration changed."""
        self.config = config
        self.log.reconfigure(config.log)
        self.reconfigure_min_isr()

    def reconfigure_min_isr(self) -> None:
        # More replicas than there are cannot be asked for.
        self.min_isr = min(self.config.min_insync_replicas, len(self.replicas) or 1)

    # ----------------------------------------------------------------------------------------------- checks

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Compare the epoch that a peer believes in; -1 if it says nothing of it."""
        if current_leader_epoch == NO_EPOCH:
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpochError(
                f"{self}: the epoch is {self.leader_epoch}, not {current_leader_epoch} any more"
            )
        if current_leader_epoch > self.leader_epoch:
            raise UnknownLeaderEpochError(
                f"{self}: the epoch is {self.leader_epoch}, {current_leader_epoch} is unknown"
            )

    def check_leader(self) -> Leadership:
        leadership = self.leadership
        if leadership is None:
            self.check_online()
            raise NotLeaderOrFollowerError(f"{self}: broker {self.broker_id} does not lead it")
        return leadership

    def check_online(self) -> None:
        if self.is_offline or self.log_dir.is_offline:
            raise KafkaStorageError(f"{self}: its log directory is offline")

    # ---------------------------------------------------------------------------------------------- writing

    def append(
        self,
        batch: BatchView,
        acks: int,
        now_ms: int,
        origin: Origin = _CLIENT,
        verification: Verification | None = None,
        inspected: Inspected | None = None,
    ) -> Appended:
        """Write a batch as the leader; Costly if its records have to be inspected in a thread first."""
        leadership = self.leadership or self.check_leader()
        if acks == ACKS_ALL and len(leadership.isr) < self.min_isr:
            self.on_refused(batch)
            raise NotEnoughReplicasError(f"{self}: {len(leadership.isr)} in-sync replicas, {self.min_isr} are needed")
        if leadership.early.is_watchful and batch.base_sequence > 0:
            self._check_first(leadership, batch)
        try:
            appended = self.log.append_as_leader(batch, leadership.epoch, now_ms, origin, verification, inspected)
        except StorageError as error:
            raise self.disk_failure(error) from error
        except OutOfOrderSequenceNumberError as error:
            raise self._out_of_order(leadership, batch, error) from None
        if not appended.is_duplicate:
            self.appended_bytes += batch.size
            if not leadership.is_alone:
                leadership.on_append(appended.base_offset, self._keepers.clock.monotonic_ms())
            if self._is_strict:
                self._keepers.flusher.request(self.log, self.log.log_end_offset, self._on_synced)
            elif leadership.is_alone:
                self.log.update_high_watermark(self.log.log_end_offset)
            elif len(leadership.maximal_isr) == 1:
                self.advance_high_watermark()
            if self.watchers or self.commits:
                self.wake()
        return appended

    def on_refused(self, batch: BatchView) -> None:
        """A batch was refused in such a way that it will be sent again; those behind it may come before it does."""
        if self.leadership is not None:
            producer, now_ms = self.log.producers.get(batch.producer_id), self._keepers.clock.monotonic_ms()
            self.leadership.early.on_refused(batch, producer, now_ms)

    def _check_first(self, leadership: Leadership, batch: BatchView) -> None:
        producer, now_ms = self.log.producers.get(batch.producer_id), self._keepers.clock.monotonic_ms()
        if producer is None and not leadership.early.may_be_first(batch, now_ms):
            raise NotLeaderOrFollowerError(f"{self}: the first batch of producer {batch.producer_id} may be on its way")

    def _out_of_order(self, leadership: Leadership, batch: BatchView, error: KafkaError) -> KafkaError:
        producer, now_ms = self.log.producers.get(batch.producer_id), self._keepers.clock.monotonic_ms()
        if leadership.early.is_excused(batch, producer, leadership.start_offset, now_ms):
            return NotLeaderOrFollowerError(f"{self}: a batch before this one was refused and has not come again yet")
        return error

    def _on_synced(self, verdict: Verdict) -> None:
        """What was appended is on disk, or nobody knows; then the directory is offline, or leads no more."""
        if verdict is Verdict.SYNCED:
            self.advance_high_watermark()
            self.wake()

    def promise(self, offset: int, acks: int) -> Promise | None:
        """What has to come true before the producer of all below an offset is answered; None if it has."""
        log = self.log
        if acks == ACKS_ALL:
            if log.high_watermark >= offset:
                return None
        elif self.own_end_offset >= offset:
            return None
        return Promise(self, self.leader_epoch, offset, acks == ACKS_ALL)

    @property
    def own_end_offset(self) -> int:
        """How far this replica counts: to its log end, or to what is on disk."""
        return self.log.recovery_point if self._is_strict else self.log.log_end_offset

    def advance_high_watermark(self) -> None:
        """Commit what all in-sync replicas have, unless there are too few of them to say so."""
        leadership = self.leadership
        if leadership is None or len(leadership.isr) < self.min_isr or leadership.eligible:
            return
        committed = leadership.committed_offset(self.own_end_offset, self._moment())
        if committed > self.log.high_watermark:
            self.log.update_high_watermark(committed)
            self.wake()

    # ------------------------------------------------------------------------------------------------ leading

    def on_follower_fetch(self, fetch: FollowerFetch) -> None:
        """A follower has everything below an offset: that may commit records, and bring it into the ISR."""
        leadership = self.check_leader()
        follower = leadership.followers.get(fetch.broker_id)
        if follower is None:
            raise NotLeaderOrFollowerError(f"{self}: broker {fetch.broker_id} has no replica of it")
        if fetch.broker_epoch == NO_BROKER_EPOCH:
            # Anybody can say a number. Only of a registered process it is believed what it has.
            return
        if fetch.broker_epoch < follower.broker_epoch:
            # Late, from before its restart: it may not have any more what it had then.
            raise NotLeaderOrFollowerError(f"{self}: broker {fetch.broker_id} has been started anew since")
        follower.on_fetch(fetch, self.log.log_end_offset, self._keepers.clock.monotonic_ms())
        is_outside = leadership.proposed is None and fetch.broker_id not in leadership.maximal_isr
        if is_outside and leadership.may_join(fetch.broker_id, self.log.high_watermark, self._keepers.broker_epochs()):
            self._propose(leadership, (*leadership.isr, fetch.broker_id))
        self.advance_high_watermark()

    def expand_isr(self) -> None:
        """Propose to let in followers that have everything, and so nothing more to say of themselves."""
        leadership, epochs = self.leadership, self._keepers.broker_epochs()
        if leadership is not None and (joining := leadership.idle_outside(self.log.log_end_offset, epochs)):
            self._propose(leadership, (*leadership.isr, *joining))

    def _propose(self, leadership: Leadership, isr: tuple[int, ...]) -> None:
        leadership.propose(isr)
        self._keepers.on_proposal(self)

    def shrink_isr(self) -> None:
        """Propose to do without followers that lag behind for too long."""
        leadership = self.leadership
        if leadership is None or leadership.proposed is not None:
            return
        if late := leadership.out_of_sync(self._moment()):
            log.info("%s: followers %s are not in sync any more", self, sorted(late))
            self._propose(leadership, tuple(each for each in leadership.isr if each not in late))

    def _moment(self) -> Moment:
        keepers = self._keepers
        now_ms = keepers.clock.monotonic_ms()
        return Moment(self.log.log_end_offset, now_ms, keepers.lag_ms_max(), keepers.broker_epochs())

    def settle_isr(self, leadership: Leadership) -> None:
        """A proposal was answered: producers may have waited for it."""
        if leadership is self.leadership:
            self.partition_epoch = leadership.partition_epoch
            self.advance_high_watermark()
            self.wake()

    # ---------------------------------------------------------------------------------------------- following

    def append_fetched(self, records: Buffer, leader_epoch: int) -> bool:
        """Write what the leader sent; False if this is not the follower of that epoch any more."""
        if self.leadership is not None or self.is_offline or leader_epoch != self.leader_epoch:
            return False
        try:
            appended = self.log.append_as_follower(records, self._keepers.clock.wall_ms())
        except StorageError as error:
            raise self.disk_failure(error) from error
        if appended is not None:
            self.appended_bytes += len(records)
            self.statistics.replication_bytes_in += len(records)
            self.wake()
        return True

    def follow_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """What the leader says is committed, and what is deleted."""
        try:
            if high_watermark > self.log.high_watermark:
                self.log.update_high_watermark(high_watermark)
                self.wake()
            if log_start_offset > self.log.log_start_offset:
                advance_log_start(self.log, min(log_start_offset, self.log.high_watermark))
        except StorageError as error:
            raise self.disk_failure(error) from error

    # ---------------------------------------------------------------------------------------------- reading

    def bound(self, *, is_committed: bool, is_follower: bool = False) -> Bound:
        """What a reader gets to see, by its isolation level; a follower sees all."""
        log = self.log
        high_watermark, stable = log.high_watermark, log.last_stable_offset
        offset = log.log_end_offset if is_follower else stable if is_committed else high_watermark
        return Bound(offset, high_watermark, stable, log.log_start_offset)

    def plan_read(self, offset: int, max_bytes: int, bound: Bound) -> ReadPlan:
        """What to read; OffsetOutOfRange if there is nothing at the offset and never will be."""
        try:
            return self.log.plan_read(offset, max_bytes, bound.offset)
        except StorageError as error:
            raise self.disk_failure(error) from error

    # ------------------------------------------------------------------------------------------------ waking

    def wake(self) -> None:
        """Something changed: whoever waits looks again."""
        for watcher in list(self.watchers):
            watcher.on_change(self)
        if self.commits:
            self.commits.settle(self.leadership, self.log.high_watermark, self.own_end_offset)

    def disk_failure(self, error: StorageError) -> KafkaStorageError:
        """The directory goes offline with all that is in it."""
        self._keepers.on_disk_failure(self.log_dir, str(error))
        return KafkaStorageError(f"{self}: its log directory is offline")

    def corruption(self, error: StorageError) -> CorruptMessageError:
        """A batch is bad that was good: the disk works, but this cannot be handed out."""
        log.error("%s: %s", self, error)
        return CorruptMessageError(f"{self}: a batch on disk is damaged")

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"
