"""What a partition's part of a Fetch answer holds: which batches are to be read, and how far it goes.

Control batches are never read by a program. With `read_committed` neither are the batches of aborted transactions: the
answer lists them by producer and first offset, and each lasts until the marker that ends it. An answer never goes past
the first transaction that is still open.
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.client.consumer.partition import NO_EPOCH, Chunk
from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.messages.fetch import FetchablePartitionResponse
from minikafka.protocol.records import BatchView, ControlType, read_marker, read_whole_batches
from minikafka.protocol.varint import Buffer


class Fetched(NamedTuple):
    """Batches to be read, where the next fetch begins, and the epoch of the last batch."""

    chunks: list[Chunk]
    next_offset: int
    epoch: int = NO_EPOCH
    is_too_large: bool = False
    """The batch at the offset is larger than the answer may be."""
    flaw: CorruptRecord | None = None
    """What is wrong with the bytes after these batches."""


def read_fetched(answer: FetchablePartitionResponse, offset: int, read_committed: bool) -> Fetched:
    """The batches of an answer to a fetch from `offset`."""
    if not answer.records:
        return Fetched([], offset)
    batches, size, flaw = _read_batches(answer.records)
    if not batches:
        return Fetched([], offset, is_too_large=size < len(answer.records), flaw=flaw)
    left_out = _LeftOut(answer if read_committed else None)
    chunks: list[Chunk] = []
    next_offset, epoch = offset, NO_EPOCH
    for batch in batches:
        # The first one may begin before the offset; one that ends before it is not worth a look.
        after = batch.base_offset + batch.last_offset_delta + 1
        try:
            is_left_out = left_out.is_left_out(batch) or after <= offset or not batch.record_count
        except CorruptRecord as error:
            flaw = error
            break
        next_offset, epoch = max(after, next_offset), batch.leader_epoch
        if not is_left_out:
            chunks.append(Chunk(batch, after))
        elif chunks:
            chunks[-1].next_offset = next_offset
    return Fetched(chunks, next_offset, epoch, flaw=flaw)


def _read_batches(records: Buffer) -> tuple[list[BatchView], int, CorruptRecord | None]:
    """The batches before the first that is not whole, their size, and what is wrong with the next if it is no batch."""
    try:
        return *read_whole_batches(records), None
    except CorruptRecord as error:
        flaw = error
    batches: list[BatchView] = []
    size = 0
    # Once more, to have those before the flaw.
    while True:
        try:
            batches.append(BatchView(records, size))
        except CorruptRecord:
            return batches, size, flaw
        size += batches[-1].size


class _LeftOut:
    """Which batches are not for programs to see, asked in the order of their offsets."""

    def __init__(self, answer: FetchablePartitionResponse | None) -> None:
        aborted = answer.aborted_transactions if answer is not None else None
        self._read_committed = answer is not None
        # Taken from the end.
        self._aborted = sorted(((each.first_offset, each.producer_id) for each in aborted or ()), reverse=True)
        self._producers: set[int] = set()

    def is_left_out(self, batch: BatchView) -> bool:
        if not self._read_committed:
            return batch.is_control
        while self._aborted and self._aborted[-1][0] <= batch.last_offset:
            self._producers.add(self._aborted.pop()[1])
        if batch.is_control:
            if batch.producer_id in self._producers:
                marker = read_marker(batch)
                if marker is not None and marker.type is ControlType.ABORT:
                    self._producers.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._producers
