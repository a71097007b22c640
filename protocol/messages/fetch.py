"""Fetch: read whole record batches, as a consumer or as a follower.

- v3 adds a limit for the whole answer; v4 isolation levels and aborted transactions; v5 log starts.
- v7 adds sessions: id 0 with epoch 0 opens one, epoch -1 does without.
- v9 fences by leader epoch; v10 allows zstd; v11 adds racks and a preferred replica.
- v12 is flexible and finds diverging logs; v13 names topics by id; v15 moves the replica id into a
  tagged field; v16 tells where a new leader is; v17 adds the replica's directory.
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.messages.common import LeaderIdAndEpoch, NodeEndpoint
from minikafka.protocol.schema import ZERO_UUID, Int8, Int16, Int32, Int64, Records, String, Struct, Uuid, field


class ReplicaState(Struct):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = field(default=-1, since=9)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field(default=-1, since=12)
    log_start_offset: Int64 = field(default=-1, since=5)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = field(default=ZERO_UUID, since=17, tag=0)


class FetchTopic(Struct):
    topic: String = field(default="", until=12)
    topic_id: Uuid = field(default=ZERO_UUID, since=13)
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic: String = field(default="", until=12)
    topic_id: Uuid = field(default=ZERO_UUID, since=13)
    partitions: list[Int32]


class FetchRequest(Request, api_key=1, versions=(0, 17), flexible=12):
    cluster_id: String | None = field(default=None, since=12, tag=0)
    replica_id: Int32 = field(default=-1, until=14)
    replica_state: ReplicaState | None = field(default=None, since=15, tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=0x7FFFFFFF, since=3)
    isolation_level: Int8 = field(default=0, since=4)
    session_id: Int32 = field(default=0, since=7)
    session_epoch: Int32 = field(default=-1, since=7)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field(factory=list, since=7)
    rack_id: String = field(default="", since=11)


class EpochEndOffset(Struct):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64
    first_offset: Int64


class FetchablePartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Int64 = field(default=-1, since=4)
    log_start_offset: Int64 = field(default=-1, since=5)
    diverging_epoch: EpochEndOffset | None = field(default=None, since=12, tag=0)
    current_leader: LeaderIdAndEpoch | None = field(default=None, since=12, tag=1)
    snapshot_id: SnapshotId | None = field(default=None, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(default=None, since=4)
    preferred_read_replica: Int32 = field(default=-1, since=11)
    records: Records | None


class FetchableTopicResponse(Struct):
    topic: String = field(default="", until=12)
    topic_id: Uuid = field(default=ZERO_UUID, since=13)
    partitions: list[FetchablePartitionResponse]


class FetchResponse(Response, api_key=1, versions=(0, 17), flexible=12):
    throttle_time_ms: Int32 = field(default=0, since=1)
    error_code: Int16 = field(default=0, since=7)
    session_id: Int32 = field(default=0, since=7)
    responses: list[FetchableTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field(factory=list, since=16, tag=0)
