"""TxnOffsetCommit: offsets of a group that hold when the producer's transaction does. v3 tells who the member is,
and v5 has the group's partition added to the transaction (KIP-890)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.coordinators.groups.coordinator import GroupCoordinator
from minikafka.broker.coordinators.groups.offsets import Commit, Name
from minikafka.broker.coordinators.groups.shard import OFFSET_ERRORS, told
from minikafka.broker.coordinators.verifying import TxnMember
from minikafka.broker.handlers.offsets import flaw_of
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_ABORTABLE_SINCE: Final = 4
_ADDING_SINCE: Final = 5
_LOADING_SINCE: Final = 2


def routes(context: Context, coordinator: GroupCoordinator) -> list[Route]:
    return [Route(APIS[28], _TxnOffsetsHandler(context, coordinator), Operation.WRITE, Resource.TRANSACTIONAL_ID)]


class _TxnOffsetsHandler:
    """See the module's description."""

    def __init__(self, context: Context, coordinator: GroupCoordinator) -> None:
        self._context = context
        self._coordinator = coordinator

    def __call__(self, call: Call) -> Awaitable[TxnOffsetCommitResponse]:
        return self._commit(call)

    async def _commit(self, call: Call) -> TxnOffsetCommitResponse:
        request: TxnOffsetCommitRequest = call.request
        codes, commits = self._sort_out(request)
        error = await self._commit_good(call, commits) if commits else None
        other = ErrorCode.NONE if error is None else told(error, OFFSET_ERRORS).code
        if other is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and call.version < _LOADING_SINCE:
            other = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _answer(request, codes, other)

    async def _commit_good(self, call: Call, commits: Mapping[Name, Commit]) -> KafkaError | None:
        request: TxnOffsetCommitRequest = call.request
        member = (request.member_id, request.group_instance_id, request.generation_id)
        txn = TxnMember(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            is_told_abortable=call.version >= _ABORTABLE_SINCE,
            is_to_be_added=call.version >= _ADDING_SINCE,
        )
        try:
            return await self._coordinator.commit_within(request.group_id, member, txn, commits)
        except KafkaError as error:
            return error

    def _sort_out(self, request: TxnOffsetCommitRequest) -> tuple[dict[Name, ErrorCode], dict[Name, Commit]]:
        """What is wrong with some offsets, and all others as they are to be kept."""
        now_ms = self._context.clock.wall_ms()
        codes: dict[Name, ErrorCode] = {}
        commits: dict[Name, Commit] = {}
        for topic in request.topics:
            topic_id = self._context.metadata.topic_id(topic.name)
            for each in topic.partitions:
                name, metadata = (topic.name, each.partition_index), each.committed_metadata or ""
                if code := flaw_of(self._context, name, metadata):
                    codes[name] = code
                else:
                    commits[name] = Commit(
                        each.committed_offset, each.committed_leader_epoch, metadata, now_ms, topic_id=topic_id
                    )
        return codes, commits


def _answer(
    request: TxnOffsetCommitRequest, codes: Mapping[Name, ErrorCode], other: ErrorCode
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=codes.get((topic.name, each.partition_index), other),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
