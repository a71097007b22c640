"""The files that brokers are left with: where replicas of a partition have the same offsets, they have the same bytes.

Batches are compared one by one, since replicas may cut their logs into segments at different places. A replica may
begin later or end earlier than another; what they have in common is compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from minikafka.protocol.records import read_batches
from minikafka.storage.formats import LOG_SUFFIX, parse_partition_dir


class Batch(NamedTuple):
    """One batch, by what has to be equal."""

    first_offset: int
    last_offset: int
    digest: str


def partition_dirs(log_dir: Path, topic: str) -> dict[str, Path]:
    """The directories of a topic's partitions, by their names."""
    named = ((parse_partition_dir(path.name), path) for path in log_dir.iterdir())
    return {path.name: path for name, path in named if name is not None and name[0] == topic}


def batches(folder: Path) -> Iterator[Batch]:
    """All batches of a partition's directory, by their offsets; CRCs are checked."""
    for path in sorted(folder.glob(f"*{LOG_SUFFIX}")):
        content = path.read_bytes()
        position = 0
        for batch in read_batches(content):
            batch.check_crc()
            digest = hashlib.blake2b(content[position : position + batch.size], digest_size=16).hexdigest()
            position += batch.size
            yield Batch(batch.base_offset, batch.last_offset, digest)


def written_as(folder: Path, offset: int) -> str:
    """Under which numbers of its producer a record was written: copies under different ones no broker can tell."""
    for path in sorted(folder.glob(f"*{LOG_SUFFIX}")):
        for batch in read_batches(path.read_bytes()):
            if batch.base_offset <= offset <= batch.last_offset:
                sequence = batch.base_sequence + offset - batch.base_offset
                return f"{offset}: producer {batch.producer_id}, epoch {batch.producer_epoch}, sequence {sequence}"
    return f"{offset}: not there"


def compare(folders: Sequence[Path]) -> tuple[int, list[str]]:
    """How many offsets replicas have in common, and where they differ."""
    logs = [list(batches(folder)) for folder in folders]
    if not all(logs):
        return 0, []
    first = max(log[0].first_offset for log in logs)
    last = min(log[-1].last_offset for log in logs)
    common = [[batch for batch in log if first <= batch.first_offset and batch.last_offset <= last] for log in logs]
    differences = []
    for folder, log in zip(folders[1:], common[1:], strict=True):
        strangers = sorted(set(log) ^ set(common[0]))
        if strangers:
            differences.append(f"{folder} and {folders[0]} differ at offset {strangers[0].first_offset}")
    return max(0, last + 1 - first), differences


def compare_all(log_dirs: Sequence[Path], topic: str) -> tuple[int, list[str]]:
    """The same for all partitions of a topic in several log directories."""
    found = [partition_dirs(log_dir, topic) for log_dir in log_dirs]
    offsets, differences = 0, []
    for name in sorted(set().union(*found)):
        count, different = compare([dirs[name] for dirs in found if name in dirs])
        offsets += count
        differences += different
    return offsets, differences
