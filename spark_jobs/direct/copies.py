"""Partitions in log directories, and which copy of each is read.

A partition may be in several of the directories, if these belong to brokers that replicate it. The copy that reaches
furthest is read. It reaches as far as it is known to be committed, by the high watermark that its broker has written
down, and no further than its files: a machine that lost power may have lost the end of a log, and not the watermark.

A directory may still hold a topic that was deleted while its broker was down, and another may hold one that was made
anew under the same name. Their ids differ. Files do not tell which is the newer one, so that is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from minikafka.client.structs import TopicPartition
from minikafka.spark_jobs.catalog import LossPolicy
from minikafka.spark_jobs.direct.batches import find_end
from minikafka.spark_jobs.direct.files import list_folder, read_small
from minikafka.spark_jobs.errors import LogNotReadable
from minikafka.storage.formats import (
    LOG_START_CHECKPOINT,
    PARTITION_METADATA_FILE,
    REPLICATION_CHECKPOINT,
    BadFile,
    parse_offsets,
    parse_partition_dir,
    parse_partition_metadata,
    uuid_text,
)


class Replica(NamedTuple):
    """A copy of a partition, how far it is known to be committed, and how far that can be read."""

    directory: Path
    high_watermark: int
    log_start: int
    stop: int


def find_replicas(
    log_dirs: Iterable[str], is_selected: Callable[[TopicPartition], bool], policy: LossPolicy
) -> dict[TopicPartition, Replica]:
    """The best copy of every selected partition; told to the policy if even that is shorter than it should be."""
    copies: dict[TopicPartition, list[Replica]] = {}
    for name in log_dirs:
        for tp, replica in _read_log_dir(Path(name), is_selected):
            copies.setdefault(tp, []).append(replica)
    _check_ids(copies)
    for tp, replicas in copies.items():
        best, high_watermark = _best(replicas), max(each.high_watermark for each in replicas)
        if best.stop < high_watermark:
            policy.report(
                f"{tp.topic}-{tp.partition} ends at {best.stop} in {best.directory}, "
                f"but is known to be committed up to {high_watermark}"
            )
    return {tp: _best(replicas) for tp, replicas in copies.items()}


def _best(replicas: list[Replica]) -> Replica:
    return max(replicas, key=lambda each: each.stop)


def _read_log_dir(
    log_dir: Path, is_selected: Callable[[TopicPartition], bool]
) -> Iterable[tuple[TopicPartition, Replica]]:
    # Before the files, which may only grow meanwhile.
    watermarks = _read_checkpoint(log_dir, REPLICATION_CHECKPOINT)
    starts = _read_checkpoint(log_dir, LOG_START_CHECKPOINT)
    for entry in list_folder(log_dir):
        place = parse_partition_dir(entry)
        if place is not None and is_selected(TopicPartition(*place)):
            # Of one that is not in the checkpoint yet, nothing is known to be committed.
            high_watermark = watermarks.get(place, 0)
            stop = min(high_watermark, find_end(log_dir / entry, high_watermark))
            yield TopicPartition(*place), Replica(log_dir / entry, high_watermark, starts.get(place, 0), stop)


def _check_ids(copies: dict[TopicPartition, list[Replica]]) -> None:
    known: dict[str, tuple[bytes, Path]] = {}
    for tp, replicas in copies.items():
        for directory in (each.directory for each in replicas):
            # Logs that were made before topics had ids have no such file.
            topic_id = read_small(directory / PARTITION_METADATA_FILE, parse_partition_metadata)
            if topic_id is None:
                continue
            other_id, other = known.setdefault(tp.topic, (topic_id, directory))
            if topic_id != other_id:
                raise LogNotReadable(
                    f"{directory} and {other} are of different topics called {tp.topic!r} ({uuid_text(topic_id)} and "
                    f"{uuid_text(other_id)}): one was deleted. Leave its directory out of logDirs, or let its broker "
                    "start, which removes it"
                )


def _read_checkpoint(log_dir: Path, name: str) -> dict[tuple[str, int], int]:
    if not log_dir.is_dir():
        raise LogNotReadable(f"{log_dir} is no directory that can be reached from here")
    try:
        return parse_offsets((log_dir / name).read_bytes())
    except FileNotFoundError:
        return {}
    except (BadFile, OSError) as error:
        raise LogNotReadable(f"{log_dir / name} cannot be read: {error}") from error
