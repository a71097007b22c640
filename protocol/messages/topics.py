"""Topics and their partitions: create, delete, grow, delete records.

- CreateTopics v4 accepts -1 for the broker's default counts; v5 returns the configuration, which must
  not be null on success; v7 returns the topic id.
- DeleteTopics v6 deletes by name or id.
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.schema import ZERO_UUID, Bool, Int8, Int16, Int32, Int64, String, Struct, Uuid, field


class CreatableReplicaAssignment(Struct):
    partition_index: Int32
    broker_ids: list[Int32]


class CreatableTopicConfig(Struct):
    name: String
    value: String | None


class CreatableTopic(Struct):
    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


class CreateTopicsRequest(Request, api_key=19, versions=(0, 7), flexible=5):
    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: Bool = field(default=False, since=1)


class CreatedTopicConfig(Struct):
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool


class CreatableTopicResult(Struct):
    name: String
    topic_id: Uuid = field(default=ZERO_UUID, since=7)
    error_code: Int16 = 0
    error_message: String | None = field(default=None, since=1)
    topic_config_error_code: Int16 = field(default=0, since=5, tag=0)
    num_partitions: Int32 = field(default=-1, since=5)
    replication_factor: Int16 = field(default=-1, since=5)
    configs: list[CreatedTopicConfig] | None = field(default=None, since=5)


class CreateTopicsResponse(Response, api_key=19, versions=(0, 7), flexible=5):
    throttle_time_ms: Int32 = field(default=0, since=2)
    topics: list[CreatableTopicResult]


class DeleteTopicState(Struct):
    name: String | None = None
    topic_id: Uuid


class DeleteTopicsRequest(Request, api_key=20, versions=(0, 6), flexible=4):
    topics: list[DeleteTopicState] = field(factory=list, since=6)
    topic_names: list[String] = field(factory=list, until=5)
    timeout_ms: Int32


class DeletableTopicResult(Struct):
    name: String | None = field(null_since=6)
    topic_id: Uuid = field(default=ZERO_UUID, since=6)
    error_code: Int16 = 0
    error_message: String | None = field(default=None, since=5)


class DeleteTopicsResponse(Response, api_key=20, versions=(0, 6), flexible=4):
    throttle_time_ms: Int32 = field(default=0, since=1)
    responses: list[DeletableTopicResult]


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32]


class CreatePartitionsTopic(Struct):
    name: String
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None


class CreatePartitionsRequest(Request, api_key=37, versions=(0, 3), flexible=2):
    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


class CreatePartitionsTopicResult(Struct):
    name: String
    error_code: Int16 = 0
    error_message: String | None = None


class CreatePartitionsResponse(Response, api_key=37, versions=(0, 3), flexible=2):
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]


class DeleteRecordsPartition(Struct):
    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Struct):
    name: String
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsRequest(Request, api_key=21, versions=(0, 2), flexible=2):
    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: String
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Response, api_key=21, versions=(0, 2), flexible=2):
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult]
