"""What goes wrong with a log directory: bad checkpoints, a disk that fails at any step, power that is cut at any step.

One rule above all: while the clean marker is there, everything else is there too.
"""

import errno
from collections.abc import Callable
from random import Random

import pytest

from minikafka.storage.checkpoints import Partition
from minikafka.storage.disk import join
from minikafka.storage.errors import StorageError
from minikafka.storage.formats import (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
)
from minikafka.storage.log_dir import LogDir
from tests.sim.memory_disk import Fault, MemoryDisk
from tests.storage.dirs import (
    IDENTITY,
    ROOT,
    checkpoint,
    created,
    discard,
    is_marked_clean,
    read_file,
    start,
    write_file,
)
from tests.storage.logs import NOW_MS, SMALL, append, contents, drop_below, flush

ORDERS = ("orders", 0)
OTHERS = ("orders", 1)
CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT)


class Story:
    """A directory's life, and what must be left of it at any moment."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.appended: dict[Partition, list[bytes]] = {}
        self.synced: dict[Partition, int] = {}
        self.log_dir: LogDir | None = None

    def begin(self) -> None:
        self.log_dir = start(self.disk)

    @property
    def here(self) -> LogDir:
        assert self.log_dir is not None
        return self.log_dir

    def create(self, partition: Partition) -> None:
        created(self.here, partition)
        self.appended[partition], self.synced[partition] = [], 0

    def append(self, partition: Partition, count: int) -> None:
        for _ in range(count):
            value = b"%d" % len(self.appended[partition])
            # Who is cut off in the middle of it does not know whether it was written.
            self.appended[partition].append(value)
            append(self.here.logs[partition], value)

    def flush(self, partition: Partition) -> None:
        log = self.here.logs[partition]
        flush(log)
        self.synced[partition] = log.log_end_offset

    def end(self) -> None:
        self.here.close()
        self.synced = {partition: len(values) for partition, values in self.appended.items()}

    def check(self, disk: MemoryDisk, *, goes_on: bool = True) -> None:
        """Start on a disk that was left behind at this moment, and look whether that is all right."""
        was_marked = is_marked_clean(disk) if disk.exists(ROOT) else False
        log_dir = start(disk)
        assert not log_dir.corrupt and not log_dir.is_offline
        assert log_dir.was_clean == was_marked
        for partition, values in self.appended.items():
            kept = contents(log_dir.logs[partition])
            assert kept == [*enumerate(values)][: len(kept)]
            assert len(kept) >= self.synced[partition]
            assert not was_marked or len(kept) == len(values)
        if goes_on:
            check_going_on(disk, log_dir)


def check_going_on(disk: MemoryDisk, log_dir: LogDir) -> None:
    """From there on there are clean stops and clean starts."""
    sizes = {}
    for partition, log in log_dir.logs.items():
        append(log, b"more")
        sizes[partition] = len(contents(log))
    log_dir.close()
    again = start(disk)
    assert again.was_clean
    assert {partition: len(contents(log)) for partition, log in again.logs.items()} == sizes


def tell(story: Story) -> None:
    """From the first start to the third stop; several segments, some synced, some not."""
    story.begin()
    for partition in (ORDERS, OTHERS):
        story.create(partition)
        story.append(partition, 12)
    story.flush(ORDERS)
    checkpoint(story.here)
    story.append(ORDERS, 14)
    story.end()
    story.begin()
    story.append(ORDERS, 3)
    story.flush(OTHERS)
    story.append(OTHERS, 14)
    story.end()
    story.begin()
    story.end()


# ---------------------------------------------------------------------------------------- bad checkpoints

BAD: dict[str, Callable[[bytes], bytes | None]] = {
    "empty": lambda data: b"",
    "missing": lambda data: None,
    "no newline at the end": lambda data: data[:-1],
    "half": lambda data: data[: len(data) // 2],
    "garbage": lambda data: bytes(range(256)),
    "zeros": lambda data: bytes(len(data)),
    "version": lambda data: b"1" + data[1:],
    "count": lambda data: data[:2] + b"9" + data[3:],
    "negative": lambda data: data.replace(b" 30\n", b" -3\n"),
    "huge": lambda data: data.replace(b" 30\n", b" 99999999999999999999999\n"),
    "high": lambda data: data.replace(b" 30\n", b" 9223372036854775807\n"),
    "foreign": lambda data: b"0\n2\n../../etc 0 7\n- -5 7\n",
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("is_clean", [False, True])
def test_no_checkpoint_however_bad_is_an_error(kind: str, is_clean: bool) -> None:
    for name in CHECKPOINTS:
        disk = MemoryDisk()
        log_dir = start(disk)
        for partition in (ORDERS, OTHERS):
            log = created(log_dir, partition)
            for number in range(30):
                append(log, b"%d" % number)
            flush(log)
            log.update_high_watermark(30)
        drop_below(log_dir.logs[OTHERS], 30)
        log_dir.checkpoints.first_dirty[ORDERS] = 30
        checkpoint(log_dir)
        if is_clean:
            log_dir.close()
        disk.process_died()
        data = BAD[kind](read_file(disk, join(ROOT, name)))
        if data is None:
            disk.unlink(join(ROOT, name))
        else:
            write_file(disk, join(ROOT, name), data)
        log_dir = start(disk)
        assert not log_dir.corrupt and not log_dir.is_offline
        log = log_dir.logs[ORDERS]
        assert log.log_end_offset == log_dir.logs[OTHERS].log_end_offset == 30
        if not (name == LOG_START_CHECKPOINT and kind == "high"):
            assert len(contents(log)) == 30
        if is_clean:
            assert log.recovery_point == 30
        assert 0 <= log.recovery_point <= 30 and 0 <= log.high_watermark <= 30
        append(log, b"more")
        log_dir.close()
        # Whatever it was, it is good now.
        again = start(disk)
        assert again.was_clean and not again.notes and not again.corrupt
        assert {*again.checkpoints.recovery_points.offsets} == {ORDERS, OTHERS}


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"brokerEpoch":"x"}', bytes(5000), b"\x00"])
def test_a_marker_that_nobody_wrote_does_not_count(data: bytes) -> None:
    disk = MemoryDisk()
    created(start(disk), ORDERS)
    disk.process_died()
    write_file(disk, join(ROOT, ".kafka_cleanshutdown"), data)
    log_dir = start(disk)
    assert not log_dir.was_clean and log_dir.notes
    log_dir.close()
    assert start(disk).was_clean


def test_the_empty_marker_of_an_older_kafka_counts() -> None:
    disk = MemoryDisk()
    start(disk).close()
    write_file(disk, join(ROOT, ".kafka_cleanshutdown"), b"")
    assert start(disk).was_clean


# ---------------------------------------------------------------------------------------- a disk that fails


def fault_points(act: Callable[[Story], None], prepare: Callable[[Story], None]) -> range:
    """The operations of an act, counted from one."""
    story = Story(MemoryDisk())
    prepare(story)
    before = story.disk.op_count
    act(story)
    return range(1, story.disk.op_count - before + 1)


def prepared(story: Story) -> None:
    story.begin()
    for partition in (ORDERS, OTHERS):
        story.create(partition)
        story.append(partition, 14)
    story.flush(ORDERS)
    story.here.do(story.here.delete(OTHERS, NOW_MS))
    del story.appended[OTHERS], story.synced[OTHERS]


def prepared_and_stopped(story: Story) -> None:
    prepared(story)
    story.end()


def prepared_and_killed(story: Story) -> None:
    prepared(story)
    story.disk.process_died()


def keep_house(story: Story) -> None:
    checkpoint(story.here)
    discard(story.here, NOW_MS + SMALL.file_delete_delay_ms)
    created(story.here, OTHERS)
    story.here.do(story.here.delete(OTHERS, NOW_MS))
    created(story.here, OTHERS)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize(
    ("prepare", "act"),
    [
        (prepared_and_stopped, Story.begin),
        (prepared_and_killed, Story.begin),
        (prepared, Story.end),
        (prepared, keep_house),
    ],
)
def test_a_disk_that_fails_at_any_step(
    number: int, prepare: Callable[[Story], None], act: Callable[[Story], None]
) -> None:
    failed = 0
    for nth in fault_points(act, prepare):
        story = Story(MemoryDisk())
        prepare(story)
        story.disk.fail(nth, number, written=nth % 3)
        log_dir = LogDir(story.disk, ROOT) if story.log_dir is None or act is Story.begin else story.here
        try:
            if act is Story.begin:
                log_dir.open(IDENTITY, NOW_MS)
                log_dir.load_all(lambda topic: SMALL, NOW_MS)
            else:
                act(story)
        except StorageError as error:
            failed += 1
            assert log_dir.is_offline and str(log_dir.failure) in str(error)
            ops = story.disk.op_count
            log_dir.close()
            # Not even a lock is left, and nothing was written.
            assert story.disk.op_count == ops
        story.disk.heal()
        story.disk.process_died()
        story.check(story.disk)
    assert failed > 20


def test_a_failed_directory_can_be_opened_by_the_next_process() -> None:
    disk = MemoryDisk()
    start(disk).close()
    log_dir = LogDir(disk, ROOT)
    disk.fail(lambda op: op.kind == "list")
    with pytest.raises(StorageError):
        log_dir.open(IDENTITY, NOW_MS)
    log_dir.close()
    assert not is_marked_clean(disk)
    assert not start(disk).is_offline


# ---------------------------------------------------------------------------------------- power cuts


LOOKING = {"exists", "is_dir", "list", "read", "size", "file_size"}


class WatchedDisk(MemoryDisk):
    """Calls somebody after every operation that may have changed something."""

    watcher: Callable[[], None] | None = None

    def record(self, kind: str, path: str, position: int = 0, size: int = 0) -> Fault | None:
        if self.watcher is not None and self.ops and self.ops[-1].kind not in LOOKING:
            self.watcher()
        return super().record(kind, path, position, size)


def test_power_is_cut_or_the_process_killed_at_any_step() -> None:
    disk = WatchedDisk()
    story = Story(disk)
    rng = Random(1)
    checked = marked = 0

    def check() -> None:
        nonlocal checked, marked
        # The least that may be left; all of it, which is what kill -9 leaves; and something between.
        for image in disk.power_cut_images(rng, 3):
            checked += 1
            marked += image.exists(ROOT) and is_marked_clean(image)
            story.check(image, goes_on=checked % 5 == 0)

    disk.watcher = check
    tell(story)
    check()
    assert checked > 500 and marked > 20
