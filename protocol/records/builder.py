"""Record batches to bytes: what a producer sends, and what a broker writes when it makes a batch itself.

A `BatchBuilder` collects records up to a size, then `build` puts the header before them. `recompress` gives an existing
batch another codec without looking at its records. The result is a bytearray, since a broker patches base offset and
leader epoch in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from struct import Struct
from typing import cast

from crc32c import crc32c

from minikafka.protocol.compression import Compression, compress
from minikafka.protocol.errors import InflatesTooFar
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.encoder import (
    ATTRIBUTES,
    NO_HEADERS,
    NULL,
    TABLE_SIZE,
    Header,
    encode_headers,
    encode_rows,
    varint,
)
from minikafka.protocol.records.layout import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_AT,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    VARINTS,
    wrap_int64,
)
from minikafka.protocol.streams import deflate, inflate
from minikafka.protocol.varint import INT32_MAX

_pack_int16 = Struct(">h").pack_into
_pack_int32 = Struct(">i").pack_into
_pack_uint32 = Struct(">I").pack_into


class BatchBuilder:
    """Collects the records of one batch.

    `size_max` limits the batch before compression, header included; a first record is taken whatever its size. A base
    timestamp other than the first record's is for the batches of a compacted log.
    """

    __slots__ = ("_base_timestamp", "_parts", "count", "last_offset_delta", "max_timestamp", "size", "size_max")

    def __init__(self, size_max: int = INT32_MAX, base_timestamp: int | None = None) -> None:
        self.size_max = size_max
        self.size = HEADER_BYTES
        self.count = 0
        self.last_offset_delta = -1
        self.max_timestamp = NO_TIMESTAMP
        self._base_timestamp = base_timestamp
        self._parts: list[bytes] = []

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Collection[Header] = (),
        offset_delta: int | None = None,
    ) -> bool:
        """Add a record; False if the batch is full. Without an offset delta it follows the record before."""
        # All in one function, as calls would cost more than what they do.
        table, end = VARINTS, TABLE_SIZE
        if self._base_timestamp is None:
            self._base_timestamp = timestamp_ms
        delta = timestamp_ms - self._base_timestamp
        timestamp = table[delta] if 0 <= delta < end else varint(wrap_int64(delta))
        delta = self.last_offset_delta + 1 if offset_delta is None else offset_delta
        offset = table[delta] if 0 <= delta < end else varint(delta)
        if key is None:
            key, key_size = b"", NULL
        else:
            size = len(key)
            key_size = table[size] if size < end else varint(size)
        if value is None:
            value, value_size = b"", NULL
        else:
            size = len(value)
            value_size = table[size] if size < end else varint(size)
        tail = encode_headers(headers) if headers else NO_HEADERS
        body = b"".join((ATTRIBUTES, timestamp, offset, key_size, key, value_size, value, tail))
        size = len(body)
        length = table[size] if size < end else varint(size)
        size += self.size + len(length)
        if size > self.size_max and self.count:
            return False
        self._parts += (length, body)
        self.size = size
        self.count += 1
        self.last_offset_delta = delta
        if timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        return True

    def append_many(
        self, timestamp_ms: int, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> int:
        """Add records without headers, with null keys if none are given; how many of them found room."""
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys for {len(values)} values")
        done = 0
        if {*map(type, values)} == {bytes} and (keys is None or {*map(type, keys)} == {bytes}):
            done = self._append_rows(timestamp_ms, cast("list[bytes]", values), cast("list[bytes] | None", keys))
        # Nulls, large records, offset deltas of three bytes, and the first record however large.
        while done < len(values):
            if not self.append(timestamp_ms, None if keys is None else keys[done], values[done]):
                break
            done += 1
        return done

    def _append_rows(self, timestamp_ms: int, values: list[bytes], keys: list[bytes] | None) -> int:
        base_timestamp = timestamp_ms if self._base_timestamp is None else self._base_timestamp
        done = 0
        while done < len(values):
            encoded = encode_rows(
                self.last_offset_delta + 1,
                timestamp_ms - base_timestamp,
                keys and keys[done:],
                values[done:],
                # Less than nothing after a first record that is larger than the batch may be.
                max(self.size_max - self.size, 0),
            )
            if encoded is None or not encoded.rows:
                break
            self._base_timestamp = base_timestamp
            self._parts += encoded.pieces
            self.size += encoded.size
            self.count += encoded.rows
            self.last_offset_delta += encoded.rows
            self.max_timestamp = max(self.max_timestamp, timestamp_ms)
            done += encoded.rows
        return done

    def payload(self) -> bytes:
        """The records as they are, without a header and not compressed."""
        return b"".join(self._parts)

    def build(
        self,
        *,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        base_offset: int = 0,
        leader_epoch: int = NO_LEADER_EPOCH,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        append_time_ms: int | None = None,
        has_delete_horizon: bool = False,
        last_offset_delta: int | None = None,
    ) -> bytearray:
        """The batch. With an append time all records have it; a last offset delta of the caller's keeps the offsets
        of records that compaction removed at the end."""
        # Nothing is not a valid stream of any codec.
        codec = compression if self._parts else Compression.NONE
        attributes = codec | TRANSACTIONAL_BIT * is_transactional | CONTROL_BIT * is_control
        attributes |= DELETE_HORIZON_BIT * has_delete_horizon
        max_timestamp = self.max_timestamp
        if append_time_ms is not None:
            attributes |= TIMESTAMP_TYPE_BIT
            max_timestamp = append_time_ms
        batch = _with_space_for_header(self._parts, codec, level)
        HEADER.pack_into(
            batch,
            0,
            base_offset,
            len(batch) - LENGTH_OVERHEAD_BYTES,
            leader_epoch,
            MAGIC,
            0,
            attributes,
            self.last_offset_delta if last_offset_delta is None else last_offset_delta,
            NO_TIMESTAMP if self._base_timestamp is None else self._base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        return _with_crc(batch)


def recompress(
    batch: BatchView, compression: Compression, level: int | None = None, max_bytes: int = INT32_MAX
) -> bytearray:
    """A copy of the batch in another codec, the records byte for byte the same; InflatesTooFar past `max_bytes`."""
    payload = batch.payload(max_bytes)
    codec = compression if payload else Compression.NONE
    return _in_codec(batch, codec, _with_space_for_header([payload], codec, level))


def recompress_in_pieces(
    batch: BatchView, compression: Compression, level: int | None, *, size_max: int, inflated_bytes_max: int
) -> bytearray | None:
    """The same for a batch of any size, in memory for the result only; None if that takes more than `size_max` bytes.

    InflatesTooFar if the records take more than `inflated_bytes_max`."""
    copy = bytearray(HEADER_BYTES)
    for piece in deflate(compression, _metered(batch, inflated_bytes_max), level):
        copy += piece
        if len(copy) > size_max:
            return None
    return _in_codec(batch, compression, copy)


def _metered(batch: BatchView, bytes_max: int) -> Iterator[bytes]:
    left = bytes_max
    for piece in inflate(batch.compression, batch.data[HEADER_BYTES:]):
        left -= len(piece)
        if left < 0:
            raise InflatesTooFar(f"the records take more than {bytes_max} bytes when decompressed")
        yield piece


def _in_codec(batch: BatchView, codec: Compression, copy: bytearray) -> bytearray:
    """The header of a batch before its records in another codec."""
    copy[:HEADER_BYTES] = batch.data[:HEADER_BYTES]
    _pack_int32(copy, LENGTH_AT, len(copy) - LENGTH_OVERHEAD_BYTES)
    _pack_int16(copy, ATTRIBUTES_AT, batch.attributes & ~CODEC_MASK | codec)
    return _with_crc(copy)


def _with_space_for_header(parts: list[bytes], codec: Compression, level: int | None) -> bytearray:
    if codec is Compression.NONE:
        return bytearray().join([bytes(HEADER_BYTES), *parts])
    batch = bytearray(HEADER_BYTES)
    batch += compress(codec, b"".join(parts), level)
    return batch


def _with_crc(batch: bytearray) -> bytearray:
    _pack_uint32(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return batch
