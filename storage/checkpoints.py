"""The offset checkpoints of a log directory: four files that say of every partition how far it has come.

    recovery-point-offset-checkpoint   below it everything is on disk; recovery starts there
    replication-offset-checkpoint      the high watermark
    log-start-offset-checkpoint        the log start offset, where it is not that of the first segment
    cleaner-offset-checkpoint          the first offset that compaction has not been over yet

Each is replaced whole.  None has a checksum, so a file is believed if it can be read at all, and otherwise counts
as empty: recovery then reads everything and every log starts with its first segment.

A checkpoint may be behind its log, but never ahead: recovery would pass over what it has to check, or take the tail
of a log for one that was lost from disk.  A log falls behind its checkpoint when it is cut, or when it is made in the
place of another that was deleted.  `is_ahead` and `holds` tell, and then the files have to be written before the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from minikafka.storage.disk import Disk, join
from minikafka.storage.formats import (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    BadFile,
    encode_offsets,
    parse_offsets,
)
from minikafka.storage.log import Log
from minikafka.storage.small_files import read_small, replace_file

Partition: TypeAlias = tuple[str, int]

_FILE_BYTES_MAX: Final = 64 << 20
"""A line takes at most 280 bytes: room for some 200,000 partitions with the longest names."""


class Rewrite(NamedTuple):
    """New contents for a small file, to be put together where it is written."""

    path: str
    encode: Callable[[], bytes]

    def run(self, disk: Disk) -> None:
        replace_file(disk, self.path, self.encode())


class OffsetCheckpoint:
    """One of the files; `offsets` is what it holds, or will when the rewrites made so far are carried out."""

    def __init__(self, disk: Disk, directory: str, name: str) -> None:
        self.path = join(directory, name)
        self.offsets: dict[Partition, int] = {}
        self.is_missing = True
        self._disk = disk
        self._is_known = False

    def read(self) -> str | None:
        """Take over what is on disk; returns what is wrong with it, None if nothing is."""
        self.offsets, self._is_known, self.is_missing = {}, False, False
        try:
            data = read_small(self._disk, self.path, _FILE_BYTES_MAX)
            if data is None:
                self.is_missing = True
                return None
            # Kafka writes no negative offset, and none can be meant.
            self.offsets = {partition: max(0, offset) for partition, offset in parse_offsets(data).items()}
        except BadFile as error:
            return f"{self.path} is bad and counts as empty: {error}"
        self._is_known = True
        return None

    def assume(self, partition: Partition, offset: int) -> None:
        """Add an offset for a partition that has none."""
        if partition not in self.offsets:
            self.offsets[partition] = offset
            self._is_known = False

    def rewrite(self, offsets: dict[Partition, int]) -> Rewrite | None:
        """What to write for these to be its offsets, which are taken over; None if they are."""
        if self._is_known and offsets == self.offsets:
            return None
        self.offsets, self._is_known, self.is_missing = offsets, True, False
        return Rewrite(self.path, partial(encode_offsets, self.offsets))


class Checkpoints:
    """All four of a directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.recovery_points = OffsetCheckpoint(disk, directory, RECOVERY_POINT_CHECKPOINT)
        self.high_watermarks = OffsetCheckpoint(disk, directory, REPLICATION_CHECKPOINT)
        self.log_starts = OffsetCheckpoint(disk, directory, LOG_START_CHECKPOINT)
        self.cleaned = OffsetCheckpoint(disk, directory, CLEANER_CHECKPOINT)
        self.first_dirty: dict[Partition, int] = {}
        """Where compaction goes on, for partitions that it has been over."""

    def read(self) -> list[str]:
        """Take over what is on disk; returns what was wrong with it."""
        notes = [file.read() for file in (self.recovery_points, self.high_watermarks, self.log_starts, self.cleaned)]
        self.first_dirty = dict(self.cleaned.offsets)
        return [note for note in notes if note is not None]

    def rewrite(self, logs: Mapping[Partition, Log], others: Collection[Partition]) -> list[Rewrite]:
        """What to write for the files to say how far the logs are; what they say of the others stays."""
        items = logs.items()
        recovery_points = {partition: log.recovery_point for partition, log in items}
        starts = {
            partition: log.log_start_offset for partition, log in items if log.log_start_offset and _starts_inside(log)
        }
        kept_dirty = _only(self.first_dirty, others)
        # What compaction had been over may have been cut off since.
        dirty = {p: min(offset, logs[p].log_end_offset) for p, offset in self.first_dirty.items() if p in logs}
        self.first_dirty = kept_dirty | dirty
        made = (
            self.recovery_points.rewrite(recovery_points | _only(self.recovery_points.offsets, others)),
            *self.rewrite_high_watermarks(logs, others),
            self.log_starts.rewrite(starts | _only(self.log_starts.offsets, others)),
            # The file is made by the first compaction, and many brokers never see one.
            self.cleaned.rewrite({**self.first_dirty}) if self.first_dirty or not self.cleaned.is_missing else None,
        )
        return [rewrite for rewrite in made if rewrite is not None]

    def rewrite_high_watermarks(self, logs: Mapping[Partition, Log], others: Collection[Partition]) -> list[Rewrite]:
        """The same of the one file that changes all the time."""
        high_watermarks = {partition: log.high_watermark for partition, log in logs.items()}
        made = self.high_watermarks.rewrite(high_watermarks | _only(self.high_watermarks.offsets, others))
        return [] if made is None else [made]

    def holds(self, partition: Partition) -> bool:
        """Whether any of the files says something of the partition."""
        files = (self.recovery_points, self.high_watermarks, self.log_starts, self.cleaned)
        return any(partition in file.offsets for file in files)

    def is_ahead(self, partition: Partition, log: Log) -> bool:
        """Whether the files say more than is true, since the log was cut."""
        return (
            self.recovery_points.offsets.get(partition, 0) > log.recovery_point
            or self.log_starts.offsets.get(partition, 0) > log.log_start_offset
            or self.high_watermarks.offsets.get(partition, 0) > log.log_end_offset
            or self.cleaned.offsets.get(partition, 0) > log.log_end_offset
        )


def _starts_inside(log: Log) -> bool:
    """Whether the log starts after its first segment does, so that no file's name tells where."""
    return log.log_start_offset > log.segments.first.base_offset


def _only(offsets: Mapping[Partition, int], partitions: Collection[Partition]) -> dict[Partition, int]:
    return {partition: offsets[partition] for partition in partitions if partition in offsets}
