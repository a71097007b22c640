"""Tidying up a partition's directory after a stop in the middle of something.

Compaction writes its segments as `.cleaned`, renames all of them to `.swap`, takes the old segments away, and drops
the suffix. Before the first of these steps is over, some file is still `.cleaned`: the old segments are all there and
nothing else counts. After it, the `.swap` files are the log, and whatever old segment is left from the first of
their offsets to the last is deleted. Kafka does the same, so either can finish what the other began; several segments
are renamed from the last to the first, which is why one `.cleaned` file makes every later `.swap` void.

Files with other names than ours are not looked at.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.storage.disk import Disk, join
from minikafka.storage.formats import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TMP_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_segment_name,
    segment_name,
)
from minikafka.storage.scanning import Section, scan

_INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


class _Named(NamedTuple):
    """A segment's file; `suffix` is all of it, `.log.swap` as well as `.log`."""

    name: str
    base_offset: int
    suffix: str


def clear_leftovers(disk: Disk, directory: str) -> None:
    """Leave only segments that are whole and the files that belong to them; CorruptLog if a swap cannot be read."""
    names = disk.list(directory)
    files = [_Named(name, *parsed) for name in names if (parsed := parse_segment_name(name)) is not None]
    swaps = [file for file in files if file.suffix.endswith(SWAP_SUFFIX)]
    cleaned = [file for file in files if file.suffix.endswith(CLEANED_SUFFIX)]
    void_from = min((file.base_offset for file in cleaned), default=None)
    void = [file for file in swaps if void_from is not None and file.base_offset >= void_from]
    if len(void) < len(swaps):
        _finish_swap(disk, directory, files, [file for file in swaps if file not in void])
    if void:
        # On disk before the `.cleaned` files go, for those are what tells that these are void.
        _unlink(disk, directory, [file.name for file in void])
        disk.fsync_dir(directory)
    _unlink(disk, directory, [file.name for file in cleaned] + [name for name in names if _is_temporary(name)])
    _unlink(disk, directory, _orphans(disk.list(directory)))


def _finish_swap(disk: Disk, directory: str, files: list[_Named], swaps: list[_Named]) -> None:
    """Let the swapped segments take the place of all others that begin within their offsets."""
    logs = [file for file in swaps if file.suffix == LOG_SUFFIX + SWAP_SUFFIX]
    if logs:
        bases = {file.base_offset for file in logs}
        covered = range(min(bases), max(_next_offset(disk, directory, file) for file in logs))
        old = [file for file in files if file.suffix in (LOG_SUFFIX, *_INDEX_SUFFIXES)]
        # A swapped segment may be empty, and then covers not even its own name.
        going = [file.name for file in old if file.base_offset in covered or file.base_offset in bases]
        _unlink(disk, directory, going)
        # Not until they are gone for good may the files lose the suffix that says they have to go.
        disk.fsync_dir(directory)
    for file in swaps:
        path = join(directory, file.name)
        disk.rename(path, path.removesuffix(SWAP_SUFFIX))
    disk.fsync_dir(directory)


def _next_offset(disk: Disk, directory: str, swapped: _Named) -> int:
    path = join(directory, swapped.name)
    file = disk.open(path, read_only=True)
    try:
        next_offset = swapped.base_offset
        for batch in scan(Section(path, file, 0, file.size()), file.read):
            next_offset = batch.last_offset + 1
        return next_offset
    finally:
        file.close()


def _is_temporary(name: str) -> bool:
    """Deleted files, and what was being written to replace a file; a snapshot may be on its way out too."""
    if name.endswith(DELETED_SUFFIX):
        return parse_segment_name(name) is not None
    stem = name.removesuffix(TMP_SUFFIX)
    is_ours = stem in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE) or parse_segment_name(stem) is not None
    return stem != name and is_ours


def _orphans(names: list[str]) -> list[str]:
    """Indexes of segments that are not there."""
    parsed = [found for name in names if (found := parse_segment_name(name)) is not None]
    bases = {base for base, suffix in parsed if suffix == LOG_SUFFIX}
    return [segment_name(base) + suffix for base, suffix in parsed if suffix in _INDEX_SUFFIXES and base not in bases]


def _unlink(disk: Disk, directory: str, names: list[str]) -> None:
    for name in names:
        disk.unlink(join(directory, name))
