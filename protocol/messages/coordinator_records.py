"""The records of `__consumer_offsets` and `__transaction_state`, as Kafka writes them.

Keys tell by their version what they are: in `__consumer_offsets` 0 and 1 are committed offsets, 2
is a group.  Lag monitors and Kafka's own tools read these topics, so the bytes are Kafka's.
"""

from minikafka.protocol.message import VersionPrefixed
from minikafka.protocol.schema import Bytes, Int8, Int16, Int32, Int64, String, Struct, field


class OffsetCommitKey(VersionPrefixed, versions=(0, 1)):
    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(VersionPrefixed, versions=(0, 4), flexible=4):
    offset: Int64
    leader_epoch: Int32 = field(default=-1, since=3)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(default=-1, since=1, until=1)


class GroupMetadataKey(VersionPrefixed, versions=(2, 2)):
    group: String


class GroupMemberMetadata(Struct):
    member_id: String
    group_instance_id: String | None = field(default=None, since=3)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field(default=0, since=1)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


class GroupMetadataValue(VersionPrefixed, versions=(0, 4), flexible=4):
    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = field(default=-1, since=2)
    members: list[GroupMemberMetadata]


class TransactionLogKey(VersionPrefixed, versions=(0, 0)):
    transactional_id: String


class TransactionPartitions(Struct):
    topic: String
    partition_ids: list[Int32]


class TransactionLogValue(VersionPrefixed, versions=(0, 1), flexible=1):
    producer_id: Int64
    previous_producer_id: Int64 = field(default=-1, since=1, tag=0)
    next_producer_id: Int64 = field(default=-1, since=1, tag=1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = field(default=-1, since=1, tag=3)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[TransactionPartitions] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = field(default=0, since=1, tag=2)
