"""OffsetCommit, OffsetFetch, OffsetDelete: where groups have got to.

- All versions of OffsetCommit write to `__consumer_offsets`, also v0, which once wrote to ZooKeeper. v1 alone may say
  when it was committed, v2 to v4 for how long it is to be kept.
- OffsetFetch of what was never committed is offset -1 and no error. v2 can ask for all there is, v8 for many groups.
  A group, and a partition of it, is answered once, however often it is named.
  Before v2 there is no place for the error of a group, so each partition has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable
from typing import Final, Protocol

from minikafka.broker.context import Context
from minikafka.broker.coordinators.confirming import Confirmer
from minikafka.broker.coordinators.groups.coordinator import GroupCoordinator
from minikafka.broker.coordinators.groups.group import Group
from minikafka.broker.coordinators.groups.offsets import Commit, Name
from minikafka.broker.coordinators.groups.shard import OFFSET_ERRORS, told
from minikafka.broker.handlers.slices import by_topic, in_slices
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode, KafkaError, NotCoordinatorError
from minikafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupPartition,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

_MANY_GROUPS_SINCE: Final = 8
_GROUP_ERROR_SINCE: Final = 2
_NO_COMMIT: Final = Commit(-1, -1, "", -1)

Wanted = list[tuple[str, list[int]]]
Found = list[tuple[str, list[tuple[int, Commit, ErrorCode]]]]


def routes(context: Context, coordinator: GroupCoordinator, confirmer: Confirmer) -> list[Route]:
    handler = _OffsetsHandler(context, coordinator, confirmer)
    return [
        Route(APIS[8], handler.commit, Operation.READ, Resource.GROUP),
        Route(APIS[9], handler.fetch, Operation.DESCRIBE, Resource.GROUP),
        Route(APIS[47], handler.delete, Operation.DELETE, Resource.GROUP),
    ]


class _OffsetsHandler:
    """See the module's description."""

    def __init__(self, context: Context, coordinator: GroupCoordinator, confirmer: Confirmer) -> None:
        self._context = context
        self._coordinator = coordinator
        self._confirmer = confirmer

    # ----------------------------------------------------------------------------------------------- committing

    def commit(self, call: Call) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
        request: OffsetCommitRequest = call.request
        codes, commits = self._sort_out(call)
        if not commits:
            return _committed(request, codes)
        member = (request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
        try:
            future = self._coordinator.commit(request.group_id, member, commits)
        except KafkaError as error:
            return _committed(request, codes, error)
        if future.done():
            return _committed(request, codes, future.result())
        return self._commit_later(request, codes, future)

    async def _commit_later(
        self, request: OffsetCommitRequest, codes: dict[Name, ErrorCode], future: asyncio.Future[KafkaError | None]
    ) -> OffsetCommitResponse:
        error = await future
        return _committed(request, codes, None if error is None else told(error, OFFSET_ERRORS))

    def _sort_out(self, call: Call) -> tuple[dict[Name, ErrorCode], dict[Name, Commit]]:
        """What is wrong with some offsets, and all others as they are to be kept."""
        request: OffsetCommitRequest = call.request
        now_ms, retention_ms = self._context.clock.wall_ms(), request.retention_time_ms
        expire_ms = None if retention_ms < 0 else now_ms + retention_ms
        codes: dict[Name, ErrorCode] = {}
        commits: dict[Name, Commit] = {}
        for topic in request.topics:
            topic_id = self._context.metadata.topic_id(topic.name)
            for each in topic.partitions:
                name, metadata = (topic.name, each.partition_index), each.committed_metadata or ""
                if code := flaw_of(self._context, name, metadata):
                    codes[name] = code
                else:
                    commit_ms = now_ms if each.commit_timestamp < 0 else each.commit_timestamp
                    commits[name] = Commit(
                        each.committed_offset, each.committed_leader_epoch, metadata, commit_ms, expire_ms, topic_id
                    )
        return codes, commits

    # ------------------------------------------------------------------------------------------------- fetching

    def fetch(self, call: Call) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
        return self._fetch_later(call) if self._confirmer.is_needed else self._fetch(call, ())

    async def _fetch_later(self, call: Call) -> OffsetFetchResponse:
        """A client that has seen an offset committed is shown no earlier one, by whichever broker."""
        request: OffsetFetchRequest = call.request
        is_of_many = call.version >= _MANY_GROUPS_SINCE
        groups = [each.group_id for each in request.groups] if is_of_many else [request.group_id]
        response = self._fetch(call, await self._unconfirmed(groups))
        return response if isinstance(response, OffsetFetchResponse) else await response

    async def _unconfirmed(self, groups: Iterable[str]) -> frozenset[str]:
        """Groups that another broker may have committed something of."""
        partition_of = self._coordinator.shards.partition_of
        partitions = {group_id: partition for group_id in groups if (partition := partition_of(group_id)) is not None}
        asked = list(dict.fromkeys(partitions.values()))
        outcomes = dict(zip(asked, await asyncio.gather(*map(self._confirmer.confirm, asked)), strict=True))
        return frozenset(group_id for group_id, partition in partitions.items() if not outcomes[partition])

    def _fetch(self, call: Call, unconfirmed: Collection[str]) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
        request: OffsetFetchRequest = call.request
        if call.version >= _MANY_GROUPS_SINCE:
            return in_slices(
                _merged(request.groups),
                lambda asked: self._fetch_group(*asked, request.require_stable, unconfirmed),
                lambda groups: OffsetFetchResponse(groups=groups),
                at_once=1,
            )
        wanted = None if request.topics is None else _wanted(request.topics)
        try:
            found = self._find(request.group_id, wanted, request.require_stable, unconfirmed)
            code = ErrorCode.NONE
        except KafkaError as error:
            found, code = [], error.code
            if call.version < _GROUP_ERROR_SINCE:
                found = [(topic, [(each, _NO_COMMIT, code) for each in indexes]) for topic, indexes in wanted or ()]
        return OffsetFetchResponse(
            error_code=code,
            topics=[
                OffsetFetchResponseTopic(
                    name=topic,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=index,
                            committed_offset=commit.offset,
                            committed_leader_epoch=commit.leader_epoch,
                            metadata=commit.metadata,
                            error_code=error,
                        )
                        for index, commit, error in partitions
                    ],
                )
                for topic, partitions in found
            ],
        )

    def _fetch_group(
        self, group_id: str, wanted: Wanted | None, require_stable: bool, unconfirmed: Collection[str]
    ) -> OffsetFetchResponseGroup:
        try:
            found = self._find(group_id, wanted, require_stable, unconfirmed)
        except KafkaError as error:
            return OffsetFetchResponseGroup(group_id=group_id, topics=[], error_code=error.code)
        return OffsetFetchResponseGroup(
            group_id=group_id,
            topics=[
                OffsetFetchResponseGroupTopic(
                    name=topic,
                    partitions=[
                        OffsetFetchResponseGroupPartition(
                            partition_index=index,
                            committed_offset=commit.offset,
                            committed_leader_epoch=commit.leader_epoch,
                            metadata=commit.metadata,
                            error_code=error,
                        )
                        for index, commit, error in partitions
                    ],
                )
                for topic, partitions in found
            ],
        )

    def _find(self, group_id: str, wanted: Wanted | None, require_stable: bool, unconfirmed: Collection[str]) -> Found:
        if group_id in unconfirmed:
            raise NotCoordinatorError(f"group {group_id} may be coordinated by another broker")
        group = self._coordinator.group(group_id)
        topic_id = self._context.metadata.topic_id
        if wanted is None:
            names = [] if group is None else group.offsets.names()
            wanted = by_topic(name for name in names if group and group.offsets.get(name, topic_id(name[0])))
        return [
            (topic, [_look_up(group, (topic, each), topic_id(topic), require_stable) for each in indexes])
            for topic, indexes in wanted
        ]

    # -------------------------------------------------------------------------------------------------- deleting

    def delete(self, call: Call) -> Awaitable[OffsetDeleteResponse]:
        return self._delete(call.request)

    async def _delete(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        wanted = [(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions]
        known = [name for name in wanted if name[0] in self._context.metadata.topics]
        try:
            codes = await self._coordinator.delete_offsets(request.group_id, known)
        except KafkaError as error:
            return OffsetDeleteResponse(error_code=error.code, topics=[])
        return OffsetDeleteResponse(
            topics=[
                OffsetDeleteResponseTopic(
                    name=topic,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=index,
                            error_code=codes.get((topic, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(wanted)
            ]
        )


def flaw_of(context: Context, name: Name, metadata: str) -> ErrorCode:
    """Why an offset cannot be committed, whoever commits it."""
    if context.metadata.partition(*name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_too_large = len(metadata) > context.config.broker.offset_metadata_max_bytes
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_large else ErrorCode.NONE


def _look_up(
    group: Group | None, name: Name, topic_id: bytes | None, require_stable: bool
) -> tuple[int, Commit, ErrorCode]:
    if group is None:
        return name[1], _NO_COMMIT, ErrorCode.NONE
    if require_stable and group.offsets.is_unstable(name, topic_id):
        return name[1], _NO_COMMIT, ErrorCode.UNSTABLE_OFFSET_COMMIT
    return name[1], group.offsets.get(name, topic_id) or _NO_COMMIT, ErrorCode.NONE


class _Asked(Protocol):
    """A topic of either form of the request."""

    @property
    def name(self) -> str: ...
    @property
    def partition_indexes(self) -> list[int]: ...


def _wanted(topics: Iterable[_Asked]) -> Wanted:
    return by_topic((topic.name, index) for topic in topics for index in topic.partition_indexes)


def _merged(groups: Iterable[OffsetFetchRequestGroup]) -> list[tuple[str, Wanted | None]]:
    """Each group once, with all that is asked for of it; None for all that it has."""
    merged: dict[str, list[_Asked] | None] = {}
    for each in groups:
        known = merged.setdefault(each.group_id, [])
        if each.topics is None:
            merged[each.group_id] = None
        elif known is not None:
            known.extend(each.topics)
    return [(group_id, None if topics is None else _wanted(topics)) for group_id, topics in merged.items()]


def _committed(
    request: OffsetCommitRequest, codes: dict[Name, ErrorCode], error: KafkaError | None = None
) -> OffsetCommitResponse:
    """An error of the group is that of every offset that has none of its own."""
    other = ErrorCode.NONE if error is None else error.code
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=codes.get((topic.name, each.partition_index), other),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
