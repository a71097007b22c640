"""What a leader accepts from a producer, and what it changes about it.

The header decides nearly always: the broker's fastest path looks at 61 bytes and has the CRC computed. Records are
looked at in three cases only: on compacted topics, where each needs a key; where `message.timestamp.before.max.ms` is
set, since only the largest timestamp is in the header; and to name the bad ones of a batch that is refused. For the
rest a batch whose CRC is right is the producer's own matter: consumers check records when they read them. A batch with
the bit for append time has the timestamp of its header in all records, so its header is enough.

A few kilobytes may inflate to gigabytes. So records are inflated in pieces, and what is more than a little is `Costly`:
whoever appends has it looked at in a thread by `inspect`, and comes again with the result.

Refusals are errors of the protocol. `RejectedRecords` goes with one of them and names the records that are to blame.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, Self

from crc32c import crc32c

from minikafka.protocol.compression import Compression
from minikafka.protocol.errors import (
    CorruptMessageError,
    CorruptRecord,
    InflatesTooFar,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageTooLargeError,
    RecordListTooLargeError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.layout import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    LENGTH_AT,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TimestampType,
)
from minikafka.protocol.records.pieces import iter_pieces
from minikafka.protocol.records.reader import base_of, read_payload
from minikafka.protocol.records.walk import Record
from minikafka.protocol.varint import INT32_MAX, INT64_MAX, Buffer
from minikafka.storage.config import LogConfig
from minikafka.storage.producers import Origin
from minikafka.storage.recompression import recompress

# Looking a member up in its class takes longer than comparing it.
_CLIENT = Origin.CLIENT
_LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME
_ZSTD = int(Compression.ZSTD)

# The first version of Produce for batches of magic 2, and the first that may hold zstd.
_MAGIC_2_VERSION = 3
_ZSTD_VERSION = 7

# The smallest message of any record format, after offset and length.
_MESSAGE_BYTES_MIN = 14

# What is done on the event loop: some milliseconds at worst. More is done by a thread.
_HURRIED_BYTES_MAX = 64 << 10
_HURRIED_RECORDS_MAX = 4096

RECORD_ERRORS_MAX = 100
"""As many records of a refused batch are named; Kafka names all."""

_unpack_length = Struct(">i").unpack_from
_pack_attributes = Struct(">h").pack_into
_pack_crc = Struct(">I").pack_into
_pack_timestamp = Struct(">q").pack_into
_MAX_TIMESTAMP_AT = 35


class Limits(NamedTuple):
    """The topic's settings that decide about a batch; the defaults are Kafka's."""

    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1 << 30
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = INT64_MAX
    is_compacted: bool = False
    compression: Compression | None = None
    """The codec to store batches in; None keeps the producer's."""
    compression_level: int | None = None
    inflated_bytes_max: int = INT32_MAX
    """As large as a batch can be that is not compressed."""
    is_lenient: bool = False
    """Known to be as they usually are: batches are stored as they come, and nobody has to look at their records."""

    @classmethod
    def of(cls, config: LogConfig) -> Self:
        return cls(
            max_message_bytes=config.max_message_bytes,
            segment_bytes=config.segment_bytes,
            timestamp_type=config.timestamp_type,
            timestamp_before_max_ms=config.timestamp_before_max_ms,
            timestamp_after_max_ms=config.timestamp_after_max_ms,
            is_compacted=config.cleanup_compact,
            compression=config.compression,
            compression_level=config.compression_level,
            is_lenient=(
                config.compression is None
                and not config.cleanup_compact
                and config.timestamp_type is not _LOG_APPEND_TIME
                and config.timestamp_before_max_ms == INT64_MAX
            ),
        )


class Costly(Exception):
    """Looking at the records would hold up the event loop: `inspect` does it on any thread."""

    def __init__(self, batch: BatchView, limits: Limits) -> None:
        super().__init__(batch, limits)
        self.batch = batch
        self.limits = limits


class Inspected(NamedTuple):
    """A batch whose records were looked at, as it is to be stored under these limits."""

    batch: BatchView
    limits: Limits


class RecordError(NamedTuple):
    """Why one record of a batch is refused."""

    batch_index: int
    message: str


class RejectedRecords(Exception):
    """`error` is the answer for the partition, `record_errors` name the records."""

    def __init__(self, error: KafkaError, record_errors: list[RecordError]) -> None:
        super().__init__(error, record_errors)
        self.error = error
        self.record_errors = record_errors

    def __str__(self) -> str:
        return f"{self.error} ({len(self.record_errors)} records)"


def parse_produced(records: Buffer | None, api_version: int) -> BatchView:
    """The one batch that a partition of a Produce request must have; the start of another after it is ignored."""
    if records is None:
        raise InvalidRecordError("there are no records")
    try:
        batch = BatchView(records)
    except CorruptRecord as error:
        raise _no_batch(records, api_version, error) from None
    codec = batch.attributes & CODEC_MASK
    if codec >= _ZSTD and (codec > _ZSTD or api_version < _ZSTD_VERSION):
        raise UnsupportedCompressionTypeError(f"codec {codec} cannot be used in version {api_version} of Produce")
    if batch.size != len(records) and _holds_batch(memoryview(records)[batch.size :]):
        raise InvalidRecordError("there is more than one batch")
    return batch


def _no_batch(records: Buffer, api_version: int, error: CorruptRecord) -> KafkaError:
    """The answer to bytes that do not start with a whole batch of magic 2."""
    try:
        is_whole = _holds_batch(records)
    except KafkaError as bad:
        return bad
    if not is_whole:
        return InvalidRecordError(str(error))
    if records[MAGIC_AT] == MAGIC:
        return CorruptMessageError(str(error))
    if api_version < _MAGIC_2_VERSION:
        return UnsupportedForMessageFormatError(str(error))
    return InvalidRecordError(str(error))


def _holds_batch(data: Buffer) -> bool:
    """Whether a whole batch of any format is there, as far as length and magic tell; CorruptMessage if none can be."""
    if len(data) < LENGTH_OVERHEAD_BYTES:
        return False
    length: int = _unpack_length(data, LENGTH_AT)[0]
    if length < _MESSAGE_BYTES_MIN:
        raise CorruptMessageError(f"a batch cannot have a length of {length}")
    if len(data) <= MAGIC_AT:
        return False
    if data[MAGIC_AT] > MAGIC:
        raise CorruptMessageError(f"there is no record format {data[MAGIC_AT]}")
    return length + LENGTH_OVERHEAD_BYTES <= len(data)


def validate(
    batch: BatchView, limits: Limits, now_ms: int, origin: Origin, inspected: Inspected | None = None
) -> BatchView:
    """The batch as it is to be stored, but for offset and leader epoch; a KafkaError or RejectedRecords if it is bad.

    That is the batch itself, some fields of its header changed in place, or a new one in another codec. Batches of our
    own coordinators are only checked for damage. Costly if the records of a client's batch have to be looked at first,
    and what was found then was not `inspected` under these limits.
    """
    size, attributes = batch.size, batch.attributes
    if size > limits.max_message_bytes:
        raise _too_large(batch, limits)
    if crc32c(batch.data[ATTRIBUTES_AT:]) != batch.crc:
        raise CorruptMessageError(f"a batch of {size} bytes does not have the CRC {batch.crc:#x} that it states")
    if origin is _CLIENT:
        count = batch.record_count
        if (
            batch.base_offset
            or count <= 0
            or count != batch.last_offset_delta + 1
            or attributes & CONTROL_BIT
            or batch.base_sequence < 0 <= batch.producer_id
        ):
            raise _header_flaw(batch)
        if (
            limits.is_lenient
            and not attributes & TIMESTAMP_TYPE_BIT
            and batch.base_timestamp <= batch.max_timestamp <= now_ms + limits.timestamp_after_max_ms
            and size <= limits.segment_bytes
        ):
            return batch
        if attributes & TIMESTAMP_TYPE_BIT:
            _check_append_time(batch, limits, now_ms)
    if inspected is not None and inspected.limits == limits:
        batch = inspected.batch
    else:
        batch = _inspect(batch, limits, now_ms, origin, is_hurried=origin is _CLIENT)
    if limits.timestamp_type is _LOG_APPEND_TIME:
        batch.set_log_append_time(now_ms)
    elif batch.attributes & TIMESTAMP_TYPE_BIT:
        _set_timestamps(batch, batch.attributes & ~TIMESTAMP_TYPE_BIT, batch.max_timestamp)
    if batch.size > limits.segment_bytes:
        raise RecordListTooLargeError(f"a batch of {batch.size} bytes does not fit in a segment")
    return batch


def _too_large(batch: BatchView, limits: Limits) -> MessageTooLargeError:
    return MessageTooLargeError(f"a batch of {batch.size} bytes, {limits.max_message_bytes} are allowed")


def _header_flaw(batch: BatchView) -> InvalidRecordError:
    """Which rule for clients the header breaks."""
    if batch.base_offset:
        return InvalidRecordError(f"the base offset is {batch.base_offset} instead of 0")
    if batch.record_count <= 0 or batch.record_count != batch.last_offset_delta + 1:
        return InvalidRecordError(f"{batch.record_count} records cannot have offsets 0 to {batch.last_offset_delta}")
    if batch.attributes & CONTROL_BIT:
        return InvalidRecordError("control records are not for clients to write")
    return InvalidRecordError(f"sequence {batch.base_sequence} of producer {batch.producer_id} is none")


def inspect(batch: BatchView, limits: Limits, now_ms: int) -> Inspected:
    """Look at the records of a client's batch, however long that takes, on any thread; raises as `validate`."""
    return Inspected(_inspect(batch, limits, now_ms, _CLIENT, is_hurried=False), limits)


def _inspect(batch: BatchView, limits: Limits, now_ms: int, origin: Origin, *, is_hurried: bool) -> BatchView:
    """Whatever the records have to be inflated for; Costly if that is much and the caller is in a hurry."""
    needs_records = origin is _CLIENT and _needs_records(batch, limits, now_ms)
    if limits.compression is None and not needs_records:
        return batch
    if is_hurried and _is_costly(batch):
        raise Costly(batch, limits)
    if needs_records:
        _check_records(batch, limits, now_ms)
    if limits.compression is None:
        return batch
    batch = recompress(
        batch, limits.compression, limits.compression_level, limits.inflated_bytes_max, limits.max_message_bytes
    )
    if batch.size > limits.max_message_bytes:
        raise _too_large(batch, limits)
    return batch


def _is_costly(batch: BatchView) -> bool:
    if batch.size > _HURRIED_BYTES_MAX or batch.record_count > _HURRIED_RECORDS_MAX:
        return True
    try:
        batch.payload(_HURRIED_BYTES_MAX)
    except InflatesTooFar:
        return True
    except CorruptRecord:
        # The caller that looks at the records says so.
        pass
    return False


def _check_append_time(batch: BatchView, limits: Limits, now_ms: int) -> None:
    """Raise RejectedRecords if the timestamp that all records have is not for the client to set.

    Kafka takes it for a time of creation where topics have that, and refuses the rest.
    """
    flaw = _timestamp_flaw(batch, batch.max_timestamp, limits, now_ms)
    if flaw is not None:
        errors = [RecordError(index, flaw) for index in range(min(batch.record_count, RECORD_ERRORS_MAX))]
        raise RejectedRecords(InvalidTimestampError(f"{batch.record_count} records are refused"), errors)


def _needs_records(batch: BatchView, limits: Limits, now_ms: int) -> bool:
    if limits.is_compacted:
        return True
    if limits.timestamp_type is _LOG_APPEND_TIME or batch.attributes & TIMESTAMP_TYPE_BIT:
        return False
    # Some producers leave the largest timestamp unset. Retention would take such records for ancient.
    if batch.max_timestamp < batch.base_timestamp or limits.timestamp_before_max_ms != INT64_MAX:
        return True
    return batch.max_timestamp - now_ms > limits.timestamp_after_max_ms


def _check_records(batch: BatchView, limits: Limits, now_ms: int) -> None:
    """Look at each record: raise RejectedRecords if some are bad, else see that the header has the right timestamp.

    A refusal names the first bad records only: a batch may have millions of them.
    """
    errors: list[RecordError] = []
    is_timestamp_bad = False
    max_timestamp = NO_TIMESTAMP
    try:
        for index, record in enumerate(_records(batch, limits)):
            max_timestamp = max(max_timestamp, record.timestamp_ms)
            if record.offset != index:
                errors.append(RecordError(index, f"record {index} of the batch has the offset {record.offset}"))
            elif limits.is_compacted and record.key is None:
                errors.append(RecordError(index, "a record needs a key on a compacted topic"))
            elif (flaw := _timestamp_flaw(batch, record.timestamp_ms, limits, now_ms)) is not None:
                errors.append(RecordError(index, flaw))
                is_timestamp_bad = True
            if len(errors) == RECORD_ERRORS_MAX:
                break
    except CorruptRecord as error:
        raise InvalidRecordError(str(error)) from None
    if errors:
        error_class = InvalidTimestampError if is_timestamp_bad else InvalidRecordError
        count = f"{'at least ' * (len(errors) == RECORD_ERRORS_MAX)}{len(errors)}"
        raise RejectedRecords(error_class(f"{count} of {batch.record_count} records are refused"), errors)
    if max_timestamp != batch.max_timestamp and limits.timestamp_type is not _LOG_APPEND_TIME:
        _set_timestamps(batch, batch.attributes, max_timestamp)


def _records(batch: BatchView, limits: Limits) -> Iterator[Record]:
    left = limits.inflated_bytes_max
    base = base_of(batch, with_headers=False)
    for payload, count, _ in iter_pieces(batch, left):
        left -= len(payload)
        if left < 0:
            raise InflatesTooFar(f"records take more than {limits.inflated_bytes_max} bytes when decompressed")
        yield from read_payload(payload, count, base)


def _timestamp_flaw(batch: BatchView, timestamp_ms: int, limits: Limits, now_ms: int) -> str | None:
    if limits.timestamp_type is not _LOG_APPEND_TIME and timestamp_ms != NO_TIMESTAMP:
        age_ms = now_ms - timestamp_ms
        if age_ms > limits.timestamp_before_max_ms or -age_ms > limits.timestamp_after_max_ms:
            return f"timestamp {timestamp_ms} is {age_ms} ms before the broker's time"
    elif batch.attributes & TIMESTAMP_TYPE_BIT:
        return "the time of the append is not for clients to set"
    return None


def _set_timestamps(batch: BatchView, attributes: int, max_timestamp: int) -> None:
    batch.attributes = attributes
    batch.max_timestamp = max_timestamp
    _pack_attributes(batch.data, ATTRIBUTES_AT, attributes)
    _pack_timestamp(batch.data, _MAX_TIMESTAMP_AT, max_timestamp)
    batch.crc = crc32c(batch.data[ATTRIBUTES_AT:])
    _pack_crc(batch.data, CRC_AT, batch.crc)
