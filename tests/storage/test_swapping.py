"""A cleaned segment takes the place of old ones step by step: what readers see, what may happen in between."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from minikafka.storage.compaction import Compaction
from minikafka.storage.errors import StorageError
from minikafka.storage.log import Log
from minikafka.storage.retention import expire
from minikafka.storage.swapping import Swap
from minikafka.storage.trimming import retire_below_log_start, truncate_fully, truncate_to
from tests.sim.memory_disk import MemoryDisk
from tests.storage.compacting import all_records, cleaned_groups, compact, latest, pairs, put, small_segments
from tests.storage.logs import NOW_MS, flush, open_log

DIRECTORY = "t-0"
CONFIG = small_segments(segment_bytes=700)
STEPS = 3


class Desk:
    """A log of many segments, and what came of cleaning it."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.log: Log = open_log(self.disk, DIRECTORY, small_segments(segment_bytes=300))
        for number in range(30):
            put(self.log, (b"k%02d" % (number % 5), b"%02d" % number), timestamp_ms=NOW_MS + number)
        flush(self.log)
        self.disk.settle()
        # All files are open only if somebody reads; a start is the worst case for who reads meanwhile.
        self.disk.process_died()
        self.log = open_log(self.disk, DIRECTORY, CONFIG, recovery_point=30)
        self.log.update_high_watermark(30)
        self.compaction: Compaction
        self.compaction, self.groups = cleaned_groups(self.log, None)
        assert len(self.groups) > 1 and len(self.groups[0].old) > 1

    def begin(self, steps: int = 0) -> Swap:
        swap = self.compaction.begin(self.groups[0])
        assert swap is not None
        for _ in range(steps):
            assert swap.advance()
            swap.sync()
        return swap

    def names(self, *suffixes: str) -> list[str]:
        return [name for name in self.disk.list(DIRECTORY) if name.endswith(suffixes)]

    def syncs(self) -> int:
        return len([op for op in self.disk.ops if op.kind in ("sync", "flush", "fsync_dir")])


def test_a_step_waits_for_nothing() -> None:
    desk = Desk()
    before = desk.syncs()
    swap = desk.begin()
    while swap.advance():
        pass
    assert desk.syncs() == before
    assert desk.log.swap is None


@pytest.mark.parametrize("steps", range(STEPS))
def test_readers_see_the_old_segments_until_the_last_step(steps: int) -> None:
    desk = Desk()
    whole, before = latest(all_records(desk.log)), pairs(desk.log)
    desk = Desk()
    swap = desk.begin(steps)
    assert pairs(desk.log) == before
    swap.complete()
    assert len(pairs(desk.log)) < len(before)
    assert latest(all_records(desk.log)) == whole
    assert not desk.names(".swap")


@pytest.mark.parametrize("steps", range(STEPS + 1))
@pytest.mark.parametrize(
    "cut", [lambda log: truncate_to(log, 12, NOW_MS), lambda log: truncate_fully(log, 100)], ids=["to", "fully"]
)
def test_a_log_that_is_cut_has_the_exchange_behind_it(cut: Callable[[Log], object], steps: int) -> None:
    desk = Desk()
    swap = desk.begin(steps)
    cut(desk.log)
    assert desk.log.swap is None
    left = pairs(desk.log)
    # The thread that synced comes back.
    assert not swap.advance()
    assert not desk.compaction.apply(desk.groups[1])
    for disk in (desk.disk, *desk.disk.power_cut_images(Random(1), 8)):
        disk.process_died()
        assert pairs(open_log(disk, DIRECTORY, CONFIG)) == left


@pytest.mark.parametrize("steps", range(STEPS))
def test_retention_waits_for_the_exchange(steps: int) -> None:
    desk = Desk()
    desk.log.reconfigure(CONFIG._replace(cleanup_delete=True, retention_ms=0))
    swap = desk.begin(steps)
    assert not expire(desk.log, NOW_MS + 10**9)
    desk.log.log_start_offset = 25
    assert retire_below_log_start(desk.log) == []
    swap.complete()
    assert retire_below_log_start(desk.log)
    assert expire(desk.log, NOW_MS + 10**9)


@pytest.mark.parametrize("steps", range(STEPS))
def test_a_log_is_closed_with_the_exchange_behind_it(steps: int) -> None:
    desk = Desk()
    desk.begin(steps)
    desk.log.close()
    assert not desk.names(".swap")
    again = open_log(desk.disk, DIRECTORY, CONFIG, is_clean=True)
    assert latest(all_records(again)) == {b"k%02d" % key: b"%02d" % (25 + key) for key in range(5)}


@pytest.mark.parametrize("steps", range(STEPS + 1))
def test_a_crash_between_two_steps(steps: int) -> None:
    desk = Desk()
    desk.begin(steps)
    for image in desk.disk.power_cut_images(Random(steps), 20):
        again = open_log(image, DIRECTORY, CONFIG, recovery_point=30)
        assert latest(all_records(again)) == {b"k%02d" % key: b"%02d" % (25 + key) for key in range(5)}


def test_a_step_that_fails() -> None:
    desk = Desk()
    swap = desk.begin(1)
    desk.disk.fail(lambda op: op.kind == "rename")
    with pytest.raises(StorageError):
        swap.advance()
    with pytest.raises(StorageError):
        swap.complete()
    desk = Desk()
    swap = desk.begin()
    swap.advance()
    desk.disk.fail(lambda op: op.kind == "fsync_dir")
    with pytest.raises(StorageError):
        swap.sync()


def test_discard_of_a_segment_leaves_a_later_one_of_its_name() -> None:
    """Compacted twice within `file.delete.delay.ms`: both old segments begin at 0, and readers may need the second."""
    disk = MemoryDisk()
    log = open_log(disk, DIRECTORY, CONFIG._replace(segment_bytes=10_000))

    def fill() -> None:
        for number in range(20):
            put(log, (b"k%d" % (number % 5), b"%d" % number))
        log.roll()

    fill()
    first_dirty_offset = compact(log)
    earlier, log.retired = log.retired, []
    fill()
    compaction, groups = cleaned_groups(log, first_dirty_offset)
    swap = compaction.begin(groups[0])
    assert swap is not None
    for _ in range(STEPS - 1):
        swap.advance()
        swap.sync()
    before = latest(all_records(log))
    for segment in log.segments:
        # As after a start, when files are opened for whoever reads first.
        if segment.is_sealed:
            segment.close()
    for segment in earlier:
        segment.unlink_deleted()
    assert latest(all_records(log)) == before
    swap.complete()
    for segment in log.retired:
        segment.unlink_deleted()
    assert latest(all_records(log)) == before
    assert not [name for name in disk.list(DIRECTORY) if name.endswith(".deleted")]
