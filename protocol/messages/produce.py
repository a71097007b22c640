"""Produce: append record batches to partition logs.

- v3 is the first with batches of magic 2 (and a transactional id); v0 to v2 carry older formats.
- v7 allows zstd; v8 adds errors of single records; v9 is flexible.
- v10 tells a refused producer who leads now; v11 asks for partition verification of transactions,
  v12 to add the partition to the transaction (KIP-890).
- acks=0 gets no response at all.
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.messages.common import LeaderIdAndEpoch, NodeEndpoint
from minikafka.protocol.schema import Int16, Int32, Int64, Records, String, Struct, field


class PartitionProduceData(Struct):
    index: Int32
    records: Records | None


class TopicProduceData(Struct):
    name: String
    partition_data: list[PartitionProduceData]


class ProduceRequest(Request, api_key=0, versions=(0, 12), flexible=9):
    transactional_id: String | None = field(default=None, since=3)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32
    batch_index_error_message: String | None = None


class PartitionProduceResponse(Struct):
    index: Int32
    error_code: Int16 = 0
    base_offset: Int64
    log_append_time_ms: Int64 = field(default=-1, since=2)
    log_start_offset: Int64 = field(default=-1, since=5)
    record_errors: list[BatchIndexAndErrorMessage] = field(factory=list, since=8)
    error_message: String | None = field(default=None, since=8)
    current_leader: LeaderIdAndEpoch | None = field(default=None, since=10, tag=0)


class TopicProduceResponse(Struct):
    name: String
    partition_responses: list[PartitionProduceResponse]


class ProduceResponse(Response, api_key=0, versions=(0, 12), flexible=9):
    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = field(default=0, since=1)
    node_endpoints: list[NodeEndpoint] = field(factory=list, since=10, tag=0)
