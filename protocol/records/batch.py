"""A record batch seen through its header: what a broker knows of a batch without looking at records.

`BatchView` unpacks the 61 bytes once, keeps the batch as a memoryview of the buffer it arrived in, and changes in place
the few fields that a broker owns. Creating one checks that the batch is whole and of version 2; whether its contents
are what the producer sent is for `check_crc` to say.

Batches come one after the other in a buffer. A Produce request must hold whole batches only (`read_batches`). A Fetch
answer is cut at a byte limit, so its last batch may be a part of one, to be fetched again (`read_whole_batches`).
"""

from __future__ import annotations

from struct import Struct, error

from crc32c import crc32c

from minikafka.protocol.compression import Compression, decompress
from minikafka.protocol.errors import CorruptRecord, UnsupportedMagic
from minikafka.protocol.records.layout import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_SEQUENCE,
    SEQUENCE_MASK,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    TimestampType,
)
from minikafka.protocol.varint import INT32_MAX, Buffer

_unpack_header = HEADER.unpack_from
# Length and magic, four bytes of leader epoch between them.
_unpack_length_and_magic = Struct(">i4xb").unpack_from
_pack_offset_and_epoch = Struct(">qii").pack_into
_pack_int64 = Struct(">q").pack_into
_pack_int32 = Struct(">i").pack_into
_pack_uint32 = Struct(">I").pack_into
# Attributes, and after last offset delta and base timestamp the max timestamp.
_pack_attributes = Struct(">h").pack_into
_MAX_TIMESTAMP_AT = 35


class BatchView:
    """One batch of a buffer, its header fields as attributes."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "data",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    # Of the whole batch, header included.
    size: int
    # The whole batch, writable if the buffer is.
    data: memoryview

    def __init__(self, buf: Buffer, pos: int = 0) -> None:
        try:
            (
                self.base_offset,
                self.batch_length,
                self.leader_epoch,
                self.magic,
                self.crc,
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp,
                self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.record_count,
            ) = _unpack_header(buf, pos)
        except error:
            raise _flaw(buf, pos) from None
        self.size = self.batch_length + LENGTH_OVERHEAD_BYTES
        stop = pos + self.size
        if self.magic != MAGIC or self.size < HEADER_BYTES or stop > len(buf):
            raise _flaw(buf, pos)
        self.data = memoryview(buf)[pos:stop]

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch; compaction removes records, so it does not follow from their count."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; after 2**31 - 1 comes 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return self.base_sequence + self.last_offset_delta & SEQUENCE_MASK

    @property
    def compression(self) -> Compression:
        try:
            return Compression(self.attributes & CODEC_MASK)
        except ValueError:
            raise CorruptRecord(f"there is no codec {self.attributes & CODEC_MASK}") from None

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(bool(self.attributes & TIMESTAMP_TYPE_BIT))

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones of the batch; it is kept in the base timestamp."""
        return self.base_timestamp if self.has_delete_horizon else None

    def check_crc(self) -> None:
        """Raise CorruptRecord unless the contents have the CRC that the header states."""
        actual = crc32c(self.data[ATTRIBUTES_AT:])
        if actual != self.crc:
            raise CorruptRecord(f"batch at offset {self.base_offset} states CRC {self.crc:#x} and has {actual:#x}")

    def payload(self, max_bytes: int = INT32_MAX) -> bytes:
        """The records, decompressed; InflatesTooFar for compressed ones that take more. `pieces` has no such limit."""
        stored = self.data[HEADER_BYTES:]
        # Compaction leaves batches without records, and nothing is not a valid stream of any codec.
        if not self.attributes & CODEC_MASK or (not stored and not self.record_count):
            return bytes(stored)
        return decompress(self.compression, stored, max_bytes)

    def patch(self, base_offset: int, leader_epoch: int) -> None:
        """Set in place what a leader assigns; neither field is under the CRC."""
        _pack_offset_and_epoch(self.data, 0, base_offset, self.batch_length, leader_epoch)
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch

    def patch_base_offset(self, base_offset: int) -> None:
        _pack_int64(self.data, 0, base_offset)
        self.base_offset = base_offset

    def patch_leader_epoch(self, leader_epoch: int) -> None:
        _pack_int32(self.data, LEADER_EPOCH_AT, leader_epoch)
        self.leader_epoch = leader_epoch

    def set_log_append_time(self, timestamp_ms: int) -> None:
        """Give all records the broker's time; the deltas inside stay and are no longer looked at."""
        self.attributes |= TIMESTAMP_TYPE_BIT
        self.max_timestamp = timestamp_ms
        _pack_attributes(self.data, ATTRIBUTES_AT, self.attributes)
        _pack_int64(self.data, _MAX_TIMESTAMP_AT, timestamp_ms)
        self.crc = crc32c(self.data[ATTRIBUTES_AT:])
        _pack_uint32(self.data, CRC_AT, self.crc)

    def __repr__(self) -> str:
        return f"<BatchView offsets {self.base_offset}-{self.last_offset}, {self.size} bytes>"


def _flaw(buf: Buffer, pos: int) -> CorruptRecord:
    """Why there is no batch at `pos`."""
    left = len(buf) - pos
    if left <= MAGIC_AT:
        return CorruptRecord(f"{left} bytes are too few for a batch")
    length, magic = _unpack_length_and_magic(buf, pos + LENGTH_AT)
    if magic != MAGIC:
        return UnsupportedMagic(magic) if magic in (0, 1) else CorruptRecord(f"there is no record format {magic}")
    size = length + LENGTH_OVERHEAD_BYTES
    if size < HEADER_BYTES:
        return CorruptRecord(f"a batch of {size} bytes would be shorter than its header")
    return CorruptRecord(f"batch of {size} bytes with {left} left")


def read_batches(buf: Buffer) -> list[BatchView]:
    """All batches of a buffer that holds whole batches and nothing else."""
    batch = BatchView(buf)
    batches = [batch]
    pos = batch.size
    while pos < len(buf):
        batch = BatchView(buf, pos)
        batches.append(batch)
        pos += batch.size
    return batches


def read_whole_batches(buf: Buffer) -> tuple[list[BatchView], int]:
    """The batches that are whole, and how many bytes they take; what follows is the start of one more batch."""
    batches: list[BatchView] = []
    pos = 0
    while len(buf) - pos > MAGIC_AT:
        length, magic = _unpack_length_and_magic(buf, pos + LENGTH_AT)
        size = length + LENGTH_OVERHEAD_BYTES
        if magic == MAGIC and size >= HEADER_BYTES and size > len(buf) - pos:
            break
        batches.append(BatchView(buf, pos))
        pos += size
    return batches, pos
