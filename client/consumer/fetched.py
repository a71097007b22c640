"""What a partition's part of a Fetch answer holds: which batches are to be read, and how far it goes.

Control batches are never read by a program. With `read_committed` neither are the batches of aborted transactions: the
answer lists them by producer and first offset, and each lasts until the marker that ends it. An answer never goes past
the first transaction that is still open.
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.client.consumer.partition import Chunk, Position
from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.messages.fetch import FetchablePartitionResponse
from minikafka.protocol.records import BatchView, ControlType, read_marker, read_whole_batches
from minikafka.protocol.varint import Buffer


class Fetched(NamedTuple):
    """Batches to be read, and the position after those that are skipped in front of them."""

    skipped: Position
    chunks: list[Chunk]
    is_too_large: bool = False
    """The batch at the offset is larger than the answer may be."""
    flaw: CorruptRecord | None = None
    """What is wrong with the bytes after these batches."""


def read_fetched(
    answer: FetchablePartitionResponse, start: Position, read_committed: bool, *, check_crcs: bool = True
) -> Fetched:
    """The batches of an answer to a fetch from `start`.

    Whether a batch is skipped is decided by its header, so its checksum is looked at first; that of the others when
    they are read. The checksum does not cover the base offset: batches have to follow one another."""
    if not answer.records:
        return Fetched(start, [])
    batches, size, flaw = _read_batches(answer.records)
    if not batches:
        return Fetched(start, [], is_too_large=size < len(answer.records), flaw=flaw)
    if (misplaced := _find_misplaced(batches, start.offset)) is not None:
        # One of two neighbours is wrong about its offsets, and nobody knows which.
        batches, flaw = batches[: max(0, misplaced - 1)], _misplaced(batches[misplaced])
    skipping = _Skipping(answer if read_committed else None)
    skipped = start
    chunks: list[Chunk] = []
    for batch in batches:
        try:
            is_skipped = skipping.skips(batch) or not batch.record_count
            if is_skipped and check_crcs:
                batch.check_crc()
        except CorruptRecord as error:
            flaw = error
            break
        after = Position(batch.next_offset, batch.leader_epoch)
        if not is_skipped:
            chunks.append(Chunk(batch, after))
        elif chunks:
            chunks[-1].after = after
        else:
            skipped = after
    return Fetched(skipped, chunks, flaw=flaw)


def _find_misplaced(batches: list[BatchView], offset: int) -> int | None:
    """The first batch that does not follow the one before it. The first of all may begin before the offset."""
    for index, batch in enumerate(batches):
        if batch.next_offset <= offset or (index and batch.base_offset < offset) or batch.base_offset < 0:
            return index
        offset = batch.next_offset
    return None


def _misplaced(batch: BatchView) -> CorruptRecord:
    return CorruptRecord(f"a batch of offsets {batch.base_offset} to {batch.last_offset} is out of place")


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


class _Skipping:
    """Which batches are not for programs to see, asked in the order of their offsets."""

    def __init__(self, answer: FetchablePartitionResponse | None) -> None:
        aborted = answer.aborted_transactions if answer is not None else None
        self._read_committed = answer is not None
        # Taken from the end.
        self._aborted = sorted(((each.first_offset, each.producer_id) for each in aborted or ()), reverse=True)
        self._producers: set[int] = set()

    def skips(self, batch: BatchView) -> bool:
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
