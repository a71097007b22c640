"""Bringing a log to disk, away from the loop.

The loop says what has to be synced (`Log.prepare_flush`), a worker does it (`FlushPlan.run`), the loop takes
note (`Log.complete_flush`).  Only then may the recovery point move: below it, recovery looks at nothing.
A plan that fails must not be tried again: after a failed sync nobody knows what is on disk.
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.storage.disk import Disk, File
from minikafka.storage.errors import StorageError
from minikafka.storage.index import OffsetIndex, TimeIndex


class FlushPlan(NamedTuple):
    """Everything that has to be on disk for all offsets below `offset` to be safe."""

    disk: Disk
    directory: str
    offset: int
    generation: int
    files: tuple[File, ...]
    indexes: tuple[OffsetIndex | TimeIndex, ...]
    paths: tuple[str, ...]
    """Small files that were written since the last flush."""
    has_new_names: bool

    def run(self) -> None:
        try:
            for file in self.files:
                file.sync()
            for index in self.indexes:
                index.sync()
            for path in self.paths:
                _sync_path(self.disk, path)
            if self.has_new_names:
                self.disk.fsync_dir(self.directory)
        except OSError as error:
            raise StorageError(f"{self.directory}: cannot be brought to disk: {error}") from error


def _sync_path(disk: Disk, path: str) -> None:
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return  # deleted since
    try:
        file.sync()
    finally:
        file.close()
