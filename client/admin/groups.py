"""Groups: list, describe, delete, and take members out of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from minikafka.client.admin.asking import raise_for, verdict
from minikafka.client.admin.calls import Calls
from minikafka.client.admin.results import Results
from minikafka.client.cluster import CoordinatorKind
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import DecodeError, KafkaError, UnknownServerError
from minikafka.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from minikafka.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberIdentity,
)

_CONSUMERS = ("consumer", "")
"""Protocol types of groups whose assignments are partitions; those without members have an empty one."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as its coordinator lists it."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member, and what it has to read. Other kinds of groups than consumers' have an assignment of their own form."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]
    raw_metadata: bytes
    raw_assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members. One that does not exist has the state "Dead", as Kafka says it."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    """How partitions are assigned: the name of the assignor."""
    coordinator: int
    members: tuple[MemberDescription, ...]


class GroupCalls(Calls):
    """See the module's description."""

    async def list_consumer_groups(
        self, broker_ids: Collection[int] | None = None, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[GroupListing]:
        """All groups, of some states or types if wanted. Every broker is asked, unless some are named."""
        asker = self._ask

        async def ask(node_id: int, _: list[int]) -> Mapping[int, list[GroupListing] | KafkaError]:
            request = ListGroupsRequest(states_filter=[*states], types_filter=[*types])
            answer: ListGroupsResponse = await asker.request(node_id, request)
            found = [
                GroupListing(each.group_id, each.protocol_type, each.group_state, each.group_type, node_id)
                for each in answer.groups
            ]
            return {node_id: verdict(answer.error_code) or found}

        nodes = (await asker.cluster.refresh()).brokers if broker_ids is None else broker_ids
        results = (await asker.settle(nodes, asker.at_themselves, ask)).checked(True)
        groups = [group for found in results.values() for group in found]
        return sorted(groups, key=lambda group: group.group_id)

    async def describe_consumer_groups(
        self, group_ids: Iterable[str], *, raise_errors: bool = True
    ) -> Results[str, GroupDescription]:
        """Groups with their members and what each of them reads."""
        asker = self._ask

        async def ask(node_id: int, groups: list[str]) -> Mapping[str, GroupDescription | KafkaError]:
            answer: DescribeGroupsResponse = await asker.request(node_id, DescribeGroupsRequest(groups=groups))
            answers = {each.group_id: verdict(each.error_code) or _described(each, node_id) for each in answer.groups}
            asker.forget_coordinators(CoordinatorKind.GROUP, answers)
            return answers

        results = await asker.settle(group_ids, asker.at_coordinators(CoordinatorKind.GROUP), ask)
        return results.checked(raise_errors)

    async def find_coordinator(self, group_id: str, coordinator_type: int = CoordinatorKind.GROUP) -> int:
        """The broker that coordinates a group, or a transactional id (`coordinator_type=1`)."""
        cluster, kind = self._ask.cluster, CoordinatorKind(coordinator_type)
        cluster.invalidate_coordinator(kind, group_id)
        return await cluster.coordinator(kind, group_id)

    async def delete_consumer_groups(
        self, group_ids: Iterable[str], *, raise_errors: bool = True
    ) -> Results[str, None]:
        """Delete groups with their offsets; they must not have members."""
        asker = self._ask

        async def ask(node_id: int, groups: list[str]) -> Mapping[str, KafkaError | None]:
            answer: DeleteGroupsResponse = await asker.request(node_id, DeleteGroupsRequest(groups_names=groups))
            answers = {each.group_id: verdict(each.error_code) for each in answer.results}
            asker.forget_coordinators(CoordinatorKind.GROUP, answers)
            return answers

        locate = asker.at_coordinators(CoordinatorKind.GROUP)
        results: Results[str, None] = await asker.settle(group_ids, locate, ask, repeatable=False)
        return results.checked(raise_errors)

    async def remove_members(
        self,
        group_id: str,
        *,
        member_ids: Iterable[str] = (),
        group_instance_ids: Iterable[str] = (),
        reason: str | None = None,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Take members out of a group, such as static ones that will not come back."""
        asker = self._ask
        members = {each: MemberIdentity(member_id=each, reason=reason) for each in member_ids}
        members |= {
            each: MemberIdentity(member_id="", group_instance_id=each, reason=reason) for each in group_instance_ids
        }

        async def ask(node_id: int, _: list[str]) -> Mapping[str, Results[str, None] | KafkaError]:
            request = LeaveGroupRequest(group_id=group_id, members=[*members.values()])
            answer: LeaveGroupResponse = await asker.cluster.request(node_id, request, min_version=3)
            asker.forget_coordinators(CoordinatorKind.GROUP, {group_id: verdict(answer.error_code)})
            raise_for(answer.error_code)
            found: dict[str, KafkaError | None] = {
                each.group_instance_id or each.member_id: verdict(each.error_code) for each in answer.members
            }
            unanswered = UnknownServerError("the broker did not answer about it")
            return {group_id: Results({each: found.get(each, unanswered) for each in members})}

        locate = asker.at_coordinators(CoordinatorKind.GROUP)
        results = (await asker.settle([group_id], locate, ask)).checked(True)
        return results[group_id].checked(raise_errors)


def _described(group: DescribedGroup, node_id: int) -> GroupDescription:
    is_consumers = group.protocol_type in _CONSUMERS
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        node_id,
        tuple(_member(member, is_consumers) for member in group.members),
    )


def _member(member: DescribedGroupMember, is_consumer: bool) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        _partitions(bytes(member.member_assignment)) if is_consumer else (),
        bytes(member.member_metadata),
        bytes(member.member_assignment),
    )


def _partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    # Empty while the group has not agreed on one. What another client has put there may be anything.
    if not assignment:
        return ()
    try:
        decoded = ConsumerProtocolAssignment.parse(assignment)
    except DecodeError:
        return ()
    return tuple(
        TopicPartition(each.topic, partition) for each in decoded.assigned_partitions for partition in each.partitions
    )
