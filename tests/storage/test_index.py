"""Indexes: what is found by them is what a walk over all batches finds, whatever is wrong with the files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.protocol.records.batch import BatchView, read_whole_batches
from minikafka.storage.disk import Disk
from minikafka.storage.formats import BadFile
from minikafka.storage.index import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset
from minikafka.storage.log import Log
from tests.sim.memory_disk import MemoryDisk
from tests.storage.log_model import LogModel, stored
from tests.storage.logs import NOW_MS, SMALL, batch_of, open_log, read, record_at

DIRECTORY = "orders-0"
BASE = 1000
CONFIG = SMALL._replace(segment_bytes=4000, segment_index_bytes=600)

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

growing = st.lists(st.integers(1, 50), min_size=1, max_size=40)


def offset_index(disk: Disk, bytes_max: int = 4096) -> OffsetIndex:
    return OffsetIndex(disk, "i", BASE, bytes_max)


def time_index(disk: Disk, bytes_max: int = 4096) -> TimeIndex:
    return TimeIndex(disk, "t", BASE, bytes_max)


def sums(steps: list[int], start: int) -> list[int]:
    made = []
    for step in steps:
        start += step
        made.append(start)
    return made


# ----------------------------------------------------------------------------------------- one index


@quick
@given(steps=growing, is_sealed=st.booleans(), is_loaded=st.booleans())
def test_offsets_are_found_as_by_a_scan(steps: list[int], is_sealed: bool, is_loaded: bool) -> None:
    disk = MemoryDisk()
    index = offset_index(disk)
    entries = [OffsetPosition(offset, number * 70) for number, offset in enumerate(sums(steps, BASE))]
    for entry in entries:
        index.append(*entry)
    if is_sealed or is_loaded:
        index.seal()
    if is_loaded:
        index = offset_index(disk)
        index.load()
    assert (index.count, index.last_offset, index.last_position) == (len(entries), *entries[-1])
    assert index.entries() == entries
    for offset in range(BASE - 1, entries[-1].offset + 3):
        below = [entry for entry in entries if entry.offset <= offset]
        assert index.lookup(offset) == (below[-1] if below else (BASE - 1, 0))


@quick
@given(steps=growing, is_loaded=st.booleans())
def test_times_are_found_as_by_a_scan(steps: list[int], is_loaded: bool) -> None:
    disk = MemoryDisk()
    index = time_index(disk)
    entries = [TimestampOffset(time, BASE + number * 3) for number, time in enumerate(sums(steps, 0))]
    for entry in entries:
        index.maybe_append(*entry)
        index.maybe_append(entry.timestamp, entry.offset + 1)
        index.maybe_append(entry.timestamp - 1, entry.offset + 2)
    if is_loaded:
        index.seal()
        index = time_index(disk)
        index.load()
    assert (index.entries(), index.last) == (entries, entries[-1])
    for timestamp in range(-2, entries[-1].timestamp + 3):
        below = [entry for entry in entries if entry.timestamp <= timestamp]
        assert index.lookup(timestamp) == (below[-1] if below else (-1, BASE))


@quick
@given(steps=growing, data=st.data())
def test_truncating_and_going_on(steps: list[int], data: st.DataObject) -> None:
    disk = MemoryDisk()
    index, times = offset_index(disk), time_index(disk)
    offsets = sums(steps, BASE)
    for offset in offsets:
        index.append(offset, offset * 2)
        times.maybe_append(offset * 3, offset)
    if data.draw(st.booleans()):
        index.seal()
        times.seal()
    cut = data.draw(st.integers(BASE, offsets[-1] + 1))
    index.truncate_to(cut)
    times.truncate_to(cut)
    kept = [offset for offset in offsets if offset < cut]
    more = [offsets[-1] + 1, offsets[-1] + 7]
    for offset in more:
        index.append(offset, offset * 2)
        times.maybe_append(offset * 3, offset)
    index.seal()
    times.seal()
    index.load()
    times.load()
    assert index.entries() == [(offset, offset * 2) for offset in kept + more]
    assert times.entries() == [(offset * 3, offset) for offset in kept + more]
    assert disk.size("i") == index.size_bytes


def test_a_full_index_has_room_for_the_last_time() -> None:
    disk = MemoryDisk()
    index = time_index(disk, bytes_max=30)
    index.maybe_append(1, BASE)
    assert index.is_full
    index.maybe_append(2, BASE + 1)
    index.maybe_append(3, BASE + 2, is_last=True)
    index.maybe_append(4, BASE + 3, is_last=True)
    assert index.entries() == [(1, BASE), (3, BASE + 2)]


@pytest.mark.parametrize("size", [1, 7, 9, 4095])
def test_a_part_of_an_entry_is_no_index(size: int) -> None:
    disk = MemoryDisk()
    for path in ("i", "t"):
        disk.open(path, create=True).append([bytes([1]) * size])
    with pytest.raises(BadFile, match="whole number"):
        offset_index(disk).load()
    if size % 12:
        with pytest.raises(BadFile, match="whole number"):
            time_index(disk).load()


def test_negative_numbers_are_no_entry() -> None:
    disk = MemoryDisk()
    for path in ("i", "t"):
        disk.open(path, create=True).append([b"\xff" * 24])
    with pytest.raises(BadFile, match="last entry"):
        offset_index(disk).load()
    with pytest.raises(BadFile, match="last entry"):
        time_index(disk).load()


def test_what_is_not_there_is_an_empty_index() -> None:
    index = offset_index(MemoryDisk())
    index.load()
    index.sync()
    assert (index.count, index.lookup(BASE + 5)) == (0, (BASE - 1, 0))


# --------------------------------------------------------------------------------------- with a log


def filled(disk: MemoryDisk, rng: Random, count: int, timestamps: list[int]) -> tuple[Log, LogModel]:
    log, model = open_log(disk, DIRECTORY, CONFIG), LogModel()
    for number in range(count):
        values = [bytes(rng.choice((1, 20, 200))) for _ in range(rng.randint(1, 4))]
        batch = batch_of(*values, timestamp_ms=timestamps[number % len(timestamps)])
        log.append_as_leader(batch, 0, NOW_MS)
        model.append(stored(bytes(batch.data)))
    return log, model


def check_reads(log: Log, model: LogModel, timestamps: list[int]) -> None:
    for batch in model.batches:
        for offset in {batch.base_offset, batch.last_offset}:
            assert bytes(read(log, offset, 1)) == batch.data
    for timestamp in {*timestamps, *(each + 1 for each in timestamps)}:
        assert record_at(log, timestamp) == model.at_time(timestamp)
    plan = log.plan_largest_timestamp()
    assert (None if plan is None else plan.run()) == model.largest()


@quick
@given(seed=st.integers(0, 10**6), timestamps=st.lists(st.integers(0, 60), min_size=1, max_size=50))
def test_lookups_equal_a_linear_scan(seed: int, timestamps: list[int]) -> None:
    """Whatever the order of the timestamps."""
    disk, stamps = MemoryDisk(), [NOW_MS + each for each in timestamps]
    log, model = filled(disk, Random(seed), 60, stamps)
    assert any(segment.offset_index.count for segment in log.segments)
    check_reads(log, model, stamps)
    log.close()
    check_reads(open_log(disk, DIRECTORY, CONFIG, is_clean=True), model, stamps)


@contextmanager
def flipped(disk: MemoryDisk, path: str, bits: list[int]) -> Iterator[None]:
    """Some bits of a file the other way round, for a while."""
    before = bytes(disk.open(path).read(0, disk.size(path)))
    after = bytearray(before)
    for bit in bits:
        after[bit // 8] ^= 1 << bit % 8
    _put(disk, path, after)
    try:
        yield
    finally:
        _put(disk, path, before)


def _put(disk: MemoryDisk, path: str, data: bytes | bytearray) -> None:
    disk.unlink(path)
    disk.open(path, create=True).append([data])


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("seed", range(12))
def test_flipped_bits_change_no_result(suffix: str, seed: int) -> None:
    """No two batches have one timestamp: an entry whose offset becomes that of another such batch would be right."""
    rng, disk = Random(seed), MemoryDisk()
    stamps = rng.sample(range(NOW_MS, NOW_MS + 500), 60)
    log, model = filled(disk, rng, 60, stamps)
    log.close()
    paths = [segment.path(suffix) for segment in log.segments if disk.size(segment.path(suffix))]
    for _ in range(12):
        path = rng.choice(paths)
        bits = [rng.randrange(disk.size(path) * 8) for _ in range(rng.choice((1, 1, 2, 30)))]
        with flipped(disk, path, bits):
            damaged = open_log(disk, DIRECTORY, CONFIG, is_clean=True)
            check_reads(damaged, model, stamps)
            damaged.close()


def test_every_bit_of_the_last_entries() -> None:
    """On these it depends which segment is asked for a time at all."""
    disk = MemoryDisk()
    stamps = Random(1).sample(range(NOW_MS, NOW_MS + 500), 30)
    log, model = filled(disk, Random(1), 30, stamps)
    log.close()
    path = log.segments.first.path(".timeindex")
    last = disk.size(path) * 8
    for bit in range(last - 96, last):
        with flipped(disk, path, [bit]):
            damaged = open_log(disk, DIRECTORY, CONFIG, is_clean=True)
            assert record_at(damaged, max(stamps[:10])) == model.at_time(max(stamps[:10]))
            damaged.close()


def test_reads_of_many_batches_by_the_index() -> None:
    disk = MemoryDisk()
    log, model = filled(disk, Random(3), 80, [NOW_MS])
    log.close()
    log = open_log(disk, DIRECTORY, CONFIG, is_clean=True)
    offset = 0
    found: list[BatchView] = []
    while offset < log.log_end_offset:
        batches, _ = read_whole_batches(read(log, offset, 1000))
        found += batches
        offset = found[-1].next_offset
    assert [bytes(batch.data) for batch in found] == [batch.data for batch in model.batches]
