"""When a log is cleaned, in which pieces, and how what was cleaned takes the place of what was there."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path

import pytest

from minikafka.protocol.records.batch import BatchView
from minikafka.storage.cleaning import (
    CompactionPlan,
    CompactionStopped,
    SegmentSpan,
    Uncleanable,
    clean,
    group_segments,
)
from minikafka.storage.compaction import Compaction, Dirt, measure_dirt, plan_compaction
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import RealDisk
from minikafka.storage.errors import CorruptLog, StorageError
from minikafka.storage.log import Log
from minikafka.storage.trimming import truncate_fully, truncate_to
from tests.sim.memory_disk import MemoryDisk, Op
from tests.storage.batches import make_batch
from tests.storage.compacting import (
    COMPACTED,
    all_records,
    cleaned_groups,
    compact,
    latest,
    pairs,
    plan_of,
    put,
    put_in_txn,
    small_segments,
)
from tests.storage.logs import NOW_MS, batches_from, drop_below, flush, open_log

DIRECTORY = "t-0"
ONE_EACH = small_segments(segment_bytes=100)
"""A segment for each batch of one record."""


def filled(count: int = 20, keys: int = 5, config: LogConfig = ONE_EACH, disk: MemoryDisk | None = None) -> Log:
    log = open_log(disk or MemoryDisk(), DIRECTORY, config)
    for number in range(count):
        put(log, (b"k%02d" % (number % keys), b"%02d" % number), timestamp_ms=NOW_MS + number)
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def names(disk: MemoryDisk, *suffixes: str) -> list[str]:
    return [name for name in disk.list(DIRECTORY) if name.endswith(suffixes)]


# ----------------------------------------------------------------------------------------- when


def test_how_dirty_a_log_is() -> None:
    log = filled()
    one = log.segments.first.size
    assert measure_dirt(log, None, NOW_MS) == Dirt(0, 19, 0, 19 * one, True)
    dirt = measure_dirt(log, 5, NOW_MS)
    assert dirt == Dirt(5, 19, 5 * one, 14 * one, True)
    assert dirt.ratio == 14 / 19
    assert not measure_dirt(log, 19, NOW_MS).dirty_bytes
    assert not measure_dirt(log, 20, NOW_MS).is_due


def test_a_log_is_due_when_enough_of_it_is_dirty() -> None:
    log = filled(9, config=ONE_EACH._replace(min_cleanable_dirty_ratio=0.5))
    # All segments have the same size, and the active one does not count.
    assert measure_dirt(log, 3, NOW_MS).is_due
    assert not measure_dirt(log, 4, NOW_MS).is_due
    assert not measure_dirt(log, 8, NOW_MS).is_due
    assert not measure_dirt(open_log(MemoryDisk(), DIRECTORY, COMPACTED), None, NOW_MS).is_due


def test_a_log_is_due_when_a_record_has_waited_for_long() -> None:
    log = filled(9, config=ONE_EACH._replace(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000))
    assert not measure_dirt(log, 4, NOW_MS + 4 + 1000).is_due
    assert measure_dirt(log, 4, NOW_MS + 4 + 1001).is_due
    # Not for what cannot be cleaned yet.
    assert not measure_dirt(log, 8, NOW_MS + 100_000).is_due


def test_young_records_are_left_alone() -> None:
    log = filled(9, config=ONE_EACH._replace(min_compaction_lag_ms=1000))
    assert measure_dirt(log, None, NOW_MS + 999).end_offset == 0
    assert measure_dirt(log, None, NOW_MS + 1000).end_offset == 1
    assert measure_dirt(log, None, NOW_MS + 1003).end_offset == 4
    assert measure_dirt(log, 2, NOW_MS).end_offset == 2
    assert measure_dirt(log, None, NOW_MS + 5000).end_offset == 8
    log.high_watermark = 3
    assert measure_dirt(log, None, NOW_MS + 1005).end_offset == 3
    assert measure_dirt(log, 5, NOW_MS).end_offset == 5


def test_nothing_from_the_last_stable_offset_on_is_cleaned() -> None:
    log = filled(9)
    log.high_watermark = 4
    assert measure_dirt(log, None, NOW_MS).end_offset == 4
    log = filled(5)
    put_in_txn(log, 7, 0, (b"a", b"1"))
    put(log, (b"a", b"1"))
    put(log, (b"a", b"1"))
    assert measure_dirt(log, None, NOW_MS).end_offset == 5
    # A segment that holds any of it is not cleaned at all.
    log = filled(9, config=small_segments(segment_bytes=300))
    assert bases(log)[:3] == [0, 4, 8]
    log.high_watermark = 7
    assert measure_dirt(log, None, NOW_MS).end_offset == 4


@pytest.mark.parametrize("first_dirty_offset", [-1, 2, 21])
def test_a_checkpoint_that_cannot_be(first_dirty_offset: int) -> None:
    log = filled()
    drop_below(log, 3)
    assert measure_dirt(log, first_dirty_offset, NOW_MS).first_dirty_offset == 3


def test_no_plan_for_a_clean_log() -> None:
    log = filled()
    assert plan_compaction(log, measure_dirt(log, 19, NOW_MS), NOW_MS) is None


def test_a_plan_can_be_sent_to_another_process() -> None:
    plan = plan_of(filled())
    assert pickle.loads(pickle.dumps(plan)) == plan


# ----------------------------------------------------------------------------------------- groups


def grouped(spans: list[SegmentSpan], end: int, segment_bytes: int = 1000) -> list[list[int]]:
    config = COMPACTED._replace(segment_bytes=segment_bytes)
    plan = CompactionPlan(DIRECTORY, config, 0, tuple(spans), 0, end, (), {}, NOW_MS)
    return [[span.base_offset for span in group] for group in group_segments(MemoryDisk(), plan, end)]


def test_segments_are_put_together_up_to_the_size_of_one() -> None:
    spans = [SegmentSpan(base, base + 10, size) for base, size in ((0, 400), (10, 600), (20, 1), (30, 1500), (40, 0))]
    assert grouped(spans, 50) == [[0, 10], [20], [30], [40]]
    assert grouped(spans, 40) == [[0, 10], [20], [30]]
    assert grouped(spans, 50, segment_bytes=4000) == [[0, 10, 20, 30, 40]]


def test_offsets_in_a_group_fit_into_an_index() -> None:
    far = 2**31
    spans = [
        SegmentSpan(0, 10, 1),
        SegmentSpan(10, far, 1),
        SegmentSpan(far, far + 1, 1),
        SegmentSpan(far + 1, far + 9, 0),
    ]
    assert grouped(spans, far + 9) == [[0, 10], [far, far + 1]]
    assert grouped([SegmentSpan(0, far + 5, 1), SegmentSpan(far + 5, far + 9, 0)], far + 9) == [[0, far + 5]]


def test_indexes_in_a_group_fit_into_one() -> None:
    disk = MemoryDisk()
    disk.mkdir(DIRECTORY)
    for base, size in ((0, 200), (10, 200), (20, 8)):
        file = disk.open(f"{DIRECTORY}/{base:020d}.index", create=True)
        file.append([bytes(size)])
    spans = tuple(SegmentSpan(base, base + 10, 1) for base in (0, 10, 20))
    plan = CompactionPlan(DIRECTORY, COMPACTED, 0, spans, 0, 30, (), {}, NOW_MS)
    assert [len(group) for group in group_segments(disk, plan, 30)] == [2, 1]


# ----------------------------------------------------------------------------------------- in place


def test_segments_become_fewer() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    before = latest(all_records(log))
    log.reconfigure(small_segments(segment_bytes=400))
    assert compact(log) == 19
    assert bases(log) == [0, 5, 10, 15, 19]
    assert [segment.size > 0 for segment in log.segments] == [False, False, True, True, True]
    assert latest(all_records(log)) == before
    # Snapshots are for the beginnings of segments.
    assert names(disk, ".snapshot") == [f"{base:020d}.snapshot" for base in (5, 10, 15, 19)]
    assert not names(disk, ".cleaned", ".swap")
    # And once more, with hardly anything left.
    compact(log, 0)
    assert bases(log) == [0, 19]
    assert latest(all_records(log)) == before


def test_indexes_of_a_cleaned_segment_find_everything() -> None:
    log = filled(60, keys=40, config=small_segments(segment_bytes=1000))
    compact(log)
    found = {record.offset for record in all_records(log)}
    for segment in log.segments:
        segment.load_indexes()
        assert segment.offset_index.count == segment.offset_index.size_bytes // 8
        assert segment.largest.timestamp == max((batch.max_timestamp for batch in segment.batches()), default=-1)
    assert any(segment.offset_index.count for segment in log.segments if segment.is_sealed)
    for offset in range(log.log_end_offset):
        first = batches_from(log, offset)[0]
        assert first.last_offset == min(each for each in found if each >= offset)


def test_readers_keep_what_they_had() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    plan = log.plan_read(0, 60, log.log_end_offset)
    before = bytes(plan.run())
    generation = log.generation
    compact(log)
    assert bytes(plan.run()) == before
    assert log.generation == generation
    for segment in log.retired:
        segment.unlink_deleted()
    assert not names(disk, ".deleted")


def test_on_a_real_disk(tmp_path: Path) -> None:
    log = open_log(RealDisk(), f"{tmp_path}/{DIRECTORY}", small_segments(segment_bytes=600))
    for number in range(100):
        put(log, (b"k%d" % (number % 9), b"%d" % number), (b"u%d" % number, None if number % 3 else b"x"))
    before = latest(all_records(log))
    end = compact(log)
    assert latest(all_records(log)) == before
    assert compact(log, end) == end
    flush(log)
    log.close()
    again = open_log(RealDisk(), f"{tmp_path}/{DIRECTORY}", is_clean=True, recovery_point=log.log_end_offset)
    assert latest(all_records(again)) == before
    assert again.log_end_offset == 200


def test_the_log_goes_on_while_it_is_cleaned() -> None:
    log = filled()
    compaction, groups = cleaned_groups(log, None)
    put(log, (b"k00", b"new"), (b"other", b"new"))
    assert all(compaction.apply(group) for group in groups)
    values = latest(all_records(log))
    assert values[b"k00"] == values[b"other"] == b"new"
    assert len(values) == 6


def test_groups_are_used_while_the_next_one_is_made() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    before = latest(all_records(log))
    plan = plan_of(log)
    made = clean(disk, plan)
    compaction = Compaction(log, plan)
    for number, group in enumerate(made):
        assert len(names(disk, ".log.cleaned")) == 1
        assert compaction.apply(group)
        assert not names(disk, ".cleaned")
        if number == 4:
            made.close()
    assert not names(disk, ".cleaned")
    assert latest(all_records(log)) == before


def test_a_log_that_was_changed_keeps_its_segments() -> None:
    for change in (
        lambda log: truncate_to(log, 12, NOW_MS),
        lambda log: truncate_fully(log, 100),
        lambda log: drop_below(log, 5),
    ):
        disk = MemoryDisk()
        log = filled(disk=disk)
        compaction, groups = cleaned_groups(log, None)
        change(log)
        before = pairs(log)
        assert [compaction.apply(group) for group in groups] == [False] * len(groups)
        assert compaction.is_outdated
        assert pairs(log) == before
        assert not names(disk, ".cleaned", ".swap")


def test_after_one_group_that_does_not_fit_none_is_used() -> None:
    log = filled(config=small_segments(segment_bytes=300))
    compaction, groups = cleaned_groups(log, None)
    assert len(groups) > 3
    assert compaction.apply(groups[0])
    # As if somebody had replaced the segment.
    replaced = groups[1]._replace(old=(groups[1].old[0]._replace(size=1),))
    assert not compaction.apply(replaced)
    assert not compaction.apply(groups[2])


def test_what_an_earlier_compaction_left_behind_goes() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    for name in ("00000000000000000000.log.cleaned", "00000000000000000000.txnindex.cleaned", "notes.cleaned"):
        disk.open(f"{DIRECTORY}/{name}", create=True).append([b"old"])
    compact(log)
    assert names(disk, ".cleaned") == ["notes.cleaned"]
    assert not names(disk, ".txnindex")


# ----------------------------------------------------------------------------------------- trouble


def test_a_segment_that_is_gone_stops_it() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    plan = plan_of(log)
    truncate_fully(log, 100)
    with pytest.raises(CompactionStopped):
        [*clean(disk, plan)]
    log = filled(disk=disk)
    plan = plan_of(log)._replace(segments=(SegmentSpan(100, 101, 10**6),))
    with pytest.raises(CompactionStopped):
        [*clean(disk, plan)]


def test_a_full_disk_stops_it_and_leaves_nothing() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    before = latest(all_records(log))
    for failing in ("append", "sync", "open"):

        def is_due(op: Op, kind: str = failing) -> bool:
            return op.kind == kind and op.path.endswith(".cleaned")

        disk.fail(is_due, errno.ENOSPC)
        with pytest.raises(CompactionStopped):
            compact(log)
        assert not names(disk, ".cleaned", ".swap")
    compact(log)
    assert latest(all_records(log)) == before


def test_any_failure_of_the_disk_is_reported() -> None:
    disk = MemoryDisk()
    log = filled(6, disk=disk)
    start = disk.op_count
    compact(log)
    count = disk.op_count - start
    for number in range(1, count + 1):
        disk = MemoryDisk()
        log = filled(6, disk=disk)
        disk.fail(number)
        with pytest.raises(StorageError):
            compact(log)


def test_a_batch_that_rotted() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    path = f"{DIRECTORY}/{3:020d}.log"
    data = bytes(disk.open(path).read(0, 1000))
    disk.unlink(path)
    disk.open(path, create=True).append([data[:-1] + b"?"])
    with pytest.raises(CorruptLog, match=r"3\.log at byte 0"):
        compact(log)
    assert not names(disk, ".cleaned")


@pytest.mark.parametrize("first_dirty_offset", [0, 1])
def test_records_that_are_none(first_dirty_offset: int) -> None:
    # Nobody looks at records before a topic is compacted.
    log = open_log(MemoryDisk(), DIRECTORY, ONE_EACH._replace(cleanup_compact=False))
    log.append_as_leader(BatchView(make_batch(1, payload=b"\x02\x00\x00")), 0, NOW_MS)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    with pytest.raises(Uncleanable, match="batch at offset 0"):
        compact(log, first_dirty_offset)


def test_deleted_records_stay_deleted() -> None:
    log = filled(keys=20)
    drop_below(log, 4)
    compact(log)
    assert [offset for offset, _, _ in pairs(log)] == [*range(4, 20)]


def test_failing_renames_are_the_directory_s_end() -> None:
    disk = MemoryDisk()
    log = filled(disk=disk)
    compaction, groups = cleaned_groups(log, None)

    def is_due(op: Op) -> bool:
        return op.kind == "rename" and op.path.endswith(".swap")

    disk.fail(is_due)
    for group in groups[:2]:
        with pytest.raises(StorageError):
            compaction.apply(group)
