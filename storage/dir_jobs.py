"""What a log directory has to do that waits for the disk.

A job is made on the loop by a method of `LogDir`, which has everything decided and noted by then; `run` does the work
on any thread and touches nothing but the disk; `LogDir.finish`, on the loop again, takes the result over.  The jobs of
one directory are run in the order in which they were made, one at a time: that keeps two writers of one file apart,
and makes a partition that is deleted and created again move out before it moves in.

New logs that are made one after the other are the exception (`Creations`): none of them has to do with another, and
there may be thousands, so they are made by several threads at once and share a sync.

`run` does not raise what the disk did: `failure` has it, for `finish` to deal with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum

from minikafka.storage.checkpoints import Partition, Rewrite
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, join, parent
from minikafka.storage.errors import CorruptLog, ReadOvertaken, StorageError
from minikafka.storage.formats import PARTITION_METADATA_FILE, encode_partition_metadata
from minikafka.storage.loading import LoadedState, load_log
from minikafka.storage.log import Log
from minikafka.storage.segment import Segment
from minikafka.storage.small_files import replace_file
from minikafka.storage.trimming import CutPlan


class Extent(Enum):
    """How much is unlinked."""

    NOTHING = "nothing"
    SEGMENTS = "segments"
    DIRECTORY = "directory"


class Job:
    """See the module's description."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self.is_done = False
        self.failure: StorageError | None = None
        self._disk = disk

    def run(self) -> None:
        self._try(self._work)
        self.is_done = True

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            self.failure = StorageError(f"{self.path}: {error}")
        except StorageError as error:
            self.failure = error

    def _work(self) -> None:
        raise AssertionError("each kind of job has its own")


class WriteFiles(Job):
    """Replace small files."""

    def __init__(self, disk: Disk, path: str, rewrites: Sequence[Rewrite]) -> None:
        super().__init__(disk, path)
        self.rewrites = rewrites

    def _work(self) -> None:
        for rewrite in self.rewrites:
            rewrite.run(self._disk)


class CreateLog(Job):
    """Make the directory of a new partition; `log` is its log."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        partition: Partition,
        topic_id: bytes | None,
        config: LogConfig,
        now_ms: int,
        rewrites: Sequence[Rewrite],
    ) -> None:
        super().__init__(disk, path)
        self.partition = partition
        self.topic_id = topic_id
        self.log: Log | None = None
        self.may_be_complete = False
        """Whether a failure may have left something that looks like a partition of the topic."""
        self._config = config
        self._now_ms = now_ms
        self._rewrites = rewrites

    @property
    def is_independent(self) -> bool:
        """Whether it can be done at the same time as other creations."""
        return not self._rewrites

    def _work(self) -> None:
        # What the checkpoints still say is about a partition of the same name that was deleted.
        for rewrite in self._rewrites:
            rewrite.run(self._disk)
        self._make()
        self._sync_name()

    def _make(self) -> None:
        if self._disk.exists(self.path):
            raise CorruptLog(self.path, 0, "was put there while the broker was running")
        self._disk.mkdir(self.path)
        self.log = load_log(self._disk, self.path, self._config, LoadedState(), self._now_ms)
        # With the name of the first segment: if a power cut left only a later one, the log would seem to start there.
        if self.topic_id is None:
            self._disk.fsync_dir(self.path)
        else:
            path = join(self.path, PARTITION_METADATA_FILE)
            try:
                replace_file(self._disk, path, encode_partition_metadata(self.topic_id))
            finally:
                self.may_be_complete = self._may_exist(path)

    def _may_exist(self, path: str) -> bool:
        try:
            return self._disk.exists(path)
        except OSError:
            return True

    def _sync_name(self) -> None:
        self._disk.fsync_dir(parent(self.path))


class Creations:
    """Several new logs of one directory, all independent."""

    def __init__(self, jobs: Sequence[CreateLog]) -> None:
        assert all(job.is_independent for job in jobs)
        self._todo = iter(jobs)
        self._begun: list[CreateLog] = []
        self._is_over = False

    def run(self) -> None:
        """On any thread, or on several at once, which share the work, up to the first for which the disk fails."""
        for job in self._todo:
            self._begun.append(job)
            job._try(job._make)
            self._is_over |= is_disk_failure(job)
            if self._is_over:
                return

    def finish(self) -> None:
        """On any thread, when all have ended; a job that was not begun is not done."""
        if self._begun:
            # If that fails, the directory is offline when the first is finished, and so it is for the others.
            self._begun[0]._try(self._begun[0]._sync_name)
        for job in self._begun:
            job.is_done = True


def is_disk_failure(job: Job) -> bool:
    """Whether a job failed for a reason that concerns more than one partition."""
    return job.failure is not None and not isinstance(job.failure, CorruptLog)


class PrepareCut(Job):
    """What takes long about cutting a log; a log that has changed meanwhile is cut without it."""

    def __init__(self, disk: Disk, path: str, plan: CutPlan) -> None:
        super().__init__(disk, path)
        self.plan = plan

    def _work(self) -> None:
        with suppress(ReadOvertaken):
            self.plan.run()


class MoveAway(Job):
    """Give the directory of a partition another name, under which it is nobody's."""

    def __init__(self, disk: Disk, path: str, new_path: str) -> None:
        super().__init__(disk, path)
        self.new_path = new_path

    def _work(self) -> None:
        self._disk.rename(self.path, self.new_path)
        self._disk.fsync_dir(parent(self.path))


class Discard(Job):
    """Let go of segments that nobody reads any more; unlink their files, or the whole directory that they are in."""

    def __init__(self, disk: Disk, path: str, segments: Sequence[Segment], extent: Extent) -> None:
        super().__init__(disk, path)
        self._segments = segments
        self._extent = extent

    def _work(self) -> None:
        for segment in self._segments:
            if self._extent is Extent.SEGMENTS:
                segment.unlink_deleted()
            else:
                segment.close()
        if self._extent is Extent.DIRECTORY and self._disk.exists(self.path):
            _remove(self._disk, self.path)


def _remove(disk: Disk, path: str) -> None:
    """Unlink all there is below a path; a symbolic link goes, what it leads to stays."""
    if not disk.is_dir(path):
        disk.unlink(path)
        return
    for name in disk.list(path):
        _remove(disk, join(path, name))
    disk.rmdir(path)
