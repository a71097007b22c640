"""Finding records by time, on any thread.

A plan has a segment that holds the answer and a hint out of its time index.  The hint is only
believed if the batch it names is there and has that timestamp; otherwise the segment is walked from
its start.
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.protocol.records.reader import iter_records
from minikafka.storage.index import TimestampOffset
from minikafka.storage.scanning import BatchAt, Read, Section, read_batch, scan, waiting
from minikafka.storage.errors import CorruptLog


class FoundRecord(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class TimestampPlan(NamedTuple):
    """The first record at or after a time; of several plans, the first that finds one has the answer."""

    timestamp: int
    from_offset: int
    section: Section
    hint: TimestampOffset

    def run(self) -> FoundRecord | None:
        read = waiting(self.section.file)
        for batch in scan(_believed(self.section, self.hint, read), read):
            if batch.max_timestamp >= self.timestamp and batch.last_offset >= self.from_offset:
                found = self._search(batch, read)
                if found is not None:
                    return found
        return None

    def _search(self, batch: BatchAt, read: Read) -> FoundRecord | None:
        for record in iter_records(read_batch(self.section, batch, read)):
            if record.timestamp_ms >= self.timestamp and record.offset >= self.from_offset:
                return FoundRecord(record.timestamp_ms, record.offset, batch.leader_epoch)
        return None


class LargestTimestampPlan(NamedTuple):
    """The first record with the largest timestamp of a segment."""

    section: Section
    hint: TimestampOffset

    def run(self) -> FoundRecord | None:
        read = waiting(self.section.file)
        largest: BatchAt | None = None
        for batch in scan(_believed(self.section, self.hint, read), read):
            if largest is None or batch.max_timestamp > largest.max_timestamp:
                largest = batch
        if largest is None:
            return None
        for record in iter_records(read_batch(self.section, largest, read)):
            if record.timestamp_ms == largest.max_timestamp:
                return FoundRecord(record.timestamp_ms, record.offset, largest.leader_epoch)
        return None


def _believed(section: Section, hint: TimestampOffset, read: Read) -> Section:
    """The section from the hinted batch on, or all of its segment if the hint is wrong."""
    if section.start == 0:
        return section
    try:
        for batch in scan(section, read):
            if batch.last_offset >= hint.offset:
                is_right = batch.last_offset == hint.offset and batch.max_timestamp == hint.timestamp
                return section._replace(start=batch.position if is_right else 0)
    except CorruptLog:
        pass
    return section._replace(start=0)
