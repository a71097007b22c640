"""Producer ids, and transactions from the first partition to the markers.

- InitProducerId v3 lets a producer recover its epoch after an error.
- AddPartitionsToTxn v4 serves several transactions at once and can only verify, which is what
  brokers ask each other; clients stay at v3.
- TxnOffsetCommit v3 carries the member and generation, to fence zombies of the group.
- Errors 90 (fenced) exist in v2 and later of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn; before, 47 stands in.
- WriteTxnMarkers goes from the transaction coordinator to the leaders of the partitions.
- Transaction version 2 (KIP-890): EndTxn v5 answers with the identity for the next transaction, TxnOffsetCommit v5 and
  Produce v12 have the broker add the partition, and WriteTxnMarkers v2 says by which version the transaction ended.
"""

from minikafka.protocol.message import Request, Response
from minikafka.protocol.schema import Bool, Int8, Int16, Int32, Int64, String, Struct, field


class InitProducerIdRequest(Request, api_key=22, versions=(0, 5), flexible=2):
    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = field(default=-1, since=3)
    producer_epoch: Int16 = field(default=-1, since=3)


class InitProducerIdResponse(Response, api_key=22, versions=(0, 5), flexible=2):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0


class AddPartitionsToTxnTopic(Struct):
    name: String
    partitions: list[Int32]


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: list[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(Request, api_key=24, versions=(0, 5), flexible=3):
    transactions: list[AddPartitionsToTxnTransaction] = field(factory=list, since=4)
    v3_and_below_transactional_id: String = field(default="", until=3)
    v3_and_below_producer_id: Int64 = field(default=0, until=3)
    v3_and_below_producer_epoch: Int16 = field(default=0, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(factory=list, until=3)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    transactional_id: String
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Response, api_key=24, versions=(0, 5), flexible=3):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(default=0, since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(factory=list, since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(factory=list, until=3)


class AddOffsetsToTxnRequest(Request, api_key=25, versions=(0, 4), flexible=3):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


class AddOffsetsToTxnResponse(Response, api_key=25, versions=(0, 4), flexible=3):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class EndTxnRequest(Request, api_key=26, versions=(0, 5), flexible=3):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


class EndTxnResponse(Response, api_key=26, versions=(0, 5), flexible=3):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field(default=-1, since=5)
    producer_epoch: Int16 = field(default=-1, since=5)


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(default=-1, since=2)
    committed_metadata: String | None


class TxnOffsetCommitRequestTopic(Struct):
    name: String
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Request, api_key=28, versions=(0, 5), flexible=3):
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = field(default=-1, since=3)
    member_id: String = field(default="", since=3)
    group_instance_id: String | None = field(default=None, since=3)
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    name: String
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Response, api_key=28, versions=(0, 5), flexible=3):
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]


class WritableTxnMarkerTopic(Struct):
    name: String
    partition_indexes: list[Int32]


class WritableTxnMarker(Struct):
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = field(default=0, since=2)


class WriteTxnMarkersRequest(Request, api_key=27, versions=(0, 2), flexible=1):
    markers: list[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    name: String
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Response, api_key=27, versions=(0, 2), flexible=1):
    markers: list[WritableTxnMarkerResult]


class DescribeProducersTopic(Struct):
    name: String
    partition_indexes: list[Int32]


class DescribeProducersRequest(Request, api_key=61, versions=(0, 0), flexible=0):
    topics: list[DescribeProducersTopic]


class ProducerState(Struct):
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


class DescribedProducersPartition(Struct):
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: list[ProducerState]


class DescribedProducersTopic(Struct):
    name: String
    partitions: list[DescribedProducersPartition]


class DescribeProducersResponse(Response, api_key=61, versions=(0, 0), flexible=0):
    throttle_time_ms: Int32 = 0
    topics: list[DescribedProducersTopic]


class DescribeTransactionsRequest(Request, api_key=65, versions=(0, 0), flexible=0):
    transactional_ids: list[String]


class DescribedTransactionTopic(Struct):
    topic: String
    partitions: list[Int32]


class DescribedTransaction(Struct):
    error_code: Int16 = 0
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[DescribedTransactionTopic]


class DescribeTransactionsResponse(Response, api_key=65, versions=(0, 0), flexible=0):
    throttle_time_ms: Int32 = 0
    transaction_states: list[DescribedTransaction]


class ListTransactionsRequest(Request, api_key=66, versions=(0, 1), flexible=0):
    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = field(default=-1, since=1)


class ListedTransaction(Struct):
    transactional_id: String
    producer_id: Int64
    transaction_state: String


class ListTransactionsResponse(Response, api_key=66, versions=(0, 1), flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = field(factory=list)
    transaction_states: list[ListedTransaction] = field(factory=list)


class AllocateProducerIdsRequest(Request, api_key=67, versions=(0, 0), flexible=0):
    broker_id: Int32
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Response, api_key=67, versions=(0, 0), flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
