"""What can go wrong for a consumer beyond what every client knows, each with the partition and offset it is about."""

from __future__ import annotations

from minikafka.client.errors import ClientError, CommitFailed, IllegalState, SerializationFailed
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import (
    CorruptMessageError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
)

__all__ = [
    "BatchTooLarge",
    "CommitFailed",
    "CorruptBatch",
    "LargeRecord",
    "LogTruncated",
    "NoGroup",
    "NoOffsetForPartition",
    "NotAssigned",
    "OffsetOutOfRange",
    "PositionError",
    "RecordNotReadable",
]


class NotAssigned(IllegalState):
    """The partition is not assigned to this consumer."""


class NoGroup(IllegalState):
    """The call needs a `group_id`."""


class PositionError(ClientError):
    """Reading a partition cannot go on at its position; `seek` elsewhere to go on."""

    def __init__(self, message: str, partition: TopicPartition, offset: int) -> None:
        super().__init__(message)
        self.args = (message, partition, offset)
        self.partition = partition
        self.offset = offset


class NoOffsetForPartition(PositionError):
    """There is no committed offset, and `auto_offset_reset` is none."""


class OffsetOutOfRange(PositionError, OffsetOutOfRangeError):
    """The position is not in the log, and `auto_offset_reset` is none."""


class LogTruncated(PositionError):
    """Records that were read are no longer in the log; it now differs from `offset` on."""


class CorruptBatch(PositionError, CorruptMessageError):
    """A batch is damaged; it is fetched again with the next call, in case it is the wire's fault."""


class RecordNotReadable(PositionError, SerializationFailed):
    """A deserializer refused the record at `offset`; seek to the next offset to go on without it."""


class LargeRecord(PositionError, MessageTooLargeError):
    """The record at `offset` is above `max_record_bytes`; raise that, or seek to the next offset to do without it."""


class BatchTooLarge(PositionError, MessageTooLargeError):
    """The batch at the position is larger than the broker may answer; raise `max_partition_fetch_bytes`."""
