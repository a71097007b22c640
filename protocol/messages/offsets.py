"""Offsets that groups commit: OffsetCommit, OffsetFetch, OffsetDelete.

- OffsetCommit v1 alone carries a timestamp for each partition, v2 to v4 a retention time.
- OffsetFetch: null topics ask for all of them (from v2); v7 can insist on stable offsets; v8 asks for
  several groups at once.
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.schema import Bool, Int16, Int32, Int64, String, Struct, field


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(default=-1, since=6)
    commit_timestamp: Int64 = field(default=-1, since=1, until=1)
    committed_metadata: String | None


class OffsetCommitRequestTopic(Struct):
    name: String
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(Request, api_key=8, versions=(0, 9), flexible=8):
    group_id: String
    generation_id_or_member_epoch: Int32 = field(default=-1, since=1)
    member_id: String = field(default="", since=1)
    group_instance_id: String | None = field(default=None, since=7)
    retention_time_ms: Int64 = field(default=-1, since=2, until=4)
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: String
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(Response, api_key=8, versions=(0, 9), flexible=8):
    throttle_time_ms: Int32 = field(default=0, since=3)
    topics: list[OffsetCommitResponseTopic]


class OffsetFetchRequestTopic(Struct):
    name: String
    partition_indexes: list[Int32]


class OffsetFetchRequestGroupTopic(Struct):
    name: String
    partition_indexes: list[Int32]


class OffsetFetchRequestGroup(Struct):
    group_id: String
    member_id: String | None = field(default=None, since=9)
    member_epoch: Int32 = field(default=-1, since=9)
    topics: list[OffsetFetchRequestGroupTopic] | None


class OffsetFetchRequest(Request, api_key=9, versions=(0, 9), flexible=6):
    group_id: String = field(default="", until=7)
    topics: list[OffsetFetchRequestTopic] | None = field(default=None, until=7, null_since=2)
    groups: list[OffsetFetchRequestGroup] = field(factory=list, since=8)
    require_stable: Bool = field(default=False, since=7)


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(default=-1, since=5)
    metadata: String | None
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Struct):
    name: String
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponseGroupPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: String | None
    error_code: Int16 = 0


class OffsetFetchResponseGroupTopic(Struct):
    name: String
    partitions: list[OffsetFetchResponseGroupPartition]


class OffsetFetchResponseGroup(Struct):
    group_id: String
    topics: list[OffsetFetchResponseGroupTopic]
    error_code: Int16 = 0


class OffsetFetchResponse(Response, api_key=9, versions=(0, 9), flexible=6):
    throttle_time_ms: Int32 = field(default=0, since=3)
    topics: list[OffsetFetchResponseTopic] = field(factory=list, until=7)
    error_code: Int16 = field(default=0, since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = field(factory=list, since=8)


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32


class OffsetDeleteRequestTopic(Struct):
    name: String
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Request, api_key=47, versions=(0, 0)):
    group_id: String
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: String
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Response, api_key=47, versions=(0, 0)):
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(factory=list)
