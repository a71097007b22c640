"""One log directory: the partitions in it, and the files beside them that say how far each one is.

    .lock                    held while a process uses the directory
    meta.properties          whose it is
    .kafka_cleanshutdown     there only while it is stopped, and only if it was stopped in good order
    *-checkpoint             how far the partitions are; see `checkpoints`
    <topic>-<partition>/     a log; with `.<unique>-delete` or `-stray` after the name it is nobody's any more

The clean marker says that every log here is whole and on disk, so that nothing has to be read through.  Therefore it is
the last thing to be written, and the first to be taken away, for good, before anything else is touched.  A log that
could not be loaded is not known to be whole: as long as one is there, there is no marker.

A partition whose files are bad is kept apart and does no harm to the others.  When the disk itself fails, the whole
directory goes offline and stays so until the next start: nothing more is written, the marker least of all.

Whatever waits for the disk is a job (`dir_jobs`), save starting and stopping, which have the directory to themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeAlias, TypeVar

from minikafka.storage.checkpoints import Checkpoints, Partition, Rewrite
from minikafka.storage.config import INT64_MAX, LogConfig
from minikafka.storage.dir_identity import Identity, NotOurs, claim
from minikafka.storage.dir_jobs import CreateLog, Discard, Extent, Job, MoveAway, PrepareCut, WriteFiles
from minikafka.storage.dir_opening import (
    checked_dir_name,
    last_written_ms,
    look_through,
    make_dir,
    read_topic_id,
    take_clean_marker,
)
from minikafka.storage.disk import Disk, Lock, join
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.formats import (
    CLEAN_SHUTDOWN_FILE,
    LOCK_FILE,
    PARTITION_METADATA_FILE,
    delete_dir,
    encode_clean_shutdown,
    encode_partition_metadata,
    parse_partition_dir,
    partition_dir,
    stray_dir,
)
from minikafka.storage.loading import LoadedState, load_log
from minikafka.storage.log import Log
from minikafka.storage.segment import Segment
from minikafka.storage.small_files import replace_file
from minikafka.storage.trimming import end_after_cut, plan_cut

_J = TypeVar("_J", bound=Job)

RunAll: TypeAlias = Callable[[Sequence[Callable[[], None]]], None]
"""Makes some calls, at the same time or not; when it returns all have ended, and if one raised, so does it."""


def run_in_turn(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()


_DISCARD_DELAY_MIN_MS = 1000
"""Whatever is configured: a thread may be in the middle of reading or syncing a file, and must not find it closed."""


class _Discarded(NamedTuple):
    """What is to go, and when."""

    due_ms: int
    path: str
    segments: list[Segment]
    extent: Extent


class LogDir:
    """See the module's description; `open` and `load_all` come first, `close` last."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.disk = disk
        self.path = disk.resolve(path)
        self.logs: dict[Partition, Log] = {}
        self.topic_ids: dict[Partition, bytes] = {}
        """Of partitions that have one; those that Kafka made before version 2.8 do not."""
        self.corrupt: dict[Partition, CorruptLog] = {}
        """Partitions that are here but cannot be used: to be moved away, and then fetched from another broker."""
        self.unloaded: dict[Partition, None] = {}
        self.creating: set[Partition] = set()
        self.was_clean, self.clean_epoch = False, -1
        """The broker epoch as which it was stopped in good order; -1 if it was not, or if that is not known."""
        self.is_new = False  # It belonged to nobody before this start, so what the broker had is not here.
        self.failure: str | None = None
        """Why the directory is offline; None if it is not."""
        self.notes: list[str] = []
        """What an operator should be told of the start."""
        self.checkpoints = Checkpoints(disk, self.path)
        self.last_written_ms: int | None = None
        """By the broker that had the directory before."""
        self._lock: Lock | None = None
        self._is_open = False
        self._discarded: list[_Discarded] = []
        self._moved_count = 0
        self._unfinished_count = 0

    # ------------------------------------------------------------------------------------- starting

    def open(self, identity: Identity, now_ms: int) -> None:
        """Take possession, load nothing yet; NotOurs if it is somebody else's, StorageError if the disk fails."""
        self.acquire(identity, now_ms)
        self.look_through(now_ms)

    def acquire(self, identity: Identity, now_ms: int) -> None:
        """The first half of opening, after which the directory is surely ours and still as it was."""
        assert self._lock is None
        with self._failing("be opened"):
            make_dir(self.disk, self.path)
            try:
                self._lock = self.disk.lock(join(self.path, LOCK_FILE))
            except BlockingIOError:
                raise NotOurs(f"{self.path} is in use by another process, which has a lock on {LOCK_FILE}") from None
            self.is_new = claim(self.disk, self.path, identity, now_ms)

    def look_through(self, now_ms: int) -> None:
        """The second half: from here on the directory does not count as clean until it is closed."""
        assert self._lock is not None
        with self._failing("be opened"):
            self.last_written_ms = last_written_ms(self.disk, self.path)
            clean_epoch = take_clean_marker(self.disk, self.path, self.notes)
            self.was_clean, self.clean_epoch = clean_epoch is not None, -1 if clean_epoch is None else clean_epoch
            self.notes += self.checkpoints.read()
            found = look_through(self.disk, self.path)
        self.notes += found.notes
        self.unloaded = dict.fromkeys(found.partitions)
        self._discarded = [_Discarded(now_ms, path, [], Extent.DIRECTORY) for path in found.to_delete]
        self._is_open = True

    def load_all(self, config_for: Callable[[str], LogConfig], now_ms: int) -> None:
        """Load every partition, with the configuration of its topic; those that are bad go to `corrupt`."""
        for _ in self.loading(config_for, now_ms):
            pass

    def loading(self, config_for: Callable[[str], LogConfig], now_ms: int) -> Iterator[Partition]:
        """The same one partition at a time, since recovery takes long and somebody may want to stop in between."""
        for partition in [*self.unloaded]:
            with self._failing("be loaded"):
                self._load(partition, config_for(partition[0]), now_ms)
            del self.unloaded[partition]
            yield partition
        job = self.after_truncation(self.logs)
        if job is not None:
            self.do(job)

    def _load(self, partition: Partition, config: LogConfig, now_ms: int) -> None:
        directory = join(self.path, partition_dir(*partition))
        recovery_point = self.checkpoints.recovery_points.offsets.get(partition, 0)
        state = LoadedState(
            is_clean=self.was_clean,
            # After a clean stop everything is on disk, whatever a checkpoint says that may have got lost.
            recovery_point=INT64_MAX if self.was_clean else recovery_point,
            log_start_offset=self.checkpoints.log_starts.offsets.get(partition, 0),
            was_compacted=partition in self.checkpoints.first_dirty,
        )
        try:
            if not self.disk.is_dir(directory):
                raise CorruptLog(directory, 0, "not a directory")
            topic_id = read_topic_id(self.disk, directory)
            log = load_log(self.disk, directory, config, state, now_ms)
        except CorruptLog as error:
            self.corrupt[partition] = error
            if self.was_clean:
                # All of it was on disk, which the next start, without a marker, must not take for a torn end.
                self.checkpoints.recovery_points.assume(partition, INT64_MAX)
            return
        log.update_high_watermark(self.checkpoints.high_watermarks.offsets.get(partition, 0))
        self.logs[partition] = log
        if topic_id is not None:
            self.topic_ids[partition] = topic_id

    # ------------------------------------------------------------------------------------- stopping

    def close(self, broker_epoch: int = -1, run_all: RunAll = run_in_turn) -> None:
        """Stop in good order: no job, flush or read is under way any more; StorageError if the disk fails.

        Logs can be closed at the same time, on different threads.
        """
        assert not self._unfinished_count or self.is_offline
        try:
            if self._is_open and not self.is_offline:
                with self._failing("be closed"):
                    self._stop(broker_epoch, run_all)
        finally:
            self._let_go()

    def _stop(self, broker_epoch: int, run_all: RunAll) -> None:
        run_all([log.close for log in self.logs.values()])
        for rewrite in self._rewrites():
            rewrite.run(self.disk)
        # What was clean before the start and has not been touched since is clean still.
        if not self.corrupt and (self.was_clean or not self.unloaded):
            replace_file(self.disk, join(self.path, CLEAN_SHUTDOWN_FILE), encode_clean_shutdown(broker_epoch))

    def _let_go(self) -> None:
        for log in self.logs.values():
            with suppress(OSError):
                for segment in (*log.segments, *log.retired):
                    segment.close()
        self._is_open = False
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    # ------------------------------------------------------------------------------------- failing

    @property
    def is_offline(self) -> bool:
        return self.failure is not None

    def fail(self, reason: str) -> None:
        """The disk is not to be trusted any more; there is no way back but another start."""
        self.failure = self.failure or reason

    def check_online(self) -> None:
        if self.failure is not None:
            raise StorageError(f"{self.path} is offline: {self.failure}")

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Go offline if the disk fails; trouble with one partition, or with the configuration, is only passed on."""
        try:
            yield
        except (CorruptLog, NotOurs):
            raise
        except StorageError as error:
            self.fail(str(error))
            raise
        except OSError as error:
            self.fail(f"{self.path} cannot {what}: {error}")
            raise StorageError(self.failure) from error

    # ------------------------------------------------------------------------------------- partitions

    def holds(self, log: Log) -> bool:
        """Whether a log is still one of this directory, and was not deleted in the meantime."""
        partition = parse_partition_dir(log.directory.removeprefix(self.path + "/"))
        return partition is not None and self.logs.get(partition) is log

    @property
    def partition_count(self) -> int:
        return len(self.logs) + len(self.corrupt) + len(self.unloaded) + len(self.creating)

    def create(self, partition: Partition, topic_id: bytes | None, config: LogConfig, now_ms: int) -> CreateLog:
        """Make a new log; it is in `logs` when the job is finished."""
        self.check_online()
        name = checked_dir_name(partition)
        assert partition not in self.logs and partition not in self.unloaded and partition not in self.creating
        if partition in self.corrupt:
            raise self.corrupt[partition]
        self.creating.add(partition)
        # Checkpoints may name a partition that was deleted, but not one that is about to be made in its place.
        rewrites = self._rewrites() if self.checkpoints.holds(partition) else []
        return self._begun(CreateLog(self.disk, join(self.path, name), partition, topic_id, config, now_ms, rewrites))

    def delete(self, partition: Partition, now_ms: int) -> MoveAway:
        """Take a partition out of use at once; its files go when surely nobody is reading them any more."""
        return self._move_away(partition, delete_dir, Extent.DIRECTORY, now_ms)

    def set_aside(self, partition: Partition, now_ms: int) -> MoveAway:
        """Take a partition out of use, and keep its files for somebody to look at."""
        return self._move_away(partition, stray_dir, Extent.NOTHING, now_ms)

    def _move_away(
        self, partition: Partition, marked: Callable[[str, int, str], str], extent: Extent, now_ms: int
    ) -> MoveAway:
        self.check_online()
        assert partition in self.logs or partition in self.corrupt
        old, new = join(self.path, partition_dir(*partition)), self._unused_path(partition, marked, now_ms)
        log = self.logs.pop(partition, None)
        self.corrupt.pop(partition, None)
        self.topic_ids.pop(partition, None)
        # Segments that had left the log before go with the others.
        segments = [segment for each in self._discarded if each.path == old for segment in each.segments]
        self._discarded = [each for each in self._discarded if each.path != old]
        delay_ms = 0
        if log is not None:
            segments += [*log.segments, *log.retired]
            delay_ms = _delay_ms(log)
        self._discarded.append(_Discarded(now_ms + delay_ms, new, segments, extent))
        return self._begun(MoveAway(self.disk, old, new))

    def _unused_path(self, partition: Partition, marked: Callable[[str, int, str], str], now_ms: int) -> str:
        """The count tells two within a millisecond apart; and the clock may have been set back."""
        with self._failing("be read"):
            while True:
                self._moved_count += 1
                unique = f"{now_ms & 2**64 - 1:016x}{self._moved_count:016x}"
                path = join(self.path, marked(*partition, unique))
                if not self.disk.exists(path):
                    return path

    def assign_topic_id(self, partition: Partition, topic_id: bytes) -> WriteFiles:
        """Give an id to a partition that has none."""
        self.check_online()
        assert partition in self.logs and partition not in self.topic_ids
        self.topic_ids[partition] = topic_id
        path = join(self.path, partition_dir(*partition), PARTITION_METADATA_FILE)
        rewrite = Rewrite(path, lambda: encode_partition_metadata(topic_id))
        return self._begun(WriteFiles(self.disk, self.path, [rewrite]))

    # ------------------------------------------------------------------------------------- upkeep

    def checkpoint(self) -> WriteFiles | None:
        """Write down how far the logs are; None if nothing has changed."""
        self.check_online()
        return self._written(self._rewrites())

    def checkpoint_high_watermarks(self) -> WriteFiles | None:
        """Write down the high watermarks only; None if none has changed."""
        self.check_online()
        return self._written(self.checkpoints.rewrite_high_watermarks(self.logs, {*self.unloaded, *self.corrupt}))

    def _written(self, rewrites: list[Rewrite]) -> WriteFiles | None:
        return self._begun(WriteFiles(self.disk, self.path, rewrites)) if rewrites else None

    def before_truncation(self, cuts: Mapping[Partition, int]) -> WriteFiles | None:
        """What has to be done before logs are cut at these offsets, one write for all of them.

        A recovery point beyond the end of a log means that synced batches are gone. If power is cut between the cut and
        the checkpoint, the next start must not find one.
        """
        self.check_online()
        for partition, offset in cuts.items():
            log = self.logs[partition]
            log.recovery_point = min(log.recovery_point, end_after_cut(log, offset))
        return self.after_truncation(cuts)

    def prepare_cut(self, partition: Partition, offset: int, now_ms: int) -> PrepareCut | None:
        """What takes long about cutting a log at an offset, for a thread; None if there is nothing to cut."""
        self.check_online()
        plan = plan_cut(self.logs[partition], offset, now_ms)
        return None if plan is None else self._begun(PrepareCut(self.disk, self.logs[partition].directory, plan))

    def after_truncation(self, partitions: Iterable[Partition]) -> WriteFiles | None:
        """What has to be done after logs were cut, and before anything is appended to them again."""
        self.check_online()
        is_ahead = any(self.checkpoints.is_ahead(partition, self.logs[partition]) for partition in partitions)
        return self.checkpoint() if is_ahead else None

    def _rewrites(self) -> list[Rewrite]:
        return self.checkpoints.rewrite(self.logs, {*self.unloaded, *self.corrupt})

    def discards(self, now_ms: int) -> list[Discard]:
        """Let go of what nobody can be reading any more; retired segments are noted, and due some time later."""
        self.check_online()
        for log in self.logs.values():
            if log.retired:
                due_ms = now_ms + _delay_ms(log)
                self._discarded.append(_Discarded(due_ms, log.directory, log.retired, Extent.SEGMENTS))
                log.retired = []
        due = [each for each in self._discarded if each.due_ms <= now_ms]
        if due:
            self._discarded = [each for each in self._discarded if each.due_ms > now_ms]
        return [self._begun(Discard(self.disk, each.path, each.segments, each.extent)) for each in due]

    # ------------------------------------------------------------------------------------- jobs

    def _begun(self, job: _J) -> _J:
        self._unfinished_count += 1
        return job

    def finish(self, job: Job) -> None:
        """Take over what a job did; StorageError if it failed, and then the directory is offline."""
        assert job.is_done
        self._unfinished_count -= 1
        if isinstance(job, CreateLog):
            self.creating.discard(job.partition)
        if isinstance(job.failure, CorruptLog) and isinstance(job, CreateLog):
            self.corrupt[job.partition] = job.failure
        with self._failing("be written"):
            if job.failure is not None:
                raise job.failure
        self.check_online()
        if isinstance(job, CreateLog):
            assert job.log is not None
            self.logs[job.partition] = job.log
            if job.topic_id is not None:
                self.topic_ids[job.partition] = job.topic_id

    def do(self, job: Job) -> None:
        """Run and finish a job on the spot; no other may be under way."""
        assert self._unfinished_count == 1
        job.run()
        self.finish(job)


def _delay_ms(log: Log) -> int:
    return max(_DISCARD_DELAY_MIN_MS, log.config.file_delete_delay_ms)
