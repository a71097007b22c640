"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: what members of a group ask of its coordinator.

- JoinGroup v0 has no rebalance timeout: it is the session's. From v4 on an id is handed out before a member joins.
- SyncGroup v5 has to name the protocol that the member believes to be chosen.
- LeaveGroup v3 lets several leave at once, each with an answer of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from minikafka.broker.coordinators.groups.coordinator import GroupCoordinator
from minikafka.broker.coordinators.groups.members import Joined, Joining, Synced
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode, InconsistentGroupProtocolError, KafkaError
from minikafka.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

_KNOWN_ID_SINCE: Final = 4
_NULL_PROTOCOL_SINCE: Final = 7
_SKIPPING_SINCE: Final = 9
_PROTOCOL_IN_SYNC_SINCE: Final = 5
_MANY_LEAVE_SINCE: Final = 3


def routes(coordinator: GroupCoordinator) -> list[Route]:
    handler = _GroupsHandler(coordinator)
    return [
        Route(APIS[11], handler.join, Operation.READ, Resource.GROUP),
        Route(APIS[14], handler.sync, Operation.READ, Resource.GROUP),
        Route(APIS[12], handler.heartbeat, Operation.READ, Resource.GROUP),
        Route(APIS[13], handler.leave, Operation.READ, Resource.GROUP),
    ]


class _GroupsHandler:
    """See the module's description."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    # ---------------------------------------------------------------------------------------------------- joining

    def join(self, call: Call) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
        request: JoinGroupRequest = call.request
        try:
            future = self._coordinator.join(request.group_id, _joining(call, request))
        except KafkaError as error:
            return _joined(call, Joined(request.member_id, error.code))
        return _joined(call, future.result()) if future.done() else self._join_later(call, future)

    async def _join_later(self, call: Call, future: asyncio.Future[Joined]) -> JoinGroupResponse:
        return _joined(call, await future)

    # ---------------------------------------------------------------------------------------------------- syncing

    def sync(self, call: Call) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
        request: SyncGroupRequest = call.request
        try:
            if call.version >= _PROTOCOL_IN_SYNC_SINCE and None in (request.protocol_type, request.protocol_name):
                raise InconsistentGroupProtocolError
            future = self._coordinator.sync(
                request.group_id,
                (request.member_id, request.group_instance_id, request.generation_id),
                (request.protocol_type, request.protocol_name),
                {each.member_id: bytes(each.assignment) for each in request.assignments},
            )
        except KafkaError as error:
            return SyncGroupResponse(error_code=error.code)
        return _synced(future.result()) if future.done() else self._sync_later(future)

    async def _sync_later(self, future: asyncio.Future[Synced]) -> SyncGroupResponse:
        return _synced(await future)

    # ----------------------------------------------------------------------------------------- staying and leaving

    def heartbeat(self, call: Call) -> HeartbeatResponse:
        request: HeartbeatRequest = call.request
        try:
            code = self._coordinator.heartbeat(
                request.group_id, request.member_id, request.group_instance_id, request.generation_id
            )
        except KafkaError as error:
            code = error.code
        return HeartbeatResponse(error_code=code)

    def leave(self, call: Call) -> LeaveGroupResponse:
        request: LeaveGroupRequest = call.request
        is_single = call.version < _MANY_LEAVE_SINCE
        leaving = [MemberIdentity(member_id=request.member_id)] if is_single else request.members
        try:
            codes = self._coordinator.leave(
                request.group_id, [(each.member_id, each.group_instance_id) for each in leaving]
            )
        except KafkaError as error:
            return LeaveGroupResponse(error_code=error.code)
        if is_single:
            return LeaveGroupResponse(error_code=codes[0])
        return LeaveGroupResponse(
            members=[
                MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code)
                for each, code in zip(leaving, codes, strict=True)
            ]
        )


def _joining(call: Call, request: JoinGroupRequest) -> Joining:
    rebalance_timeout_ms = request.session_timeout_ms if call.version == 0 else request.rebalance_timeout_ms
    return Joining(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.client_id or "",
        client_host=f"/{call.connection.peer_host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, bytes(each.metadata)) for each in request.protocols),
        requires_known_id=call.version >= _KNOWN_ID_SINCE,
        may_skip_assignment=call.version >= _SKIPPING_SINCE,
    )


def _joined(call: Call, answer: Joined) -> JoinGroupResponse:
    name = answer.protocol_name
    if name is None and call.version < _NULL_PROTOCOL_SINCE:
        name = ""
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=name,
        leader=answer.leader_id,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata
            )
            for each in answer.members
        ],
    )


def _synced(answer: Synced) -> SyncGroupResponse:
    is_good = answer.error is ErrorCode.NONE
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type if is_good else None,
        protocol_name=answer.protocol_name if is_good else None,
        assignment=answer.assignment,
    )
