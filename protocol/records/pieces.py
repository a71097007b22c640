"""Records of a batch in pieces, so that memory is bounded by the largest record and not by what a batch inflates to.

A broker takes batches as they come, and a few kilobytes of compressed records may be gigabytes. So no reader has a
limit for a batch. What inflates to a few MiB, which is nearly all, is one piece. Anything larger is inflated bit by bit
and cut between records, into pieces of about a MiB. A record of more than `record_bytes_max` bytes is a
`RecordTooLarge`, or is left out if the reader says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from minikafka.protocol.compression import decompress
from minikafka.protocol.errors import CorruptRecord, InflatesTooFar, RecordTooLarge
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.layout import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    RECORD_BYTES_MAX,
)
from minikafka.protocol.streams import inflate
from minikafka.protocol.varint import read_varint, read_varlong

WHOLE_BYTES_MAX: Final = 8 << 20
"""What inflates to no more than this is not worth taking apart."""

OnTooLarge: TypeAlias = Callable[[RecordTooLarge], None]


class Piece(NamedTuple):
    """Some whole records, one after the other."""

    payload: bytes
    rows: int
    last_offset_delta: int
    """Of the last record; of the batch where that was not taken apart."""


def iter_pieces(
    batch: BatchView, record_bytes_max: int = RECORD_BYTES_MAX, on_too_large: OnTooLarge | None = None
) -> Iterator[Piece]:
    """All records of a batch; CorruptRecord where they cannot be inflated or do not fit the header.

    With `on_too_large`, records above the limit are left out and reported instead of being raised.
    """
    stored, count = batch.data[HEADER_BYTES:], batch.record_count
    if not batch.attributes & CODEC_MASK or (not stored and not count):
        yield Piece(bytes(stored), count, batch.last_offset_delta)
        return
    try:
        whole = decompress(batch.compression, stored, min(WHOLE_BYTES_MAX, record_bytes_max))
    except InflatesTooFar:
        yield from _cut(batch, record_bytes_max, on_too_large)
    else:
        yield Piece(whole, count, batch.last_offset_delta)


def iter_plain_batches(
    batch: BatchView, record_bytes_max: int = RECORD_BYTES_MAX, on_too_large: OnTooLarge | None = None
) -> Iterator[BatchView]:
    """The same as batches that are not compressed, for readers of batches. The CRC is for the original and not set."""
    for payload, count, last_offset_delta in iter_pieces(batch, record_bytes_max, on_too_large):
        data = bytearray(HEADER_BYTES)
        HEADER.pack_into(
            data,
            0,
            batch.base_offset,
            HEADER_BYTES + len(payload) - LENGTH_OVERHEAD_BYTES,
            batch.leader_epoch,
            batch.magic,
            0,
            batch.attributes & ~CODEC_MASK,
            last_offset_delta,
            batch.base_timestamp,
            batch.max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            count,
        )
        data += payload
        yield BatchView(data)


def _cut(batch: BatchView, record_bytes_max: int, on_too_large: OnTooLarge | None) -> Iterator[Piece]:
    held = bytearray()
    left = batch.record_count
    # How much is still to come of a record that is left out.
    dropping = 0
    for data in inflate(batch.compression, batch.data[HEADER_BYTES:]):
        dropped = min(dropping, len(data))
        dropping -= dropped
        held += memoryview(data)[dropped:]
        while left and not dropping:
            count, last, end = _whole_records(held, left, record_bytes_max)
            if count:
                yield Piece(bytes(memoryview(held)[:end]), count, _offset_delta(held, last))
                del held[:end]
                left -= count
            found = _first_too_large(batch, held, record_bytes_max) if left else None
            if found is None:
                break
            error, end = found
            if on_too_large is None:
                raise error
            on_too_large(error)
            dropping = max(0, end - len(held))
            del held[:end]
            left -= 1
    if left or dropping:
        raise CorruptRecord(f"the batch ends before {left or 1} of its {batch.record_count} records")
    if held:
        raise CorruptRecord(f"{len(held)} bytes left after the last record")


def _whole_records(held: bytearray, count_max: int, record_bytes_max: int) -> tuple[int, int, int]:
    """How many records are there from the start that are whole and not too large; where the last begins and ends."""
    pos = count = last = 0
    end = len(held)
    try:
        while count < count_max:
            size, body = read_varint(held, pos)
            if size < 0:
                raise CorruptRecord(f"a record has a length of {size}")
            if body + size > end or size > record_bytes_max:
                break
            last, pos = pos, body + size
            count += 1
    except IndexError:
        # The rest of the length has not been inflated yet.
        pass
    return count, last, pos


def _offset_delta(held: bytearray, pos: int) -> int:
    """Of the record that begins there; IndexError if it is not there as far as that."""
    _, body = read_varint(held, pos)
    _, pos = read_varlong(held, body + 1)
    return read_varint(held, pos)[0]


def _first_too_large(batch: BatchView, held: bytearray, record_bytes_max: int) -> tuple[RecordTooLarge, int] | None:
    """What there is to say of the first record, and where it ends, if it is too large and its head is there."""
    try:
        size, body = read_varint(held, 0)
        if size <= record_bytes_max:
            return None
        delta = _offset_delta(held, 0)
    except IndexError:
        return None
    return RecordTooLarge(batch.base_offset + delta, size, record_bytes_max), body + size
