"""All log directories of a broker, usually one for each disk.

A new partition goes to the directory with the fewest.  A directory that fails is offline alone, and its partitions
with it; the broker goes on as long as one is left.  A directory that is not ours, or two that hold the same
partition, are a mistake of the operator, and then nothing is started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from minikafka.storage.checkpoints import Partition
from minikafka.storage.config import LogConfig
from minikafka.storage.dir_identity import Identity, NotOurs
from minikafka.storage.disk import Disk
from minikafka.storage.errors import StorageError
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir, RunAll, run_in_turn


class LogSize(NamedTuple):
    """One partition, as DescribeLogDirs tells it."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    """By how much the log end is behind the high watermark: on a follower that was cut."""


class Volume(NamedTuple):
    """The disk below a directory; what is not known of it is -1, and then there is a reason."""

    total_bytes: int = -1
    usable_bytes: int = -1
    failure: str | None = None


class DirDescription(NamedTuple):
    """One directory, as DescribeLogDirs tells it; of one that is offline only the reason is known."""

    path: str
    failure: str | None
    total_bytes: int
    usable_bytes: int
    logs: list[LogSize]


class LogDirs:
    """See the module's description."""

    def __init__(self, disk: Disk, paths: Sequence[str]) -> None:
        self.dirs = [LogDir(disk, path) for path in paths]
        resolved = [each.path for each in self.dirs]
        if len({*resolved}) < len(resolved) or not resolved:
            raise NotOurs(f"log directories have to be different ones, and at least one: {', '.join(paths)}")

    @property
    def online(self) -> list[LogDir]:
        return [each for each in self.dirs if not each.is_offline]

    @property
    def last_written_ms(self) -> int | None:
        """The last sign of life of the broker that had the directories before; None if there is none."""
        return max((each.last_written_ms or 0 for each in self.dirs), default=0) or None

    @property
    def clean_epoch(self) -> int:
        """The broker epoch since which no directory has lost anything, -1 if one may have."""
        return min(each.clean_epoch for each in self.dirs)

    @property
    def has_new(self) -> bool:
        """Whether a directory is new, for example since its disk was replaced."""
        return any(log_dir.is_new for log_dir in self.dirs)

    # ------------------------------------------------------------------------------------- start and stop

    def open(self, identity: Identity, now_ms: int) -> None:
        """Take possession of all that work; StorageError if none does, NotOurs if one is somebody else's."""
        # All of them before anything is changed in one: most starts that go wrong go wrong here.
        self._each(lambda each: each.acquire(identity, now_ms))
        self._each(lambda each: each.look_through(now_ms))

    def load_all(self, config_for: Callable[[str], LogConfig], now_ms: int) -> None:
        """Load all partitions; StorageError if no directory is left, NotOurs if a partition is in two of them."""
        self._each(lambda each: each.load_all(config_for, now_ms))
        self.check_loaded(now_ms)

    def check_loaded(self, now_ms: int) -> None:
        """Whether it was possible to load everything, if that was done one directory at a time; raises as above."""
        self._each(lambda each: self._drop_half_made(each, now_ms))
        seen: dict[Partition, LogDir] = {}
        for each in self.online:
            for partition in (*each.logs, *each.corrupt):
                other = seen.setdefault(partition, each)
                if other is not each:
                    # Somebody has moved it by hand, and nobody else knows which of the two counts.
                    self.close()
                    raise NotOurs(f"partition {partition} is in {other.path} and in {each.path}: move one of them away")

    def _drop_half_made(self, log_dir: LogDir, now_ms: int) -> None:
        """Logs without records that were made in vain, since `create` takes another directory if one fails.

        It does so only as long as the log has no topic id. So one without is given up also if it is not known what is
        in a directory that is offline: it would pass for a replica that has everything.
        """
        others = [each for each in self.dirs if each is not log_dir]
        for partition in [partition for partition, log in log_dir.logs.items() if not log.log_end_offset]:
            has_id = partition in log_dir.topic_ids
            elsewhere = next((e for e in others if partition in e.logs or (e.is_offline and not has_id)), None)
            if elsewhere is not None:
                log_dir.do(log_dir.delete(partition, now_ms))
                topic, number = partition
                log_dir.notes.append(
                    f"{log_dir.path}: {topic}-{number} has no records and is deleted: it may be in {elsewhere.path}"
                )

    def _each(self, act: Callable[[LogDir], None]) -> None:
        """Do something with every directory; one that fails is offline, and that is all unless it was the last."""
        for each in self.online:
            try:
                act(each)
            except StorageError:
                if not each.is_offline:
                    self.close()
                    raise
        self._check_left()

    def _check_left(self) -> None:
        if not self.online:
            self.close()
            raise StorageError("no log directory works: " + "; ".join(each.failure or "" for each in self.dirs))

    def close(self, broker_epoch: int = -1, run_all: RunAll = run_in_turn) -> None:
        """Stop all in good order; one that fails at it is offline and does not keep the others from it."""
        for each in self.dirs:
            try:
                each.close(broker_epoch, run_all)
            except StorageError:
                assert each.is_offline

    # ------------------------------------------------------------------------------------- partitions

    def dir_of(self, partition: Partition) -> LogDir | None:
        """Where a partition is or is being made, usable or not; None if not here, or in a directory that is offline."""
        for each in self.online:
            if partition in each.logs or partition in each.corrupt or partition in each.creating:
                return each
        return None

    def log(self, partition: Partition) -> Log | None:
        for each in self.online:
            log = each.logs.get(partition)
            if log is not None:
                return log
        return None

    def by_room(self) -> list[LogDir]:
        """Where to put a new partition, the best place first: the fewest partitions, as in Kafka."""
        return sorted(self.online, key=lambda each: each.partition_count)

    def check_absent(self, partition: Partition, *, is_new: bool) -> None:
        """Before a log is made: StorageError if there may be one in a directory that is offline.

        An empty log in its place would pass for a replica that has everything, and once that directory is back there
        would be two of it. Of a partition that is new to the broker that can be only where it was seen before the
        directory failed: a request to make it may be repeated after it was carried out (Kafka answers an offline
        partition with KAFKA_STORAGE_ERROR in any case).
        """
        offline = [each for each in self.dirs if each.is_offline]
        suspected = [each.path for each in offline if not is_new or _was_seen(each, partition)]
        if suspected:
            raise StorageError(f"partition {partition} may be in {', '.join(suspected)}, which is offline")

    def create(
        self, partition: Partition, topic_id: bytes | None, config: LogConfig, now_ms: int, *, is_new: bool
    ) -> Log:
        """Make a log in the best place, or the next best if that fails; StorageError if there is none."""
        self.check_absent(partition, is_new=is_new)
        for each in self.by_room():
            job = each.create(partition, topic_id, config, now_ms)
            try:
                each.do(job)
            except StorageError:
                if not each.is_offline or job.may_be_complete:
                    raise
            else:
                return each.logs[partition]
        raise StorageError(f"there is no log directory left for partition {partition}")

    def volumes(self) -> list[Volume]:
        """Ask all disks how large they are. That may take long, and any thread may do it."""
        return [_volume(each) for each in self.dirs]

    def describe(self, volumes: Sequence[Volume] | None = None) -> list[DirDescription]:
        """For DescribeLogDirs; the volumes are asked for unless they are given."""
        measured = self.volumes() if volumes is None else volumes
        return [_describe(each, volume) for each, volume in zip(self.dirs, measured, strict=True)]


def _was_seen(log_dir: LogDir, partition: Partition) -> bool:
    """Whether a partition is in a directory, loaded or not, or was when that failed."""
    return partition in log_dir.logs or partition in log_dir.corrupt or partition in log_dir.unloaded


def _volume(log_dir: LogDir) -> Volume:
    if log_dir.failure is not None:
        return Volume(failure=log_dir.failure)
    try:
        return Volume(log_dir.disk.total_bytes(log_dir.path), log_dir.disk.free_bytes(log_dir.path))
    except OSError as error:
        return Volume(failure=f"{log_dir.path}: {error}")


def _describe(log_dir: LogDir, volume: Volume) -> DirDescription:
    failure = log_dir.failure or volume.failure
    if failure is not None:
        return DirDescription(log_dir.path, failure, -1, -1, [])
    sizes = [
        LogSize(topic, partition, log.size_bytes, max(0, log.high_watermark - log.log_end_offset))
        for (topic, partition), log in log_dir.logs.items()
    ]
    return DirDescription(log_dir.path, None, volume.total_bytes, volume.usable_bytes, sizes)
