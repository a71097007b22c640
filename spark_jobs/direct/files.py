"""Partitions and their files in log directories.

A partition may be in several of the directories, if these belong to brokers that replicate it. The copy with the
highest checkpointed high watermark is read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from minikafka.client.structs import TopicPartition
from minikafka.spark_jobs.errors import LogNotReadable
from minikafka.storage.formats import (
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    REPLICATION_CHECKPOINT,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    BadFile,
    parse_offsets,
    parse_partition_dir,
    parse_segment_name,
    segment_name,
)

_T = TypeVar("_T")

# Compaction puts its result in place within moments; a broker that died at it does the rest when it starts.
_SWAP_SECONDS: Final = 2.0
_SWAP_LOOKS: Final = 10


class Replica(NamedTuple):
    """A copy of a partition, and how far it is known to be committed."""

    directory: Path
    high_watermark: int
    log_start: int


class Segment(NamedTuple):
    """A segment by its first offset; `stop` is that of the next, None for the last."""

    directory: Path
    base_offset: int
    stop: int | None

    def file(self, suffix: str) -> Path:
        return self.directory / f"{segment_name(self.base_offset)}{suffix}"


def find_replicas(log_dirs: Iterable[str]) -> dict[TopicPartition, Replica]:
    """The best copy of every partition."""
    found: dict[TopicPartition, Replica] = {}
    for name in log_dirs:
        log_dir = Path(name)
        watermarks = _read_checkpoint(log_dir, REPLICATION_CHECKPOINT)
        starts = _read_checkpoint(log_dir, LOG_START_CHECKPOINT)
        for entry in _list(log_dir):
            place = parse_partition_dir(entry)
            if place is None:
                continue
            # Of one that is not in the checkpoint yet, nothing is known to be committed.
            replica = Replica(log_dir / entry, watermarks.get(place, 0), starts.get(place, 0))
            tp = TopicPartition(*place)
            if tp not in found or found[tp].high_watermark < replica.high_watermark:
                found[tp] = replica
    return found


def _list(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError as error:
        raise LogNotReadable(f"{directory} cannot be read: {error.strerror}") from error


def _read_checkpoint(log_dir: Path, name: str) -> dict[tuple[str, int], int]:
    if not log_dir.is_dir():
        raise LogNotReadable(f"{log_dir} is no directory that can be reached from here")
    try:
        return parse_offsets((log_dir / name).read_bytes())
    except FileNotFoundError:
        return {}
    except (BadFile, OSError) as error:
        raise LogNotReadable(f"{log_dir / name} cannot be read: {error}") from error


def find_segments(directory: Path) -> list[Segment]:
    """The segments of a partition in order. LogNotReadable while compaction is putting another in place."""
    for _ in range(_SWAP_LOOKS):
        offsets, is_changing = _look(directory)
        if not is_changing:
            stops = [*offsets[1:], None]
            return [Segment(directory, offset, stop) for offset, stop in zip(offsets, stops, strict=True)]
        time.sleep(_SWAP_SECONDS / _SWAP_LOOKS)
    raise LogNotReadable(
        f"{directory} is being compacted, for {_SWAP_SECONDS} s by now: if its broker has died, start it to finish"
    )


def _look(directory: Path) -> tuple[list[int], bool]:
    offsets: list[int] = []
    is_changing = False
    for entry in _list(directory):
        found = parse_segment_name(entry)
        if found is not None:
            is_changing |= found[1].endswith(SWAP_SUFFIX)
            if found[1] == LOG_SUFFIX:
                offsets.append(found[0])
    return sorted(offsets), is_changing


def find_snapshots(directory: Path) -> list[int]:
    """The offsets of the producer snapshots of a partition."""
    parsed = [parse_segment_name(entry) for entry in _list(directory)]
    return sorted(found[0] for found in parsed if found is not None and found[1] == SNAPSHOT_SUFFIX)


def read_small(path: Path, parse: Callable[[bytes], _T]) -> _T | None:
    """The contents of an index or snapshot that only saves time; None if it is not there or is damaged."""
    try:
        return parse(path.read_bytes())
    except (OSError, BadFile):
        return None
