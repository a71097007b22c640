"""Batches of a partition's files, by offset, without a copy: a batch is a view of the mapped file."""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records import BatchView
from minikafka.spark_jobs.direct.files import Segment, find_segments, read_small
from minikafka.spark_jobs.errors import LogNotReadable
from minikafka.storage.formats import INDEX_SUFFIX, LOG_SUFFIX, parse_offset_index


class Mapped(NamedTuple):
    """A segment and its bytes."""

    segment: Segment
    data: memoryview


def map_segments(directory: Path, start: int, stop: int) -> list[Mapped]:
    """The segments that may have offsets of [start, stop). Looks again if one goes while it is about to be mapped."""
    for is_last in (False, False, True):
        wanted = [
            each
            for each in find_segments(directory)
            if each.base_offset < stop and (each.stop is None or each.stop > start)
        ]
        try:
            return [Mapped(each, _map(each.file(LOG_SUFFIX))) for each in wanted]
        except OSError as error:
            if is_last or not isinstance(error, FileNotFoundError):
                raise LogNotReadable(f"{directory} cannot be read: {error}") from error
    raise AssertionError("the last attempt returns or raises")


def _map(path: Path) -> memoryview:
    with path.open("rb") as file:
        # Of an empty file nothing can be mapped. The map is closed when the last batch is forgotten.
        size = os.fstat(file.fileno()).st_size
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")


def iter_batches(segments: Iterable[Mapped], start: int, stop: int) -> Iterator[BatchView]:
    """Batches that reach into [start, stop), in order.

    What lies behind the last of them is not looked at: it may not be committed, and be cut off at any moment.
    """
    for segment, data in segments:
        position, next_offset = _find(segment, data, start), segment.base_offset
        while position < len(data) and next_offset < stop:
            try:
                batch = BatchView(data, position)
            except CorruptRecord as error:
                path = segment.file(LOG_SUFFIX)
                raise LogNotReadable(f"{path} has no whole batch at byte {position}: {error}") from error
            position += batch.size
            next_offset = batch.next_offset
            if batch.base_offset < stop and next_offset > start:
                yield batch


def find_end(directory: Path, wanted: int) -> int:
    """The offset after the last whole batch of a partition, or at least `wanted` if there are as many."""
    segments = find_segments(directory)
    if not segments or segments[-1].base_offset >= wanted:
        return segments[-1].base_offset if segments else 0
    end = segments[-1].base_offset
    for segment, data in map_segments(directory, end, wanted):
        end = max(end, segment.base_offset)
        position = _find(segment, data, wanted)
        while position < len(data) and end < wanted:
            try:
                batch = BatchView(data, position)
            except CorruptRecord:
                break
            position += batch.size
            end = batch.next_offset
    return end


def _find(segment: Segment, data: memoryview, offset: int) -> int:
    """Where to begin for an offset: by the index if it tells the truth, otherwise at the beginning."""
    entries = read_small(segment.file(INDEX_SUFFIX), lambda raw: parse_offset_index(raw, segment.base_offset)) or []
    at = bisect_right(entries, offset, key=lambda entry: entry[0]) - 1
    if at < 0:
        return 0
    indexed, position = entries[at]
    try:
        batch = BatchView(data, max(position, 0))
    except CorruptRecord:
        return 0
    # An entry has the last offset of the batch that it points to. A damaged index may not even be in order.
    tells_the_truth = position >= 0 and batch.base_offset <= indexed <= min(offset, batch.last_offset)
    return position if tells_the_truth else 0
