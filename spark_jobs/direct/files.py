"""The files of a partition in a log directory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from minikafka.spark_jobs.errors import LogNotReadable
from minikafka.storage.formats import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    BadFile,
    parse_segment_name,
    segment_name,
)

_T = TypeVar("_T")

# Compaction puts its result in place within moments; a broker that died at it does the rest when it starts.
_SWAP_SECONDS: Final = 2.0
_SWAP_LOOKS: Final = 10


class Segment(NamedTuple):
    """A segment by its first offset; `stop` is that of the next, None for the last."""

    directory: Path
    base_offset: int
    stop: int | None

    def file(self, suffix: str) -> Path:
        return self.directory / f"{segment_name(self.base_offset)}{suffix}"


def list_folder(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError as error:
        raise LogNotReadable(f"{directory} cannot be read: {error.strerror}") from error


def find_segments(directory: Path) -> list[Segment]:
    """The segments of a partition in order. LogNotReadable while compaction is putting another in place."""
    for _ in range(_SWAP_LOOKS):
        offsets, is_changing = _look(directory)
        if not is_changing:
            stops = zip_longest(offsets, offsets[1:])
            return [Segment(directory, offset, stop) for offset, stop in stops]
        time.sleep(_SWAP_SECONDS / _SWAP_LOOKS)
    raise LogNotReadable(
        f"{directory} is being compacted, for {_SWAP_SECONDS} s by now: if its broker has died, start it to finish"
    )


def _look(directory: Path) -> tuple[list[int], bool]:
    offsets: list[int] = []
    is_changing = False
    for entry in list_folder(directory):
        found = parse_segment_name(entry)
        if found is not None:
            is_changing |= found[1].endswith(SWAP_SUFFIX)
            if found[1] == LOG_SUFFIX:
                offsets.append(found[0])
    return sorted(offsets), is_changing


def find_snapshots(directory: Path) -> list[int]:
    """The offsets of the producer snapshots of a partition."""
    parsed = [parse_segment_name(entry) for entry in list_folder(directory)]
    return sorted(found[0] for found in parsed if found is not None and found[1] == SNAPSHOT_SUFFIX)


def read_small(path: Path, parse: Callable[[bytes], _T]) -> _T | None:
    """The contents of an index or snapshot that only saves time; None if it is not there or is damaged."""
    try:
        return parse(path.read_bytes())
    except (OSError, BadFile):
        return None
