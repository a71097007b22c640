"""The classic group protocol: find the coordinator, join, sync, heartbeat, leave, list, describe.

- FindCoordinator v4 asks for many keys at once.
- JoinGroup v4 requires a member id to be handed out first, v5 adds static members, v9 lets the
  coordinator tell a leader to skip the assignment.
- LeaveGroup v3 removes several members at once.
- ListGroups v4 filters by state, v5 by type.
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.messages.common import OPERATIONS_UNKNOWN
from minikafka.protocol.schema import Bool, Bytes, Int8, Int16, Int32, String, Struct, field


class FindCoordinatorRequest(Request, api_key=10, versions=(0, 6), flexible=3):
    key: String = field(default="", until=3)
    key_type: Int8 = field(default=0, since=1)
    coordinator_keys: list[String] = field(factory=list, since=4)


class Coordinator(Struct):
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16 = 0
    error_message: String | None = None


class FindCoordinatorResponse(Response, api_key=10, versions=(0, 6), flexible=3):
    throttle_time_ms: Int32 = field(default=0, since=1)
    error_code: Int16 = field(default=0, until=3)
    error_message: String | None = field(default=None, since=1, until=3)
    node_id: Int32 = field(default=0, until=3)
    host: String = field(default="", until=3)
    port: Int32 = field(default=0, until=3)
    coordinators: list[Coordinator] = field(factory=list, since=4)


class JoinGroupRequestProtocol(Struct):
    name: String
    metadata: Bytes


class JoinGroupRequest(Request, api_key=11, versions=(0, 9), flexible=6):
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field(default=-1, since=1)
    member_id: String
    group_instance_id: String | None = field(default=None, since=5)
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    reason: String | None = field(default=None, since=8)


class JoinGroupResponseMember(Struct):
    member_id: String
    group_instance_id: String | None = field(default=None, since=5)
    metadata: Bytes


class JoinGroupResponse(Response, api_key=11, versions=(0, 9), flexible=6):
    throttle_time_ms: Int32 = field(default=0, since=2)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = field(default=None, since=7)
    protocol_name: String | None = field(default=None, null_since=7)
    leader: String = ""
    skip_assignment: Bool = field(default=False, since=9)
    member_id: String = ""
    members: list[JoinGroupResponseMember] = field(factory=list)


class SyncGroupRequestAssignment(Struct):
    member_id: String
    assignment: Bytes


class SyncGroupRequest(Request, api_key=14, versions=(0, 5), flexible=4):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field(default=None, since=3)
    protocol_type: String | None = field(default=None, since=5)
    protocol_name: String | None = field(default=None, since=5)
    assignments: list[SyncGroupRequestAssignment]


class SyncGroupResponse(Response, api_key=14, versions=(0, 5), flexible=4):
    throttle_time_ms: Int32 = field(default=0, since=1)
    error_code: Int16 = 0
    protocol_type: String | None = field(default=None, since=5)
    protocol_name: String | None = field(default=None, since=5)
    assignment: Bytes = b""


class HeartbeatRequest(Request, api_key=12, versions=(0, 4), flexible=4):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field(default=None, since=3)


class HeartbeatResponse(Response, api_key=12, versions=(0, 4), flexible=4):
    throttle_time_ms: Int32 = field(default=0, since=1)
    error_code: Int16 = 0


class MemberIdentity(Struct):
    member_id: String
    group_instance_id: String | None = None
    reason: String | None = field(default=None, since=5)


class LeaveGroupRequest(Request, api_key=13, versions=(0, 5), flexible=4):
    group_id: String
    member_id: String = field(default="", until=2)
    members: list[MemberIdentity] = field(factory=list, since=3)


class MemberResponse(Struct):
    member_id: String
    group_instance_id: String | None
    error_code: Int16 = 0


class LeaveGroupResponse(Response, api_key=13, versions=(0, 5), flexible=4):
    throttle_time_ms: Int32 = field(default=0, since=1)
    error_code: Int16 = 0
    members: list[MemberResponse] = field(factory=list, since=3)


class DescribeGroupsRequest(Request, api_key=15, versions=(0, 5), flexible=5):
    groups: list[String]
    include_authorized_operations: Bool = field(default=False, since=3)


class DescribedGroupMember(Struct):
    member_id: String
    group_instance_id: String | None = field(default=None, since=4)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


class DescribedGroup(Struct):
    error_code: Int16 = 0
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: list[DescribedGroupMember]
    authorized_operations: Int32 = field(default=OPERATIONS_UNKNOWN, since=3)


class DescribeGroupsResponse(Response, api_key=15, versions=(0, 5), flexible=5):
    throttle_time_ms: Int32 = field(default=0, since=1)
    groups: list[DescribedGroup]


class ListGroupsRequest(Request, api_key=16, versions=(0, 5), flexible=3):
    states_filter: list[String] = field(factory=list, since=4)
    types_filter: list[String] = field(factory=list, since=5)


class ListedGroup(Struct):
    group_id: String
    protocol_type: String
    group_state: String = field(default="", since=4)
    group_type: String = field(default="", since=5)


class ListGroupsResponse(Response, api_key=16, versions=(0, 5), flexible=3):
    throttle_time_ms: Int32 = field(default=0, since=1)
    error_code: Int16 = 0
    groups: list[ListedGroup] = field(factory=list)


class DeleteGroupsRequest(Request, api_key=42, versions=(0, 2), flexible=2):
    groups_names: list[String]


class DeletableGroupResult(Struct):
    group_id: String
    error_code: Int16 = 0


class DeleteGroupsResponse(Response, api_key=42, versions=(0, 2), flexible=2):
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult]
