"""All replicas of this broker, made, led, followed and removed as the controller says.

The controller's requests are carried out one at a time, in order, and to the end (`turns`). What it says of a partition
counts if its leader epoch, or within one epoch its partition epoch, is newer than what was said before; the same again
changes nothing. If our session is over before a request is carried out, it gives no roles any more.

A log that is here belongs to the topic whose id it has. One of another topic, or of none that the controller knows of,
is set aside under another name: data is not deleted because somebody did not mention it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final, TypeAlias

from minikafka.broker.clock import Clock
from minikafka.broker.descriptors import Descriptors
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.metadata import Metadata
from minikafka.broker.replicas.dir_worker import DirWorker
from minikafka.broker.replicas.flusher import Flusher
from minikafka.broker.replicas.keepers import Keepers
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replicas.throttle import Throttle
from minikafka.broker.replicas.turns import Turns, all_of
from minikafka.broker.statistics import Statistics
from minikafka.broker.work import Work
from minikafka.protocol.control import PartitionState, StoppedPartition
from minikafka.protocol.errors import (
    ErrorCode,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    StaleBrokerEpochError,
    StaleControllerEpochError,
    UnknownTopicOrPartitionError,
)
from minikafka.storage.durability import Durability
from minikafka.storage.errors import StorageError
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_dirs import LogDirs

log: Final = logging.getLogger(__name__)

_COUNT_MS: Final = 10_000
"""Counting segments again takes a millisecond or two with thousands of partitions."""

Name: TypeAlias = tuple[str, int]
Errors: TypeAlias = dict[Name, ErrorCode]


class Partitions:
    """See the module's description."""

    def __init__(
        self,
        broker_id: int,
        log_dirs: LogDirs,
        config: LiveConfig,
        metadata: Metadata,
        clock: Clock,
        work: Work,
        statistics: Statistics,
    ) -> None:
        self.broker_id = broker_id
        self.log_dirs = log_dirs
        self.statistics = statistics
        self.workers = {each: DirWorker(each, work, self._on_dir_failed) for each in log_dirs.dirs}
        self.flusher = Flusher(self.workers.values(), Durability(config.broker.minikafka_durability), clock, work)
        self.all: dict[Name, Partition] = {}
        self.on_role_changed: Callable[[Partition], None] = _ignore
        """Called when a partition has another leader, another epoch, or is gone."""
        self.on_dir_failed: Callable[[LogDir], None] = _ignore
        self.read_configs: Callable[[Iterable[str]], Awaitable[None]] = _read_nothing
        """Has the newest configs of topics whose logs are about to be opened."""
        self.on_proposal: Callable[[Partition], None] = _ignore
        """Called when a leader wants another ISR."""
        self.leader_throttle = Throttle(
            lambda: config.broker.leader_replication_throttled_rate,
            lambda partition: partition.config.leader_throttled_replicas,
            clock,
        )
        self.follower_throttle = Throttle(
            lambda: config.broker.follower_replication_throttled_rate,
            lambda partition: partition.config.follower_throttled_replicas,
            clock,
        )
        self._keepers = Keepers(
            clock=clock,
            flusher=self.flusher,
            on_disk_failure=self._fail_dir,
            lag_ms_max=lambda: config.broker.replica_lag_time_max_ms,
            broker_epochs=lambda: metadata.broker_epochs,
            on_proposal=lambda partition: self.on_proposal(partition),
        )
        self._config = config
        self._metadata = metadata
        self._clock = clock
        self.descriptors = Descriptors()
        """What is left of them for logs."""
        self.descriptors.count_logs = self._count_files
        # Segments beyond the first of each log, and when they were counted.
        self._more_segments, self._counted_ms = 0, -_COUNT_MS
        # Logs that are being made.
        self._making = 0
        # Replicas that are here, by topic.
        self._counts: Counter[str] = Counter()
        # Replicas that should be here and cannot be used.
        self._broken: set[Name] = set()
        self._turns = Turns(work)
        # How many sessions are over: what was asked in an earlier one gives no roles.
        self._sessions_lost = 0
        config.add_listener(self._on_config)

    # ----------------------------------------------------------------------------------------------- finding

    def get(self, topic: str, index: int) -> Partition:
        """A replica that is here, in whatever role; the error to answer with if it is not."""
        found = self.all.get((topic, index))
        if found is None:
            raise self.absence(topic, index)
        return found

    def absence(self, topic: str, index: int) -> KafkaError:
        """Why a replica is not here."""
        if (topic, index) in self._broken:
            return KafkaStorageError(f"{topic}-{index}: its log directory is offline")
        if self._metadata.partition(topic, index) is None:
            return UnknownTopicOrPartitionError(f"there is no partition {topic}-{index}")
        return NotLeaderOrFollowerError(f"{topic}-{index}: broker {self.broker_id} has no replica of it")

    def _count_files(self) -> int:
        """The files of all logs. New logs count at once; segments are rolled rarely."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._counted_ms >= _COUNT_MS:
            self._counted_ms = now_ms
            self._more_segments = sum(len(each.log.segments) - 1 for each in self.all.values())
        return len(self.all) + self._making + self._more_segments

    @property
    def offline_count(self) -> int:
        """Replicas that should be here and cannot be used."""
        return len(self._broken)

    # ------------------------------------------------------------------------------------------------- roles

    def apply(
        self, states: Sequence[PartitionState], *, is_full: bool, kept_topics: Collection[str] = ()
    ) -> Awaitable[Errors]:
        """Become what the controller says; the partitions for which that was not possible, with the reason.

        What a full list leaves out is set aside, but for topics that are to be kept.
        """
        act = partial(self._apply, states, self._sessions_lost, is_full=is_full, kept_topics=kept_topics)
        return self._turns.take(act, "taking roles")

    async def _apply(
        self, states: Sequence[PartitionState], session: int, *, is_full: bool, kept_topics: Collection[str]
    ) -> Errors:
        if is_full and session == self._sessions_lost:
            await self._set_strays_aside({(state.topic, state.partition) for state in states}, kept_topics)
        await self.read_configs({each.topic for each in states if (each.topic, each.partition) not in self.all})
        outcomes = await all_of(self._apply_one(state, session) for state in states)
        return {(state.topic, state.partition): code for state, code in zip(states, outcomes, strict=True) if code}

    async def _apply_one(self, state: PartitionState, session: int) -> ErrorCode:
        name = (state.topic, state.partition)
        try:
            partition = self.all.get(name)
            if partition is not None and partition.topic_id != state.topic_id:
                await self._set_aside(name)
                partition = None
            if partition is None:
                partition = await self._open(state)
            elif not _is_news(partition, state) and not self._has_resigned(partition, state):
                return ErrorCode.NONE
            if session != self._sessions_lost:
                raise StaleBrokerEpochError("it was meant for a session that is over")
            self._assume_role(partition, state)
        except StorageError as error:
            log.error("%s-%d cannot be used: %s", *name, error)
            self._broken.add(name)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except KafkaError as error:
            log.warning("%s-%d: %s", *name, error)
            return error.code
        return ErrorCode.NONE

    def _has_resigned(self, partition: Partition, state: PartitionState) -> bool:
        """Whether it leads no more since our session was over, and the controller wants it to go on."""
        return state.leader == self.broker_id and partition.leadership is None

    def _assume_role(self, partition: Partition, state: PartitionState) -> None:
        self._broken.discard(partition.name)
        if state.leader == self.broker_id:
            partition.become_leader(state)
        else:
            partition.become_follower(state)
        self.on_role_changed(partition)

    def stop(self, stopped: Sequence[StoppedPartition]) -> Awaitable[Errors]:
        """Give partitions up, and delete those that are to be deleted."""
        return self._turns.take(partial(self._stop, stopped), "giving up replicas")

    async def _stop(self, stopped: Sequence[StoppedPartition]) -> Errors:
        outcomes = await all_of(map(self._stop_one, stopped))
        return {(each.topic, each.partition): code for each, code in zip(stopped, outcomes, strict=True) if code}

    async def _stop_one(self, stopped: StoppedPartition) -> ErrorCode:
        name = (stopped.topic, stopped.partition)
        partition = self.all.get(name)
        if partition is not None:
            if stopped.topic_id and partition.topic_id != stopped.topic_id:
                return ErrorCode.NONE
            if 0 <= stopped.leader_epoch < partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
        self._remove(name)
        self._broken.discard(name)
        if not stopped.delete:
            return ErrorCode.NONE
        try:
            await self._delete(name, stopped.topic_id)
        except StorageError as error:
            log.error("%s-%d cannot be deleted: %s", *name, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    # -------------------------------------------------------------------------------------------------- logs

    async def _open(self, state: PartitionState) -> Partition:
        """The replica with its log, which may be here already from before the start."""
        name = (state.topic, state.partition)
        log_dir = await self._settled_dir(name)
        if log_dir is not None:
            known_id = log_dir.topic_ids.get(name)
            if known_id is not None and known_id != state.topic_id:
                await self._set_aside(name)
                log_dir = None
            elif name in log_dir.corrupt:
                raise log_dir.corrupt[name]
            elif known_id is None:
                await self.workers[log_dir].do(log_dir.assign_topic_id(name, state.topic_id))
        if log_dir is None:
            if self.descriptors.logs_left <= 0:
                raise StorageError("there is no file descriptor left for its log")
            self._making += 1
            try:
                log_dir = await self._create(state)
            finally:
                self._making -= 1
        # It may have failed since, and then it took along only what was known to be there.
        log_dir.check_online()
        partition = Partition(
            self.broker_id,
            name,
            state.topic_id,
            log_dir.logs[name],
            log_dir,
            self._config.topic(state.topic),
            self.statistics.topic(state.topic),
            self._keepers,
        )
        self._counts[name[0]] += name not in self.all
        self.all[name] = partition
        return partition

    async def _settled_dir(self, name: Name) -> LogDir | None:
        """Where a log is; one that is still being made is waited for, or there would be two of it."""
        log_dir = self.log_dirs.dir_of(name)
        if log_dir is None or name not in log_dir.creating:
            return log_dir
        await self.workers[log_dir].wait_idle()
        if name in log_dir.creating:
            raise StorageError(f"it was being made in {log_dir.path}, and nobody knows how far that came")
        return self.log_dirs.dir_of(name)

    async def _create(self, state: PartitionState) -> LogDir:
        """Make a log in the best place, or the next best if that fails."""
        name = (state.topic, state.partition)
        self.log_dirs.check_absent(name, is_new=state.is_new)
        config = self._config.topic(state.topic).log
        for log_dir in self.log_dirs.by_room():
            if log_dir.is_offline:
                continue
            job = log_dir.create(name, state.topic_id, config, self._clock.wall_ms())
            try:
                await self.workers[log_dir].do(job)
            except StorageError:
                if not log_dir.is_offline or job.may_be_complete:
                    raise
            else:
                return log_dir
        raise StorageError("there is no log directory left")

    async def _set_strays_aside(self, wanted: set[Name], kept_topics: Collection[str]) -> None:
        """What the controller has not mentioned in a list of all is not ours any more."""
        here = [name for each in self.log_dirs.online for name in (*each.logs, *each.corrupt)]
        kept = set(kept_topics)
        for name in here:
            if name not in wanted and name[0] not in kept:
                await self._set_aside(name)

    async def _set_aside(self, name: Name) -> None:
        self._remove(name)
        log_dir = await self._settled_dir(name)
        if log_dir is not None:
            log.warning("%s-%d in %s is of no topic of this cluster, it is renamed and kept", *name, log_dir.path)
            await self.workers[log_dir].do(log_dir.set_aside(name, self._clock.wall_ms()))

    async def _delete(self, name: Name, topic_id: bytes) -> None:
        log_dir = await self._settled_dir(name)
        if log_dir is None:
            if any(each.is_offline for each in self.log_dirs.dirs):
                raise StorageError("it may be in a log directory that is offline")
            return
        if topic_id and log_dir.topic_ids.get(name, topic_id) != topic_id:
            return
        await self.workers[log_dir].do(log_dir.delete(name, self._clock.wall_ms()))

    def _remove(self, name: Name) -> None:
        partition = self.all.pop(name, None)
        if partition is not None:
            partition.take_offline()
            self.flusher.cut_off(partition.log)
            self.on_role_changed(partition)
            self._counts[name[0]] -= 1
            if not self._counts[name[0]]:
                del self._counts[name[0]]
                self.statistics.forget_topic(name[0])

    # ---------------------------------------------------------------------------------------------- failures

    def _fail_dir(self, log_dir: LogDir, reason: str) -> None:
        self.workers[log_dir].fail(reason)

    def _on_dir_failed(self, log_dir: LogDir) -> None:
        for partition in [each for each in self.all.values() if each.log_dir is log_dir]:
            self._broken.add(partition.name)
            self._remove(partition.name)
        self.on_dir_failed(log_dir)

    def _on_config(self, topic: str | None) -> None:
        for partition in self.all.values():
            if topic is None or partition.topic == topic:
                partition.reconfigure(self._config.topic(partition.topic))

    def drop_roles(self) -> None:
        """Lead nothing until the controller says so anew: our session is over, and others may have taken over."""
        self._sessions_lost += 1
        for partition in self.all.values():
            partition.resign()

    async def wait_told(self) -> None:
        """Until all that the controller has asked for is done."""
        await self._turns.take(_nothing, "the last turn")

    async def wait_idle(self) -> None:
        """Until nothing is under way at any disk."""
        for worker in self.workers.values():
            await worker.wait_idle()


def _is_news(partition: Partition, state: PartitionState) -> bool:
    """Whether this was said after what is known; the same again is none, and what is older is an error."""
    said, known = (
        (state.leader_epoch, state.partition_epoch),
        (partition.leader_epoch, partition.partition_epoch),
    )
    if said < known:
        raise StaleControllerEpochError(f"{partition} is at epoch {known}, {said} is older")
    return said > known


def _ignore(_: object) -> None:
    """Nobody wants to know."""


async def _nothing() -> None:
    """Done when its turn comes."""


async def _read_nothing(_: Iterable[str]) -> None:
    """What is known has to do."""
