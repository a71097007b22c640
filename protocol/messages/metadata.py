"""Metadata: brokers, topics, partitions and who leads them.

- v0: an empty list asks for all topics; from v1 on null does, and an empty list asks for none.
- v4 lets the client forbid auto-creation; v5 adds offline replicas; v7 leader epochs.
- v10 adds topic ids to the answer; asking by id works from v12 on, where a name may be null.
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.messages.common import OPERATIONS_UNKNOWN
from minikafka.protocol.schema import ZERO_UUID, Bool, Int16, Int32, String, Struct, Uuid, field


class MetadataRequestTopic(Struct):
    topic_id: Uuid = field(default=ZERO_UUID, since=10)
    name: String | None = field(null_since=10)


class MetadataRequest(Request, api_key=3, versions=(0, 12), flexible=9):
    topics: list[MetadataRequestTopic] | None = field(null_since=1)
    allow_auto_topic_creation: Bool = field(default=True, since=4)
    include_cluster_authorized_operations: Bool = field(default=False, since=8, until=10)
    include_topic_authorized_operations: Bool = field(default=False, since=8)


class MetadataResponseBroker(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None, since=1)


class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field(default=-1, since=7)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = field(factory=list, since=5)


class MetadataResponseTopic(Struct):
    error_code: Int16 = 0
    name: String | None = field(null_since=12)
    topic_id: Uuid = field(default=ZERO_UUID, since=10)
    is_internal: Bool = field(default=False, since=1)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Int32 = field(default=OPERATIONS_UNKNOWN, since=8)


class MetadataResponse(Response, api_key=3, versions=(0, 12), flexible=9):
    throttle_time_ms: Int32 = field(default=0, since=3)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = field(default=None, since=2)
    controller_id: Int32 = field(default=-1, since=1)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field(default=OPERATIONS_UNKNOWN, since=8, until=10)
