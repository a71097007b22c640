"""The files beside a log's segments: leader epochs and snapshots of the producers' state.

They are written without waiting for the disk and synced with the next flush, since both can be had
again from the batches: a snapshot only spares replaying the log from an older one, and the epochs
are in every batch header.  So a bad file is removed, never trusted and never an error.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from minikafka.storage.disk import Disk, join
from minikafka.storage.epochs import LeaderEpochs
from minikafka.storage.formats import (
    SNAPSHOT_SUFFIX,
    BadFile,
    ProducerSnapshotEntry,
    encode_epochs,
    encode_snapshot,
    parse_epochs,
    parse_segment_name,
    parse_snapshot,
    segment_name,
)
from minikafka.storage.small_files import read_small, write_unsynced

EPOCHS_FILE: Final = "leader-epoch-checkpoint"
_FILE_BYTES_MAX: Final = 64 << 20
"""A snapshot takes 46 bytes a producer: room for more than a million of them."""
_LINES_MIN: Final = 2
"""Version and number of entries."""


class StateFiles:
    """Of one log; remembers what was written since the last flush."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.unsynced: set[str] = set()

    def write_epochs(self, epochs: LeaderEpochs) -> None:
        self._write(EPOCHS_FILE, encode_epochs(epochs.entries()))

    def read_epochs(self) -> LeaderEpochs | None:
        """None if there is no file or it is bad."""
        try:
            data = read_small(self._disk, join(self._directory, EPOCHS_FILE), _FILE_BYTES_MAX)
            # The format lets a file end before its number of entries; what a crash leaves behind may look the same.
            return None if data is None or data.count(b"\n") < _LINES_MIN else LeaderEpochs(parse_epochs(data))
        except BadFile:
            return None

    def write_snapshot(self, offset: int, entries: list[ProducerSnapshotEntry]) -> None:
        self._write(segment_name(offset) + SNAPSHOT_SUFFIX, encode_snapshot(entries))

    def has_snapshot(self, offset: int) -> bool:
        return self._disk.exists(self._snapshot_path(offset))

    def latest_snapshot(self, offset_max: int) -> tuple[int, list[ProducerSnapshotEntry]] | None:
        """The newest snapshot at or below an offset; bad ones on the way are removed."""
        for offset in sorted(self._snapshot_offsets(), reverse=True):
            if offset > offset_max:
                continue
            path = self._snapshot_path(offset)
            try:
                return offset, parse_snapshot(read_small(self._disk, path, _FILE_BYTES_MAX) or b"")
            except BadFile:
                self._disk.unlink(path)
        return None

    def delete_snapshots(self, *, below: int | None = None, above: int | None = None) -> None:
        """Those of offsets that the log no longer has, at its start or at its end."""
        for offset in self._snapshot_offsets():
            if (below is not None and offset < below) or (above is not None and offset > above):
                self._disk.unlink(self._snapshot_path(offset))

    def delete_stray_snapshots(self, bases: Collection[int]) -> None:
        """Those of no segment: each stop leaves one at the log end, and only the last of them is of use."""
        offsets = self._snapshot_offsets()
        for offset in offsets:
            if offset not in bases and offset < max(offsets):
                self._disk.unlink(self._snapshot_path(offset))

    def _snapshot_offsets(self) -> list[int]:
        named = [parse_segment_name(name) for name in self._disk.list(self._directory)]
        return [found[0] for found in named if found is not None and found[1] == SNAPSHOT_SUFFIX]

    def _snapshot_path(self, offset: int) -> str:
        return join(self._directory, segment_name(offset) + SNAPSHOT_SUFFIX)

    def _write(self, name: str, data: bytes) -> None:
        path = join(self._directory, name)
        write_unsynced(self._disk, path, data)
        self.unsynced.add(path)
