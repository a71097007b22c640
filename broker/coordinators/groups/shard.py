"""The groups of one partition of `__consumer_offsets`: loaded from it, kept in memory, written to it.

Here groups meet the world: a timer for each, which is set when something is due earlier than it was, and the log, which
says when something is written. A group is forgotten when it has neither members nor offsets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from minikafka.broker.context import Context
from minikafka.broker.coordinators.groups.group import Group
from minikafka.broker.coordinators.groups.keeper import Settings, Stored
from minikafka.broker.coordinators.groups.offsets import Commit, Name, Offsets
from minikafka.broker.coordinators.groups.records import (
    GroupRecord,
    OffsetRecord,
    group_entry,
    group_tombstone,
    offset_entry,
    read_entry,
    restore,
)
from minikafka.broker.coordinators.groups.states import State
from minikafka.broker.coordinators.groups.subscriptions import CONSUMER, subscribed_topics
from minikafka.broker.coordinators.journal import Journal, Within, Written
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.rng import new_uuid
from minikafka.protocol.compression import Compression
from minikafka.protocol.errors import DecodeError, ErrorCode, KafkaError, error_for
from minikafka.protocol.messages.coordinator_records import GroupMetadataValue
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType, read_marker
from minikafka.protocol.records.reader import iter_records

log: Final = logging.getLogger(__name__)

_UNAVAILABLE: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}

OFFSET_ERRORS: Final = {
    **_UNAVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
"""What becomes of an error of the log for those who commit."""

GROUP_ERRORS: Final = {
    **_UNAVAILABLE,
    # Whether it is stored is not known: the members join anew.
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""And for those who sync."""

_PAUSE_SECONDS: Final = 0.1


class _OpenTxn(NamedTuple):
    """A producer's open transaction: where it began here, and the groups in which it has committed offsets."""

    first_offset: int
    group_ids: set[str]


class GroupShard:
    """See the module's description."""

    def __init__(self, context: Context, journal: Journal) -> None:
        self.groups: dict[str, Group] = {}
        self._context = context
        self._journal = journal
        self._timers: dict[Group, tuple[int, asyncio.TimerHandle]] = {}
        # By producer id.
        self._open_txns: dict[int, _OpenTxn] = {}
        # While it is loaded.
        self._values: dict[str, GroupMetadataValue] = {}
        self._offsets: dict[str, Offsets] = {}

    @property
    def partition(self) -> Partition:
        return self._journal.partition

    # ----------------------------------------------------------------------------------------------------- loading

    def apply(self, batch: BatchView) -> None:
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None:
                for group_id in self._ended(batch.producer_id, batch.base_offset):
                    is_committed = marker.type is ControlType.COMMIT
                    self._offsets[group_id].end_transaction(batch.producer_id, is_committed=is_committed)
            return
        for record in iter_records(batch):
            try:
                entry = None if record.key is None else read_entry(record.key, record.value, record.headers)
            except DecodeError as error:
                log.error("%s: the record at %d says nothing: %s", self._journal.partition, record.offset, error)
                continue
            if isinstance(entry, GroupRecord):
                self._apply_group(entry)
            elif isinstance(entry, OffsetRecord):
                self._apply_offset(entry, record.offset, batch.producer_id if batch.is_transactional else None)

    def _apply_group(self, entry: GroupRecord) -> None:
        if entry.value is None:
            self._values.pop(entry.group_id, None)
        else:
            self._values[entry.group_id] = entry.value

    def _apply_offset(self, entry: OffsetRecord, log_offset: int, producer_id: int | None) -> None:
        offsets = self._offsets.setdefault(entry.group_id, Offsets())
        if entry.commit is None:
            offsets.remove([entry.name], log_offset)
        elif producer_id is None:
            offsets.put(entry.name, entry.commit, log_offset)
        else:
            offsets.put_pending(producer_id, entry.name, entry.commit, log_offset)
            self._note_open(producer_id, entry.group_id, log_offset)

    def open(self) -> None:
        now = self._context.clock.monotonic_ms()
        kept = (group_id for group_id, offsets in self._offsets.items() if not offsets.is_empty)
        for group_id in dict.fromkeys((*self._values, *kept)):
            group = self.add(group_id)
            group.offsets = self._offsets.get(group_id, group.offsets)
            if group_id in self._values:
                restore(group, self._values[group_id], now)
            if len(group.members) > self.settings().size_max:
                group.maybe_rebalance(now)
            self.schedule(group)
        self._values.clear()
        self._offsets.clear()

    def close(self) -> None:
        for group in self.groups.values():
            group.end(ErrorCode.NOT_COORDINATOR)
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.groups.clear()

    def add(self, group_id: str) -> Group:
        group = self.groups[group_id] = Group(group_id, self)
        return group

    # -------------------------------------------------------------------------------------------- what a group needs

    def settings(self) -> Settings:
        config = self._context.config.broker
        return Settings(config.group_initial_rebalance_delay_ms, config.group_max_size)

    def new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{new_uuid(self._context.rng)}"

    def wall_ms(self) -> int:
        return self._context.clock.wall_ms()

    def store(self, group: Group, assignments: Mapping[str, bytes], stored: Stored) -> None:
        try:
            written: Written | KafkaError = self._journal.append([group_entry(group, assignments)], self._compression)
        except KafkaError as error:
            written = error
        self._context.work.spawn(self._finish_store(group, written, stored), f"storing group {group.group_id}")

    async def _finish_store(self, group: Group, written: Written | KafkaError, stored: Stored) -> None:
        error = await self._outcome(written) if isinstance(written, Written) else written
        if error is not None:
            log.warning("group %s could not be stored: %s", group.group_id, error)
            error = told(error, GROUP_ERRORS)
        stored(error, self._context.clock.monotonic_ms())
        self.schedule(group)

    async def _outcome(self, written: Written) -> KafkaError | None:
        return await self._journal.wait(written, self._context.config.broker.offsets_commit_timeout_ms)

    @property
    def _compression(self) -> Compression:
        return Compression(self._context.config.broker.offsets_topic_compression_codec)

    # ------------------------------------------------------------------------------------------------------- time

    def schedule(self, group: Group) -> None:
        """To be called after whatever was done with a group: something may be due earlier than before."""
        timer = self._timers.get(group)
        if group.wake_at is None or (timer is not None and timer[0] <= group.wake_at):
            return
        if timer is not None:
            timer[1].cancel()
        delay_ms = max(0, group.wake_at - self._context.clock.monotonic_ms())
        handle = asyncio.get_running_loop().call_later(delay_ms / 1000, self._on_time, group)
        self._timers[group] = (group.wake_at, handle)

    def _on_time(self, group: Group) -> None:
        del self._timers[group]
        if group.state is not State.DEAD:
            group.on_time(self._context.clock.monotonic_ms())
            self.schedule(group)

    # ---------------------------------------------------------------------------------------------------- offsets

    def commit(self, group: Group, commits: Mapping[Name, Commit]) -> asyncio.Future[KafkaError | None]:
        """Write offsets; they hold when all replicas have them, whether or not anybody waits for that."""
        entries = [offset_entry(group.group_id, name, commit) for name, commit in commits.items()]
        written = self._journal.append(entries, self._compression)
        outcome: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
        group.offsets.begin(commits)
        if written.promise is None:
            group.offsets.finish(commits, written.base_offset)
            outcome.set_result(None)
        else:
            work = self._finish_commit(group, commits, written, outcome)
            self._context.work.spawn(work, f"commit of group {group.group_id}")
        return outcome

    async def _finish_commit(
        self,
        group: Group,
        commits: Mapping[Name, Commit],
        written: Written,
        outcome: asyncio.Future[KafkaError | None],
    ) -> None:
        error = await self._outcome(written)
        if not outcome.done():
            outcome.set_result(error)
        while error is not None and self._journal.is_current:
            # It took too long for whoever asked, but it is in the log, and will hold as soon as it is replicated.
            await asyncio.sleep(_PAUSE_SECONDS)
            error = await self._outcome(written)
        group.offsets.finish(commits, None if error is not None else written.base_offset)

    async def commit_within(self, group: Group, commits: Mapping[Name, Commit], within: Within) -> KafkaError | None:
        """Write offsets of a transaction; from now on they are open, and its marker settles them."""
        entries = [offset_entry(group.group_id, name, commit) for name, commit in commits.items()]
        written = self._journal.append(entries, self._compression, within)
        for name, commit in commits.items():
            group.offsets.put_pending(within.producer_id, name, commit, written.base_offset)
        self._note_open(within.producer_id, group.group_id, written.base_offset)
        return await self._outcome(written)

    def _note_open(self, producer_id: int, group_id: str, log_offset: int) -> None:
        self._open_txns.setdefault(producer_id, _OpenTxn(log_offset, set())).group_ids.add(group_id)

    def _ended(self, producer_id: int, marker_offset: int) -> Collection[str]:
        """The groups of the transaction that a marker ends. One that was there before it began was another's."""
        found = self._open_txns.get(producer_id)
        if found is None or marker_offset < found.first_offset:
            return ()
        del self._open_txns[producer_id]
        return found.group_ids

    def end_transaction(self, producer_id: int, marker_offset: int, *, is_committed: bool) -> None:
        """A transaction has ended: what it committed here holds now, or never did."""
        for group_id in self._ended(producer_id, marker_offset):
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, is_committed=is_committed)

    def forget(self, group: Group, names: Collection[Name]) -> Written | None:
        """Delete offsets, and the group with them if nothing else is left of it."""
        names = [name for name in names if group.offsets.get(name) is not None]
        entries = [offset_entry(group.group_id, name, None) for name in names]
        is_unused = group.state is State.EMPTY and not group.members.pending
        is_last = is_unused and group.offsets.is_empty_without(names)
        if is_last and group.generation > 0:
            entries.append(group_tombstone(group.group_id))
        written = self._journal.append(entries, self._compression) if entries else None
        if written is not None:
            group.offsets.remove(names, written.base_offset)
        if is_last:
            group.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            del self.groups[group.group_id]
        return written

    async def finish_forget(self, written: Written | None) -> KafkaError | None:
        return None if written is None else await self._outcome(written)

    def expire(self, now_ms: int, retention_ms: int) -> int:
        """Forget what nobody has used for long; how many offsets that were."""
        count = 0
        for group in list(self.groups.values()):
            names = _expired(group, now_ms, retention_ms)
            if names or (group.state is State.EMPTY and group.offsets.is_empty):
                self.forget(group, names)
                count += len(names)
        return count


def _expired(group: Group, now_ms: int, retention_ms: int) -> list[Name]:
    """Offsets that were kept for long enough, which for those in use is for ever."""
    if group.state is State.EMPTY:
        since_ms = None if group.protocol_type is None else group.state_since_ms
        return group.offsets.expired(now_ms, retention_ms, since_ms)
    if group.state is State.STABLE and group.protocol_type == CONSUMER:
        topics = subscribed_topics(group)
        if topics is not None:
            return group.offsets.expired(now_ms, retention_ms, None, topics)
    return []


def told(error: KafkaError, table: Mapping[ErrorCode, ErrorCode]) -> KafkaError:
    """An error of the log as clients of a coordinator are told of it."""
    return error_for(table[error.code], error.message) if error.code in table else error
