"""Bringing a log to disk, away from the loop.

The loop says what has to be synced (`Log.prepare_flush`), a worker does it (`FlushPlan.run`), the loop takes
note (`Log.complete_flush`).  Only then may the recovery point move: below it, recovery looks at nothing.
A plan that fails must not be tried again: after a failed sync nobody knows what is on disk.

Indexes of the segment that is being written are left out, as recovery builds them anew in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from minikafka.storage.disk import Disk, File
from minikafka.storage.errors import StorageError
from minikafka.storage.index import OffsetIndex, TimeIndex
from minikafka.storage.segment import Segment


class Syncs(NamedTuple):
    """What a plan has to sync."""

    files: tuple[File, ...]
    indexes: tuple[OffsetIndex | TimeIndex, ...]
    paths: tuple[str, ...]
    """Small files that were written since the last flush, and others that may not be there."""


class FlushPlan(NamedTuple):
    """Everything that has to be on disk for all offsets below `offset` to be safe."""

    disk: Disk
    directory: str
    offset: int
    generation: int
    work: Syncs
    has_new_names: bool

    def run(self) -> None:
        try:
            for file in self.work.files:
                file.sync()
            for index in self.work.indexes:
                index.sync()
            for path in self.work.paths:
                _sync_path(self.disk, path)
            if self.has_new_names:
                self.disk.fsync_dir(self.directory)
        except OSError as error:
            raise StorageError(f"{self.directory}: cannot be brought to disk: {error}") from error


def plan_syncs(segments: Sequence[Segment], paths: Iterable[str]) -> Syncs:
    """What to sync of segments, and small files beside them."""
    files = tuple(segment.file for segment in segments)
    indexes: list[OffsetIndex | TimeIndex] = []
    for segment in segments:
        for index in (segment.offset_index, segment.time_index):
            if segment.is_sealed or index.has_grown:
                indexes.append(index)
                index.has_grown = False
    return Syncs(files, tuple(indexes), (*paths, *(segment.txn_index.path for segment in segments)))


def _sync_path(disk: Disk, path: str) -> None:
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return  # deleted since
    try:
        file.sync()
    finally:
        file.close()
