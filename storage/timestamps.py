"""Finding records by time, on any thread.

A plan has a segment that holds the answer and a hint out of its time index.  The hint is only
believed if the batch it names is there and has that timestamp; otherwise the segment is walked from
its start.

Headers are the producers' claims.  Where the records of a batch do not bear its header out, the records
count; where they cannot be read at all, the header has to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from minikafka.protocol.errors import CorruptRecord, RecordTooLarge
from minikafka.protocol.records.reader import iter_records
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.index import TimestampOffset
from minikafka.storage.scanning import BatchAt, Read, Section, held, read_batch, scan, waiting
from minikafka.storage.segment import Segment
from minikafka.storage.segments import Segments


class FoundRecord(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class _Place(NamedTuple):
    """Where to look in one segment."""

    section: Section
    """From about where the hint is."""
    hint: TimestampOffset
    from_offset: int
    """Records before it do not count."""


class TimestampPlan(NamedTuple):
    """The first record of one segment at or after a time."""

    timestamp: int
    place: _Place
    next_offset: int | None
    """Where to look next if it is not here; None if there is nothing behind it."""

    def run(self) -> FoundRecord | None:
        try:
            with held([self.place.section]):
                return self._search()
        except OSError as error:
            raise _failure(self.place, error) from error

    def _search(self) -> FoundRecord | None:
        place, read = self.place, waiting(self.place.section.file)
        section = _believed(place, read) or place.section._replace(start=0)
        for batch in scan(section, read):
            if batch.max_timestamp >= self.timestamp and batch.last_offset >= place.from_offset:
                for record in _records(place, batch, read):
                    if record.timestamp >= self.timestamp:
                        return record
        return None


class LargestTimestampPlan(NamedTuple):
    """The first record with the largest timestamp of a log."""

    places: tuple[_Place, ...]

    def run(self) -> FoundRecord | None:
        best: FoundRecord | None = None
        for place in self.places:
            try:
                with held([place.section]):
                    found = _largest_of(place)
            except OSError as error:
                raise _failure(place, error) from error
            if best is None or (found is not None and found.timestamp > best.timestamp):
                best = found
        return best


def plan_timestamp(segments: Segments, from_offset: int, timestamp: int) -> TimestampPlan | None:
    """Where to look first for a record at or after a time, from an offset on; segments behind it are not touched."""
    for segment in segments.from_offset(from_offset):
        if segment.largest.timestamp >= timestamp:
            place = _place(segment, segment.time_index.lookup(timestamp), from_offset)
            return TimestampPlan(timestamp, place, segments.next_base(segment))
    return None


def plan_largest_timestamp(segments: Segments, log_start_offset: int) -> LargestTimestampPlan | None:
    """Where to look for the record with the largest timestamp; None in a log without any."""
    first, *later = segments.from_offset(log_start_offset)
    # What is left of the first segment may not have its largest timestamp any more.
    candidates = [first, max(later, key=_largest_timestamp)] if later else [first]
    found = [segment for segment in candidates if segment.largest.timestamp >= 0]
    if not found:
        return None
    return LargestTimestampPlan(tuple(_place(segment, segment.largest, log_start_offset) for segment in found))


def _largest_timestamp(segment: Segment) -> int:
    return segment.largest.timestamp


def _place(segment: Segment, hint: TimestampOffset, from_offset: int) -> _Place:
    position = segment.offset_index.lookup(hint.offset).position
    return _Place(segment.section(min(position, segment.size)), hint, from_offset)


def _believed(place: _Place, read: Read) -> Section | None:
    """The section from the hinted batch on, None if the hint is wrong."""
    try:
        for batch in scan(place.section, read):
            if batch.last_offset >= place.hint.offset:
                is_right = batch.base_offset <= place.hint.offset and batch.max_timestamp == place.hint.timestamp
                return place.section._replace(start=batch.position) if is_right else None
    except CorruptLog:
        pass
    return None


def _largest_of(place: _Place, is_hinted: bool = True) -> FoundRecord | None:
    """The first record with the largest timestamp, from the hinted batch alone if that can be."""
    read = waiting(place.section.file)
    best: FoundRecord | None = None
    section = _believed(place, read) if is_hinted else place.section._replace(start=0)
    for batch in scan(section, read) if section is not None else ():
        if batch.last_offset >= place.from_offset and (best is None or batch.max_timestamp > best.timestamp):
            for record in _records(place, batch, read):
                if best is None or record.timestamp > best.timestamp:
                    best = record
        if is_hinted:
            break
    if is_hinted and (best is None or best.timestamp != place.hint.timestamp):
        return _largest_of(place, is_hinted=False)
    return best


def _records(place: _Place, batch: BatchAt, read: Read) -> Iterator[FoundRecord]:
    """The records of a batch that count, one by one; where they cannot be read, what the header says."""
    view = read_batch(place.section, batch, read)
    try:
        for each in iter_records(view, with_headers=False, on_too_large=_ignore):
            if each.offset >= place.from_offset:
                yield FoundRecord(each.timestamp_ms, each.offset, batch.leader_epoch)
    except CorruptRecord:
        if batch.base_offset >= place.from_offset:
            yield FoundRecord(batch.max_timestamp, batch.base_offset, batch.leader_epoch)


def _ignore(error: RecordTooLarge) -> None:
    """Too large to be looked into: the records beside it have to do."""


def _failure(place: _Place, error: OSError) -> StorageError:
    return StorageError(f"{place.section.path}: cannot be read: {error}")
