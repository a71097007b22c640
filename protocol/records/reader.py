"""Records one by one, for whoever needs each of them as an object: compaction, transaction logs, simple consumers.

Consumers of whole batches are better served by `columns`. Both give the same verdict on any bytes: either the records
are exactly as many as the header states and fill the payload, or it is a CorruptRecord. Here it is raised when the
iteration reaches the flaw, which may be after good records. Numpy is never used, so a broker can do without it; where
it may be used, `read_columns(batch).records()` is faster for large batches whose records are of all sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from minikafka.protocol.errors import CorruptRecord, InflatesTooFar
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.layout import RECORD_BYTES_MAX, TIMESTAMP_TYPE_BIT
from minikafka.protocol.records.parts import check_all_read, check_count, iter_parts
from minikafka.protocol.records.pieces import WHOLE_BYTES_MAX, OnTooLarge, iter_pieces
from minikafka.protocol.records.walk import Base, Record, read_records
from minikafka.protocol.varint import INT32_MAX, INT64_MAX

# Fewer records are read one by one before a run of them is set up.
_RUN_ROWS_MIN = 24

# Records that exist at the same time, whatever the size of the batch. Few enough for the garbage collector, which
# looks in when 700 more objects have come than gone.
_ROWS_MAX = 256


def iter_records(
    batch: BatchView,
    max_bytes: int | None = None,
    *,
    with_headers: bool = True,
    record_bytes_max: int = RECORD_BYTES_MAX,
    on_too_large: OnTooLarge | None = None,
) -> Iterator[Record]:
    """The records of a batch in order; CorruptRecord at the first flaw, or for inflating past `max_bytes`.

    Without a limit a large batch is inflated in pieces (`pieces`). Who does not need headers, and cannot trust the
    sender, does better without: they are checked, but not made."""
    count, base = batch.record_count, base_of(batch, with_headers)
    try:
        payload = batch.payload(min(WHOLE_BYTES_MAX, record_bytes_max) if max_bytes is None else max_bytes)
    except InflatesTooFar:
        if max_bytes is not None:
            raise
        pieces = iter_pieces(batch, record_bytes_max, on_too_large)
        return chain.from_iterable(read_payload(payload, count, base) for payload, count, _ in pieces)
    return read_payload(payload, count, base)


def read_payload(payload: bytes, count: int, base: Base) -> Iterator[Record]:
    """The `count` records that must fill a payload."""
    if count < _RUN_ROWS_MIN:
        check_count(payload, count)
        records, stop = read_records(payload, 0, count, base)
        check_all_read(payload, stop)
        return iter(records)
    parts = iter_parts(payload, count, base, run_rows_min=_RUN_ROWS_MIN, rows_max=_ROWS_MAX)
    return chain.from_iterable(part.records() for part in parts)


def base_of(batch: BatchView, with_headers: bool = True) -> Base:
    """What the deltas in the batch add to."""
    # No log gets this far. Any other base leaves room for offset deltas, which have 32 bits.
    if abs(batch.base_offset) > INT64_MAX - INT32_MAX:
        raise CorruptRecord(f"a base offset of {batch.base_offset} is impossible")
    if batch.attributes & TIMESTAMP_TYPE_BIT:
        return Base(batch.base_offset, batch.max_timestamp, True, with_headers)
    return Base(batch.base_offset, batch.base_timestamp, False, with_headers)
