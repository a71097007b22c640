"""DescribeGroups, ListGroups, DeleteGroups: groups as an administrator sees them, those of this coordinator only.

- A group that does not exist is described as dead.
- ListGroups v4 filters by state, v5 by type, both in any case; all groups here are of the classic type.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from minikafka.broker.coordinators.groups.coordinator import GroupCoordinator
from minikafka.broker.coordinators.groups.group import Group
from minikafka.broker.coordinators.groups.states import State
from minikafka.broker.handlers.slices import in_slices
from minikafka.broker.network.dispatch import Call, Operation, Resource, Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.common import OPERATIONS_UNKNOWN
from minikafka.protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

_CLASSIC: Final = "classic"

_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8
"""Read, delete and describe, by their numbers: nobody is denied anything."""


def routes(coordinator: GroupCoordinator) -> list[Route]:
    handler = _GroupAdminHandler(coordinator)
    return [
        Route(APIS[15], handler.describe, Operation.DESCRIBE, Resource.GROUP),
        Route(APIS[16], handler.list_all, Operation.DESCRIBE, Resource.CLUSTER),
        Route(APIS[42], handler.delete, Operation.DELETE, Resource.GROUP),
    ]


class _GroupAdminHandler:
    """See the module's description."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def describe(self, call: Call) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
        request: DescribeGroupsRequest = call.request
        return in_slices(
            dict.fromkeys(request.groups),
            lambda group_id: self._describe(group_id, request.include_authorized_operations),
            lambda groups: DescribeGroupsResponse(groups=groups),
        )

    def _describe(self, group_id: str, with_operations: bool) -> DescribedGroup:
        try:
            group = self._coordinator.group(group_id)
        except KafkaError as error:
            return _bare(group_id, error.code, "")
        answer = _bare(group_id, ErrorCode.NONE, State.DEAD.value) if group is None else _described(group)
        if with_operations:
            answer.authorized_operations = _OPERATIONS
        return answer

    def list_all(self, call: Call) -> ListGroupsResponse:
        request: ListGroupsRequest = call.request
        if self._coordinator.shards.is_doubtful:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, groups=[])
        states = {each.lower() for each in request.states_filter}
        types = {each.lower() for each in request.types_filter}
        groups = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=_CLASSIC,
            )
            for shard in self._coordinator.shards
            for group in shard.groups.values()
            if (not states or group.state.value.lower() in states) and (not types or _CLASSIC in types)
        ]
        # What is there already is told, but whoever asks should know that there is more to come.
        is_loading = self._coordinator.shards.is_loading
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE
        return ListGroupsResponse(error_code=code, groups=groups)

    def delete(self, call: Call) -> Awaitable[DeleteGroupsResponse]:
        return self._delete_all(call.request)

    async def _delete_all(self, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        names = list(dict.fromkeys(request.groups_names))
        codes = await asyncio.gather(*map(self._delete, names))
        results = [
            DeletableGroupResult(group_id=name, error_code=code) for name, code in zip(names, codes, strict=True)
        ]
        return DeleteGroupsResponse(results=results)

    async def _delete(self, group_id: str) -> ErrorCode:
        try:
            await self._coordinator.delete(group_id)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE


def _bare(group_id: str, code: ErrorCode, state: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
        authorized_operations=OPERATIONS_UNKNOWN,
    )


def _described(group: Group) -> DescribedGroup:
    """What members say and get is told only of a group that has settled."""
    is_stable = group.state is State.STABLE
    protocol = group.protocol_name if is_stable else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                member_metadata=each.metadata(protocol) if is_stable else b"",
                member_assignment=each.assignment if is_stable else b"",
            )
            for each in group.members
        ],
        authorized_operations=OPERATIONS_UNKNOWN,
    )
