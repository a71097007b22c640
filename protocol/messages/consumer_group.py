"""The consumer group protocol of KIP-848, in which the broker assigns the partitions."""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.messages.common import OPERATIONS_UNKNOWN
from minikafka.protocol.schema import Bool, Int16, Int32, String, Struct, Uuid


class TopicIdPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupHeartbeatRequest(Request, api_key=68, versions=(0, 0), flexible=0):
    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    server_assignor: String | None = None
    topic_partitions: list[TopicIdPartitions] | None = None


class HeartbeatAssignment(Struct):
    topic_partitions: list[TopicIdPartitions]


class ConsumerGroupHeartbeatResponse(Response, api_key=68, versions=(0, 0), flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: HeartbeatAssignment | None = None


class ConsumerGroupDescribeRequest(Request, api_key=69, versions=(0, 0), flexible=0):
    group_ids: list[String]
    include_authorized_operations: Bool


class AssignedTopicPartitions(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


class MemberAssignment(Struct):
    topic_partitions: list[AssignedTopicPartitions]


class ConsumerGroupMember(Struct):
    member_id: String
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = None
    assignment: MemberAssignment
    target_assignment: MemberAssignment


class DescribedConsumerGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: list[ConsumerGroupMember]
    authorized_operations: Int32 = OPERATIONS_UNKNOWN


class ConsumerGroupDescribeResponse(Response, api_key=69, versions=(0, 0), flexible=0):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedConsumerGroup]
