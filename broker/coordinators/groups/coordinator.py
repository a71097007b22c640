"""The group coordinator of one broker: finds the group that a request is about, and does with it what is asked.

Whatever may take long is a future: the request waits for it, the group does not wait for the request. What is wrong
with a request is raised, or is part of the answer where there is more to tell than the error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeVar

from minikafka.broker.context import Context
from minikafka.broker.coordinators.groups.group import Group
from minikafka.broker.coordinators.groups.members import Joined, Joining, Synced
from minikafka.broker.coordinators.groups.offsets import Commit, Name
from minikafka.broker.coordinators.groups.shard import OFFSET_ERRORS, GroupShard, told
from minikafka.broker.coordinators.groups.states import State
from minikafka.broker.coordinators.groups.subscriptions import CONSUMER, subscribed_topics
from minikafka.broker.coordinators.journal import Within
from minikafka.broker.coordinators.shards import Shards
from minikafka.broker.coordinators.verifying import TxnMember, Verifier
from minikafka.broker.internal_topics import GROUP_OFFSETS
from minikafka.protocol.errors import (
    CoordinatorLoadInProgressError,
    ErrorCode,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

log: Final = logging.getLogger(__name__)

_T = TypeVar("_T")

_MINUTE_MS: Final = 60_000


class GroupCoordinator:
    """See the module's description."""

    def __init__(self, context: Context, verifier: Verifier) -> None:
        self.shards = Shards(context, GROUP_OFFSETS, lambda journal: GroupShard(context, journal))
        self._context = context
        self._clock = context.clock
        self._verifier = verifier

    def _shard(self, group_id: str, *, may_be_empty: bool = False) -> GroupShard:
        if not group_id and not may_be_empty:
            raise InvalidGroupIdError
        return self.shards.of(group_id)

    # ------------------------------------------------------------------------------------------------------- members

    def join(self, group_id: str, asked: Joining) -> asyncio.Future[Joined]:
        """Raises what keeps somebody from even being looked at."""
        shard, config = self._shard(group_id), self._context.config.broker
        if not config.group_min_session_timeout_ms <= asked.session_timeout_ms <= config.group_max_session_timeout_ms:
            raise InvalidSessionTimeoutError
        group = shard.groups.get(group_id)
        if group is None:
            if asked.member_id:
                raise UnknownMemberIdError
            group = shard.add(group_id)
        future: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
        group.join(asked, lambda answer: _tell(future, answer), self._clock.monotonic_ms())
        shard.schedule(group)
        return future

    def sync(
        self,
        group_id: str,
        member: tuple[str, str | None, int],
        protocol: tuple[str | None, str | None],
        assignments: Mapping[str, bytes],
    ) -> asyncio.Future[Synced]:
        """`member` is its id, its instance id and the generation it believes in."""
        try:
            shard, group = self._existing(group_id)
        except CoordinatorLoadInProgressError:
            # Its state may be gone, so it has to join anew in any case.
            raise RebalanceInProgressError from None
        future: asyncio.Future[Synced] = asyncio.get_running_loop().create_future()
        found = group.check_member(*member)
        group.sync(found, protocol, assignments, lambda answer: _tell(future, answer), self._clock.monotonic_ms())
        shard.schedule(group)
        return future

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        try:
            shard, group = self._existing(group_id)
        except CoordinatorLoadInProgressError:
            # It will be told by the next one if there is anything to tell.
            return ErrorCode.NONE
        error = group.heartbeat(group.check_member(member_id, instance_id, generation), self._clock.monotonic_ms())
        shard.schedule(group)
        return error

    def leave(self, group_id: str, members: Iterable[tuple[str, str | None]]) -> list[ErrorCode]:
        """What came of it for each."""
        shard = self._shard(group_id)
        group = shard.groups.get(group_id)
        codes = []
        for member_id, instance_id in members:
            try:
                if group is None:
                    raise UnknownMemberIdError
                group.leave(member_id, instance_id, self._clock.monotonic_ms())
                codes.append(ErrorCode.NONE)
            except KafkaError as error:
                codes.append(error.code)
        if group is not None:
            shard.schedule(group)
        return codes

    def _existing(self, group_id: str) -> tuple[GroupShard, Group]:
        shard = self._shard(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            raise UnknownMemberIdError
        return shard, group

    # ------------------------------------------------------------------------------------------------------- offsets

    def commit(
        self, group_id: str, member: tuple[str, str | None, int], commits: Mapping[Name, Commit]
    ) -> asyncio.Future[KafkaError | None]:
        """Commit offsets, as a member or, while there are none, as anybody."""
        shard = self._shard(group_id, may_be_empty=True)
        group = shard.groups.get(group_id)
        if group is None:
            if member[2] >= 0:
                raise IllegalGenerationError
            group = shard.add(group_id)
        group.check_commit(*member, self._clock.monotonic_ms())
        shard.schedule(group)
        try:
            return shard.commit(group, commits)
        except KafkaError as error:
            raise told(error, OFFSET_ERRORS) from error

    async def commit_within(
        self, group_id: str, member: tuple[str, str | None, int], txn: TxnMember, commits: Mapping[Name, Commit]
    ) -> KafkaError | None:
        """Commit offsets within a transaction: they hold when it is committed."""
        shard = self._shard(group_id)
        verification = await self._verifier.verify(txn, shard.partition)
        # As it is after that wait.
        shard = self._shard(group_id)
        group = shard.groups.get(group_id) or shard.add(group_id)
        group.check_commit_within(*member)
        return await shard.commit_within(group, commits, Within(txn.producer_id, txn.epoch, verification))

    def end_transaction(self, index: int, producer_id: int, marker_offset: int, *, is_committed: bool) -> None:
        """The marker of a transaction is in a partition that was led here just now."""
        try:
            self.shards.at(index).end_transaction(producer_id, marker_offset, is_committed=is_committed)
        except KafkaError:
            log.info("the offsets of producer %d are settled by another broker", producer_id)

    def group(self, group_id: str) -> Group | None:
        """A group to look at, if there is one."""
        return self._shard(group_id, may_be_empty=True).groups.get(group_id)

    async def delete_offsets(self, group_id: str, names: Collection[Name]) -> dict[Name, ErrorCode]:
        """Have a group forget offsets of topics that it does not read."""
        shard = self._shard(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError
        in_use: frozenset[str] | None = frozenset()
        if group.state is not State.EMPTY:
            if group.protocol_type != CONSUMER:
                raise NonEmptyGroupError
            in_use = subscribed_topics(group)
        codes = {
            name: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use is None or name[0] in in_use else ErrorCode.NONE
            for name in names
        }
        await self._forget(shard, group, [name for name, code in codes.items() if not code])
        return codes

    async def delete(self, group_id: str) -> None:
        """Have a group without members be gone."""
        shard = self._shard(group_id, may_be_empty=True)
        group = shard.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError
        if group.state is not State.EMPTY:
            raise NonEmptyGroupError
        await self._forget(shard, group, group.offsets.names())

    async def _forget(self, shard: GroupShard, group: Group, names: Collection[Name]) -> None:
        try:
            error = await shard.finish_forget(shard.forget(group, names)) if names or not len(group.members) else None
        except KafkaError as raised:
            raise told(raised, OFFSET_ERRORS) from raised
        if error is not None:
            raise told(error, OFFSET_ERRORS)

    # -------------------------------------------------------------------------------------------------------- upkeep

    async def run(self) -> None:
        """Forget, now and then, what nobody uses any more."""
        while True:
            config = self._context.config.broker
            await asyncio.sleep(config.offsets_retention_check_interval_ms / 1000)
            self.expire(self._context.steady_clock.wall_ms(), config.offsets_retention_minutes * _MINUTE_MS)

    def expire(self, now_ms: int, retention_ms: int) -> None:
        for shard in self.shards:
            try:
                if count := shard.expire(now_ms, retention_ms):
                    log.info("%d offsets have expired", count)
            except KafkaError as error:
                log.warning("expired offsets are deleted later: %s", error)

    def on_topics_deleted(self, topics: Collection[str]) -> None:
        """Nobody will read them again; topics of the same names are others."""
        for shard in self.shards:
            for group in list(shard.groups.values()):
                names = group.offsets.ended(topics, self._context.metadata.topic_id)
                try:
                    if names:
                        shard.forget(group, names)
                except KafkaError as error:
                    log.warning("offsets of deleted topics stay for group %s: %s", group.group_id, error)

    def stop(self) -> None:
        self.shards.close()


def _tell(future: asyncio.Future[_T], answer: _T) -> None:
    # Whoever asked may be gone.
    if not future.done():
        future.set_result(answer)
