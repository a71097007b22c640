"""Errors of the data path: produce, fetch, offsets, idempotence and transactions. The docstring is the message."""

from minikafka.protocol.errors.base import InvalidMetadataError, KafkaError, RetriableError
from minikafka.protocol.errors.codes import ErrorCode


class UnknownServerError(KafkaError, code=ErrorCode.UNKNOWN_SERVER_ERROR):
    """The broker failed in a way it has no code for."""


class OffsetOutOfRangeError(KafkaError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """The offset lies outside of what the partition holds."""


class CorruptMessageError(RetriableError, code=ErrorCode.CORRUPT_MESSAGE):
    """A record batch has a bad checksum, size or layout."""


class UnknownTopicOrPartitionError(InvalidMetadataError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
    """The broker does not have this topic or partition."""


class InvalidFetchSizeError(KafkaError, code=ErrorCode.INVALID_FETCH_SIZE):
    """The fetch asks for a number of bytes that makes no sense."""


class LeaderNotAvailableError(InvalidMetadataError, code=ErrorCode.LEADER_NOT_AVAILABLE):
    """The partition has no leader at the moment."""


class NotLeaderOrFollowerError(InvalidMetadataError, code=ErrorCode.NOT_LEADER_OR_FOLLOWER):
    """The broker does not lead this partition, or holds no replica of it."""


class RequestTimedOutError(RetriableError, code=ErrorCode.REQUEST_TIMED_OUT):
    """The broker did not finish the request in time."""


class ReplicaNotAvailableError(InvalidMetadataError, code=ErrorCode.REPLICA_NOT_AVAILABLE):
    """The broker cannot use its replica of this partition now."""


class MessageTooLargeError(KafkaError, code=ErrorCode.MESSAGE_TOO_LARGE):
    """A record batch is larger than the topic allows."""


class NetworkError(InvalidMetadataError, code=ErrorCode.NETWORK_EXCEPTION):
    """The connection broke before the answer came."""


class RecordListTooLargeError(KafkaError, code=ErrorCode.RECORD_LIST_TOO_LARGE):
    """The record batches are larger than a log segment."""


class NotEnoughReplicasError(RetriableError, code=ErrorCode.NOT_ENOUGH_REPLICAS):
    """Too few replicas are in sync; nothing was written."""


class NotEnoughReplicasAfterAppendError(RetriableError, code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
    """Written, but too few replicas were in sync to confirm it."""


class InvalidRequiredAcksError(KafkaError, code=ErrorCode.INVALID_REQUIRED_ACKS):
    """The acks of a produce request are none of -1, 0 and 1."""


class InvalidTimestampError(KafkaError, code=ErrorCode.INVALID_TIMESTAMP):
    """A record's timestamp is too far from the broker's time."""


class UnsupportedForMessageFormatError(KafkaError, code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
    """The record format is too old for this request."""


class OutOfOrderSequenceNumberError(KafkaError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
    """The sequence number of a batch does not follow the last one."""


class DuplicateSequenceNumberError(KafkaError, code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
    """A batch of this sequence number was written before."""


class InvalidProducerEpochError(KafkaError, code=ErrorCode.INVALID_PRODUCER_EPOCH):
    """The producer's epoch is over."""


class InvalidTxnStateError(KafkaError, code=ErrorCode.INVALID_TXN_STATE):
    """The transaction is not in a state that allows this."""


class InvalidProducerIdMappingError(KafkaError, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING):
    """The producer id does not belong to this transactional id."""


class InvalidTransactionTimeoutError(KafkaError, code=ErrorCode.INVALID_TRANSACTION_TIMEOUT):
    """The transaction timeout is above what the broker allows."""


class ConcurrentTransactionsError(RetriableError, code=ErrorCode.CONCURRENT_TRANSACTIONS):
    """The previous transaction of this transactional id is still being finished."""


class TransactionCoordinatorFencedError(KafkaError, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED):
    """A newer transaction coordinator has taken over."""


class TransactionalIdAuthorizationFailedError(KafkaError, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED):
    """Not allowed to use this transactional id."""


class KafkaStorageError(InvalidMetadataError, code=ErrorCode.KAFKA_STORAGE_ERROR):
    """The disk that holds the log has failed."""


class LogDirNotFoundError(KafkaError, code=ErrorCode.LOG_DIR_NOT_FOUND):
    """The broker has no such log directory."""


class UnknownProducerIdError(KafkaError, code=ErrorCode.UNKNOWN_PRODUCER_ID):
    """The broker has nothing of this producer id any more."""


class FetchSessionIdNotFoundError(RetriableError, code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
    """The broker does not know this fetch session."""


class InvalidFetchSessionEpochError(RetriableError, code=ErrorCode.INVALID_FETCH_SESSION_EPOCH):
    """The fetch session is at another epoch."""


class ListenerNotFoundError(InvalidMetadataError, code=ErrorCode.LISTENER_NOT_FOUND):
    """The leader is not reachable on the listener that the client uses."""


class FencedLeaderEpochError(InvalidMetadataError, code=ErrorCode.FENCED_LEADER_EPOCH):
    """The request names a leader epoch that is over."""


class UnknownLeaderEpochError(RetriableError, code=ErrorCode.UNKNOWN_LEADER_EPOCH):
    """The request names a leader epoch that the broker has not heard of yet."""


class UnsupportedCompressionTypeError(KafkaError, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
    """The codec cannot be used with this version of the request."""


class OffsetNotAvailableError(RetriableError, code=ErrorCode.OFFSET_NOT_AVAILABLE):
    """The new leader does not know its high watermark yet."""


class InvalidRecordError(KafkaError, code=ErrorCode.INVALID_RECORD):
    """The broker refused a record."""


class ProducerFencedError(KafkaError, code=ErrorCode.PRODUCER_FENCED):
    """A newer producer uses this transactional id."""


class UnknownTopicIdError(InvalidMetadataError, code=ErrorCode.UNKNOWN_TOPIC_ID):
    """The broker does not have a topic of this id."""


class InconsistentTopicIdError(InvalidMetadataError, code=ErrorCode.INCONSISTENT_TOPIC_ID):
    """The topic id differs from the one in the broker's log."""


class TransactionalIdNotFoundError(KafkaError, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
    """The coordinator does not know this transactional id."""


class FetchSessionTopicIdError(RetriableError, code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR):
    """A fetch session mixed topic names and topic ids."""


class OffsetMovedToTieredStorageError(KafkaError, code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE):
    """The offset is no longer on the broker's own disks."""


class TransactionAbortableError(KafkaError, code=ErrorCode.TRANSACTION_ABORTABLE):
    """The transaction failed; abort it to go on."""
