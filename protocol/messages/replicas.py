"""Where replicas live: log directories, leader elections, reassignments.

- DescribeLogDirs v3 reports a failure of the whole request, v4 the size of the volumes.
- ElectLeaders v1 adds the kind of election: 0 preferred, 1 unclean.
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.schema import Bool, Int8, Int16, Int32, Int64, String, Struct, field


class AlterReplicaLogDirTopic(Struct):
    name: String
    partitions: list[Int32]


class AlterReplicaLogDir(Struct):
    path: String
    topics: list[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(Request, api_key=34, versions=(0, 2), flexible=2):
    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String
    partitions: list[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Response, api_key=34, versions=(0, 2), flexible=2):
    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult]


class DescribableLogDirTopic(Struct):
    topic: String
    partitions: list[Int32]


class DescribeLogDirsRequest(Request, api_key=35, versions=(0, 4), flexible=2):
    topics: list[DescribableLogDirTopic] | None


class DescribeLogDirsPartition(Struct):
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


class DescribeLogDirsTopic(Struct):
    name: String
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    error_code: Int16 = 0
    log_dir: String
    topics: list[DescribeLogDirsTopic]
    total_bytes: Int64 = field(default=-1, since=4)
    usable_bytes: Int64 = field(default=-1, since=4)


class DescribeLogDirsResponse(Response, api_key=35, versions=(0, 4), flexible=2):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(default=0, since=3)
    results: list[DescribeLogDirsResult] = field(factory=list)


class ElectLeadersTopic(Struct):
    topic: String
    partitions: list[Int32]


class ElectLeadersRequest(Request, api_key=43, versions=(0, 2), flexible=2):
    election_type: Int8 = field(default=0, since=1)
    topic_partitions: list[ElectLeadersTopic] | None
    timeout_ms: Int32 = 60000


class ElectLeadersPartitionResult(Struct):
    partition_id: Int32
    error_code: Int16 = 0
    error_message: String | None = None


class ElectLeadersTopicResult(Struct):
    topic: String
    partition_result: list[ElectLeadersPartitionResult]


class ElectLeadersResponse(Response, api_key=43, versions=(0, 2), flexible=2):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(default=0, since=1)
    replica_election_results: list[ElectLeadersTopicResult] = field(factory=list)


class ReassignablePartition(Struct):
    partition_index: Int32
    replicas: list[Int32] | None = None


class ReassignableTopic(Struct):
    name: String
    partitions: list[ReassignablePartition]


class AlterPartitionReassignmentsRequest(Request, api_key=45, versions=(0, 0), flexible=0):
    timeout_ms: Int32 = 60000
    topics: list[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None


class ReassignableTopicResponse(Struct):
    name: String
    partitions: list[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(Response, api_key=45, versions=(0, 0), flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[ReassignableTopicResponse] = field(factory=list)


class ListPartitionReassignmentsTopic(Struct):
    name: String
    partition_indexes: list[Int32]


class ListPartitionReassignmentsRequest(Request, api_key=46, versions=(0, 0), flexible=0):
    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopic] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


class OngoingTopicReassignment(Struct):
    name: String
    partitions: list[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(Response, api_key=46, versions=(0, 0), flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    topics: list[OngoingTopicReassignment] = field(factory=list)
