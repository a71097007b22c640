"""ListOffsets and OffsetForLeaderEpoch: where a log begins, ends, and was at a time or an epoch.

- Timestamps below zero are questions: -1 latest, -2 earliest, -3 the largest timestamp (v7),
  -4 earliest local (v8), -5 latest tiered (v9).
- ListOffsets v0 answers with a list of offsets, later versions with one offset and its timestamp.
- OffsetForLeaderEpoch v3 lets consumers ask, too; its replica id is -2 for "a debugging consumer".
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.schema import Int8, Int16, Int32, Int64, String, Struct, field


class ListOffsetsPartition(Struct):
    partition_index: Int32
    current_leader_epoch: Int32 = field(default=-1, since=4)
    timestamp: Int64
    max_num_offsets: Int32 = field(default=1, until=0)


class ListOffsetsTopic(Struct):
    name: String
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Request, api_key=2, versions=(0, 9), flexible=6):
    replica_id: Int32
    isolation_level: Int8 = field(default=0, since=2)
    topics: list[ListOffsetsTopic]


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16 = 0
    old_style_offsets: list[Int64] = field(factory=list, until=0)
    timestamp: Int64 = field(default=-1, since=1)
    offset: Int64 = field(default=-1, since=1)
    leader_epoch: Int32 = field(default=-1, since=4)


class ListOffsetsTopicResponse(Struct):
    name: String
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Response, api_key=2, versions=(0, 9), flexible=6):
    throttle_time_ms: Int32 = field(default=0, since=2)
    topics: list[ListOffsetsTopicResponse]


class OffsetForLeaderPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = field(default=-1, since=2)
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct):
    topic: String
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Request, api_key=23, versions=(0, 4), flexible=4):
    replica_id: Int32 = field(default=-2, since=3)
    topics: list[OffsetForLeaderTopic]


class LeaderEpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = field(default=-1, since=1)
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: String
    partitions: list[LeaderEpochEndOffset]


class OffsetForLeaderEpochResponse(Response, api_key=23, versions=(0, 4), flexible=4):
    throttle_time_ms: Int32 = field(default=0, since=2)
    topics: list[OffsetForLeaderTopicResult]
