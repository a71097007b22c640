"""Whether the entries of a segment's indexes agree with its batches.

- Offset index: both columns grow. A position is the start of a batch that does not lie behind the offset, and the
  offset is the last of a batch. Mostly it is that same batch; where Apache Kafka appended several batches at once, as
  a follower does, it is the last of them.
- Time index: timestamps grow and offsets do not shrink. The batch with the offset has the timestamp as its largest, and
  none before it has a larger one.
- Index of aborted transactions: ends grow. At the end of each is an abort marker of its producer, and every abort
  marker of a transaction whose records are there has an entry. Compaction drops a marker only together with its entry.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from minikafka.protocol.records.batch import BatchView
from minikafka.storage.errors import CorruptLog
from minikafka.storage.formats import OFFSET_ENTRY, TIME_ENTRY, TXN_ENTRY, AbortedTxn


class Batches:
    """What the indexes of a segment have to agree with: some numbers of each batch, in columns."""

    def __init__(self, segment_base_offset: int, *, is_active: bool) -> None:
        self.segment_base_offset = segment_base_offset
        self.is_active = is_active
        self.end = 0
        self.positions = array("q")
        self.base_offsets = array("q")
        self.last_offsets = array("q")
        self.timestamps = array("q")
        # The largest timestamp up to here.
        self.largest_timestamps = array("q")
        # By the offset of an abort marker: its producer, and the first offset that was seen of the transaction.
        self.aborts: dict[int, tuple[int, int | None]] = {}
        # Path, position and size of an unfinished end.
        self.torn: tuple[str, int, int] | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def add(self, position: int, batch: BatchView) -> None:
        largest = max(batch.max_timestamp, self.largest_timestamps[-1] if self.largest_timestamps else -1)
        self.positions.append(position)
        self.base_offsets.append(batch.base_offset)
        self.last_offsets.append(batch.last_offset)
        self.timestamps.append(batch.max_timestamp)
        self.largest_timestamps.append(largest)
        self.end = position + batch.size

    @property
    def last_offset(self) -> int:
        return self.last_offsets[-1] if self.last_offsets else self.segment_base_offset - 1

    def holding(self, offset: int) -> int | None:
        """The number of the batch in whose range an offset is."""
        number = bisect_left(self.last_offsets, offset)
        return number if number < len(self) and self.base_offsets[number] <= offset else None


def check_offset_index(path: str, entries: Sequence[tuple[int, int]], batches: Batches) -> None:
    last_offset = last_position = -1
    for number, (offset, position) in enumerate(entries):
        flaw = None
        start = bisect_left(batches.positions, position)
        end = bisect_left(batches.last_offsets, offset)
        if offset <= last_offset or position <= last_position:
            flaw = f"comes after offset {last_offset} at position {last_position}"
        elif start == len(batches) or end == len(batches):
            if batches.torn:
                return  # what it speaks of is in the unfinished end
            flaw = "points past the end of the log"
        elif batches.positions[start] != position:
            flaw = "points into the middle of a batch"
        elif batches.base_offsets[start] > offset or batches.last_offsets[end] != offset:
            flaw = f"points at the batch of offsets {batches.base_offsets[start]}-{batches.last_offsets[start]}"
        if flaw is not None:
            at = number * OFFSET_ENTRY.size
            raise CorruptLog(path, at, f"the entry for offset {offset} at position {position} {flaw}")
        last_offset, last_position = offset, position


def check_time_index(path: str, entries: Sequence[tuple[int, int]], batches: Batches) -> None:
    last_timestamp, last_offset = -1, batches.segment_base_offset
    for number, (timestamp, offset) in enumerate(entries):
        flaw = None
        holding = batches.holding(offset)
        if timestamp <= last_timestamp or offset < last_offset:
            flaw = f"comes after timestamp {last_timestamp} at offset {last_offset}"
        elif holding is None:
            if batches.torn and offset > batches.last_offset:
                return
            flaw = "has an offset that is in no batch"
        elif not batches.timestamps[holding] == batches.largest_timestamps[holding] == timestamp:
            flaw = (
                f"names a batch with timestamps up to {batches.timestamps[holding]}, "
                f"{batches.largest_timestamps[holding]} with those before it"
            )
        if flaw is not None:
            at = number * TIME_ENTRY.size
            raise CorruptLog(path, at, f"the entry for timestamp {timestamp} at offset {offset} {flaw}")
        last_timestamp, last_offset = timestamp, offset


def check_aborted_txns(path: str, txns: Sequence[AbortedTxn], batches: Batches) -> None:
    last_offset = batches.segment_base_offset - 1
    for number, txn in enumerate(txns):
        flaw = None
        producer_id, first_offset = batches.aborts.get(txn.last_offset, (None, None))
        if txn.last_offset <= last_offset:
            flaw = f"does not end after {last_offset}"
        elif txn.first_offset > txn.last_offset:
            flaw = "ends before it begins"
        elif producer_id is None:
            if batches.torn and txn.last_offset > batches.last_offset:
                return
            flaw = "does not end in an abort marker"
        elif producer_id != txn.producer_id:
            flaw = f"ends in the marker of producer {producer_id}"
        elif first_offset is not None and not _may_begin(txn.first_offset, first_offset, batches):
            flaw = f"has its first record at offset {first_offset}"
        if flaw is not None:
            at = number * TXN_ENTRY.size
            what = f"the transaction of producer {txn.producer_id}, offsets {txn.first_offset}-{txn.last_offset},"
            raise CorruptLog(path, at, f"{what} {flaw}")
        last_offset = txn.last_offset
    _check_all_are_there(path, {txn.last_offset for txn in txns}, batches)


def _may_begin(offset: int, first_seen: int, batches: Batches) -> bool:
    """Whether a transaction can begin at an offset; compaction may have removed the batch that was there."""
    return offset == first_seen or (offset < first_seen and batches.holding(offset) is None)


def _check_all_are_there(path: str, ends: set[int], batches: Batches) -> None:
    known_to = max(ends, default=-1)
    for marker_offset, (producer_id, first_offset) in batches.aborts.items():
        is_missing = first_offset is not None and marker_offset not in ends
        # A broker that is running may have written the marker after the index was read.
        if is_missing and not (batches.is_active and marker_offset > known_to):
            reason = f"the transaction of producer {producer_id}, aborted at offset {marker_offset}, is missing"
            raise CorruptLog(path, len(ends) * TXN_ENTRY.size, reason)
