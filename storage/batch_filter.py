"""What compaction leaves of one batch.

A record goes when a newer one has its key, when it has no key, when its transaction was aborted, or when it is a
tombstone past its delete horizon. The horizon is set when compaction first meets a tombstone, `delete.retention.ms`
from then, and is kept in the base timestamp of the batch, to which a bit of the attributes points; the timestamps of
the records then count from it. So a reader who starts below a tombstone has at least that long to get there.

Offsets, sequence numbers, producer and codec of a batch stay, whatever goes. A batch without records goes too, except
for the last one of a producer: it is what tells, when the log is read again, which sequence number or epoch comes next.
And the last batch of what is cleaned stays, as there may be none behind it: it takes readers and followers to the end
of the log. A later round drops it when others have come.

Batches that stay whole are not copied, and records that stay are not parsed beyond their keys. What inflates to more
than a few MiB is looked at, and written again, in pieces. A batch with a record that is too large even for that stays
as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import compress as selected
from struct import Struct
from typing import NamedTuple, cast

from crc32c import crc32c

from minikafka.protocol.compression import compress
from minikafka.protocol.errors import InflatesTooFar, RecordTooLarge
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.protocol.records.layout import (
    ATTRIBUTES_AT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_AT,
    LENGTH_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    TimestampType,
    wrap_int64,
)
from minikafka.protocol.records.pieces import WHOLE_BYTES_MAX, iter_pieces
from minikafka.protocol.records.reader import base_of, iter_records, read_payload
from minikafka.protocol.records.walk import Record
from minikafka.protocol.streams import deflate
from minikafka.protocol.varint import INT64_MAX
from minikafka.storage.cleaned_txns import CleanedTxns
from minikafka.storage.formats import AbortedTxn
from minikafka.storage.offset_map import OffsetMap
from minikafka.storage.record_spans import Spans, find_spans, timestamp_delta

_pack_int16 = Struct(">h").pack_into
_pack_int32 = Struct(">i").pack_into
_pack_uint32 = Struct(">I").pack_into
_pack_int64 = Struct(">q").pack_into
_BASE_TIMESTAMP_AT = 27
_MAX_TIMESTAMP_AT = 35
_RECORD_COUNT_AT = 57


class LastBatch(NamedTuple):
    """The newest batch of a producer; without data (-1), only a marker of its epoch is left."""

    last_offset: int
    producer_epoch: int


class BatchFilter:
    """Takes the batches of a log from its first on, in order."""

    def __init__(
        self,
        newest: OffsetMap,
        txns: CleanedTxns,
        last_batches: Mapping[int, LastBatch],
        *,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._newest = newest
        self._txns = txns
        self._last_batches = last_batches
        self._now_ms = now_ms
        # A tombstone whose horizon does not fit into 64 bits stays for good.
        self._new_horizon_ms = min(now_ms + delete_retention_ms, INT64_MAX)

    def filter(self, batch: BatchView, *, is_last: bool = False) -> tuple[BatchView | None, AbortedTxn | None]:
        """What is left of a batch, and what goes to the transaction index with it; CorruptRecord for bad records."""
        if batch.is_control:
            kept, txn = self._filter_marker(batch)
        else:
            kept, txn = self._filter_data(batch), None
        if kept is None and (is_last or self._is_last_of_producer(batch)):
            kept = _emptied(batch)
        return kept, txn

    def _is_last_of_producer(self, batch: BatchView) -> bool:
        last = self._last_batches.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return batch.last_offset == last.last_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch

    def _filter_marker(self, batch: BatchView) -> tuple[BatchView | None, AbortedTxn | None]:
        is_needed, txn = self._txns.end(batch)
        if is_needed:
            return batch, txn
        horizon_ms = batch.delete_horizon_ms
        if not batch.record_count or (horizon_ms is not None and horizon_ms <= self._now_ms):
            return None, None
        return (self._with_horizon(batch, [True]) if horizon_ms is None else batch), None

    def _filter_data(self, batch: BatchView) -> BatchView | None:
        if self._txns.is_aborted(batch):
            return None
        if batch.base_offset > self._newest.latest_offset:
            return batch
        try:
            payload = batch.payload(WHOLE_BYTES_MAX)
        except InflatesTooFar:
            return self._filter_pieces(batch)
        spans = find_spans(payload, batch.record_count)
        is_kept = self._are_kept(batch, spans)
        if not any(is_kept):
            return None
        if not batch.has_delete_horizon and any(is_kept[row] for row in spans.tombstones):
            return self._with_horizon(batch, is_kept)
        return batch if all(is_kept) else _with_some(batch, payload, spans, is_kept)

    def _filter_pieces(self, batch: BatchView) -> BatchView | None:
        kept_count = 0
        has_tombstone = False
        try:
            for payload, count, _ in iter_pieces(batch):
                spans = find_spans(payload, count)
                is_kept = self._are_kept(batch, spans)
                kept_count += sum(is_kept)
                has_tombstone = has_tombstone or any(is_kept[row] for row in spans.tombstones)
        except RecordTooLarge:
            return batch
        is_rebased = has_tombstone and not batch.has_delete_horizon
        if not kept_count or (kept_count == batch.record_count and not is_rebased):
            return batch if kept_count else None
        data = bytearray(batch.data[:HEADER_BYTES])
        max_timestamps: list[int] = []
        for part in deflate(batch.compression, self._kept_payloads(batch, max_timestamps, is_rebased=is_rebased)):
            data += part
        if is_rebased:
            _pack_int16(data, ATTRIBUTES_AT, batch.attributes | DELETE_HORIZON_BIT)
            _pack_int64(data, _BASE_TIMESTAMP_AT, self._new_horizon_ms)
        return _finished(data, batch, kept_count, max(max_timestamps))

    def _kept_payloads(self, batch: BatchView, max_timestamps: list[int], *, is_rebased: bool) -> Iterator[bytes]:
        """What stays of each piece, and the largest timestamp in it."""
        base = base_of(batch)
        for payload, count, _ in iter_pieces(batch):
            spans = find_spans(payload, count)
            is_kept = self._are_kept(batch, spans)
            if not any(is_kept):
                continue
            if is_rebased:
                builder = BatchBuilder(base_timestamp=self._new_horizon_ms)
                _append_all(builder, batch, selected(read_payload(payload, count, base), is_kept))
                max_timestamps.append(builder.max_timestamp)
                yield builder.payload()
            else:
                max_timestamps.append(_max_timestamp(batch, payload, spans, is_kept))
                yield b"".join(_pieces(payload, spans.bounds, is_kept))

    def _are_kept(self, batch: BatchView, spans: Spans) -> list[bool]:
        base = batch.base_offset
        offsets = [base + delta for delta in spans.offset_deltas]
        if None in spans.keys:
            is_kept = self._newest.are_newest([key or b"" for key in spans.keys], offsets)
            is_kept = [kept and key is not None for kept, key in zip(is_kept, spans.keys, strict=True)]
        else:
            is_kept = self._newest.are_newest(cast("list[bytes]", spans.keys), offsets)
        horizon_ms = batch.delete_horizon_ms
        if horizon_ms is not None and horizon_ms <= self._now_ms:
            for row in spans.tombstones:
                is_kept[row] = False
        return is_kept

    def _with_horizon(self, batch: BatchView, is_kept: list[bool]) -> BatchView:
        """Some records of a batch, with timestamps that count from the delete horizon."""
        builder = BatchBuilder(base_timestamp=self._new_horizon_ms)
        _append_all(builder, batch, selected(iter_records(batch), is_kept))
        return _built(builder, batch, has_delete_horizon=True)


def _with_some(batch: BatchView, payload: bytes, spans: Spans, is_kept: list[bool]) -> BatchView:
    """Some records of a batch, not all, their bytes as they are."""
    data = bytearray(batch.data[:HEADER_BYTES])
    data += compress(batch.compression, b"".join(_pieces(payload, spans.bounds, is_kept)))
    return _finished(data, batch, sum(is_kept), _max_timestamp(batch, payload, spans, is_kept))


def _max_timestamp(batch: BatchView, payload: bytes, spans: Spans, is_kept: list[bool]) -> int:
    deltas = [timestamp_delta(payload, start) for start in selected(spans.bounds, is_kept)]
    return max(wrap_int64(batch.base_timestamp + delta) for delta in deltas)


def _append_all(builder: BatchBuilder, batch: BatchView, records: Iterable[Record]) -> None:
    for record in records:
        delta = record.offset - batch.base_offset
        builder.append(record.timestamp_ms, record.key, record.value, record.headers, delta)


def _finished(data: bytearray, batch: BatchView, record_count: int, max_timestamp: int) -> BatchView:
    """The header of a batch for the records that follow it now."""
    _pack_int32(data, LENGTH_AT, len(data) - LENGTH_OVERHEAD_BYTES)
    _pack_int32(data, _RECORD_COUNT_AT, record_count)
    if batch.timestamp_type is TimestampType.CREATE_TIME:
        _pack_int64(data, _MAX_TIMESTAMP_AT, max_timestamp)
    _pack_uint32(data, CRC_AT, crc32c(memoryview(data)[ATTRIBUTES_AT:]))
    return BatchView(data)


def _pieces(payload: bytes, bounds: list[int], is_kept: list[bool]) -> list[bytes]:
    """The records to keep; neighbours are one piece."""
    pieces = []
    start = -1
    for row, kept in enumerate(is_kept):
        if kept:
            start = bounds[row] if start < 0 else start
        elif start >= 0:
            pieces.append(payload[start : bounds[row]])
            start = -1
    if start >= 0:
        pieces.append(payload[start:])
    return pieces


def _emptied(batch: BatchView) -> BatchView:
    builder = BatchBuilder(base_timestamp=NO_TIMESTAMP)
    builder.max_timestamp = batch.max_timestamp
    return _built(builder, batch, has_delete_horizon=False)


def _built(builder: BatchBuilder, batch: BatchView, *, has_delete_horizon: bool) -> BatchView:
    """A batch of new records in the place of another."""
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    made = builder.build(
        compression=batch.compression,
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        append_time_ms=batch.max_timestamp if is_append_time else None,
        has_delete_horizon=has_delete_horizon,
        last_offset_delta=batch.last_offset_delta,
    )
    return BatchView(made)
