"""Compaction against the plain truth: whatever is written, ended, cleaned and lost, readers see what they should."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.protocol.compression import Compression
from minikafka.protocol.records.control import ControlType
from minikafka.protocol.records.walk import Record
from minikafka.storage.formats import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX
from minikafka.storage.log import Log
from tests.sim.memory_disk import MemoryDisk, Op
from tests.storage.compacting import (
    all_records,
    compact,
    keyed_batch,
    latest,
    read_committed,
    small_segments,
)
from tests.storage.logs import NOW_MS, end_txn, flush, open_log

DIRECTORY = "t-0"
PRODUCERS = (7, 8, 9)
CONFIG = small_segments(segment_bytes=700)


class World:
    """A log, and what a reader of committed records has to find in it."""

    def __init__(self, disk: MemoryDisk, rng: Random) -> None:
        self.log: Log = open_log(disk, DIRECTORY, CONFIG)
        self.rng = rng
        self.now_ms = NOW_MS
        self.first_dirty_offset = 0
        self.written: dict[int, Record] = {}
        self.uncommitted: dict[int, list[int]] = {}
        self.aborted: set[int] = set()
        self.sequences = dict.fromkeys(PRODUCERS, 0)

    def step(self) -> None:
        choice = self.rng.random()
        if choice < 0.7:
            self.write()
        elif choice < 0.85:
            self.end()
        elif choice < 0.9:
            self.now_ms += self.rng.choice((1, 600, 1500))
        else:
            self.compact()

    def write(self) -> None:
        rng = self.rng
        keys = [b"%d" % rng.randrange(12) * rng.choice((1, 1, 20)) for _ in range(rng.randint(1, 4))]
        pairs = [(key, None if rng.random() < 0.2 else b"v%d" % rng.randrange(10**6)) for key in keys]
        producer_id = rng.choice((-1, *PRODUCERS))
        is_transactional = producer_id >= 0 and (producer_id in self.uncommitted or rng.random() < 0.7)
        sequence = self.sequences.get(producer_id, -1)
        batch = keyed_batch(
            *pairs,
            timestamp_ms=self.now_ms,
            producer_id=producer_id,
            sequence=sequence,
            is_transactional=is_transactional,
            compression=rng.choice((*[Compression.NONE] * 3, Compression.LZ4, Compression.ZSTD)),
        )
        verification = None
        if is_transactional:
            verification = self.log.producers.begin_verification(producer_id, 0, sequence, self.now_ms)
        appended = self.log.append_as_leader(batch, 0, self.now_ms, verification=verification)
        if producer_id >= 0:
            self.sequences[producer_id] += len(pairs)
        for row, (key, value) in enumerate(pairs):
            offset = appended.base_offset + row
            headers = (("h", b"%d" % row),) if row % 3 == 2 else ()
            self.written[offset] = Record(offset, self.now_ms + row, key, value, headers)
            if is_transactional:
                self.uncommitted.setdefault(producer_id, []).append(offset)
        self.replicate()

    def end(self) -> None:
        producer_id = self.rng.choice(PRODUCERS)
        control_type = self.rng.choice((ControlType.COMMIT, ControlType.ABORT))
        end_txn(self.log, producer_id, control_type)
        offsets = self.uncommitted.pop(producer_id, [])
        if control_type is ControlType.ABORT:
            self.aborted.update(offsets)
        self.replicate()

    def replicate(self) -> None:
        if self.rng.random() < 0.8:
            self.log.update_high_watermark(self.log.log_end_offset)

    def compact(self, keys_max: int | None = None) -> None:
        keys_max = keys_max or self.rng.choice((1, 4, 1000))
        self.first_dirty_offset = compact(self.log, self.first_dirty_offset, self.now_ms, keys_max)

    def settle(self) -> None:
        """End all transactions, and have everything replicated and on disk."""
        while self.uncommitted:
            self.end()
        self.log.update_high_watermark(self.log.log_end_offset)
        flush(self.log)

    def check(self, log: Log) -> None:
        """Also of a log that was opened anew, with the same high watermark."""
        log.update_high_watermark(self.log.high_watermark)
        assert log.log_end_offset == self.log.log_end_offset
        assert log.last_stable_offset == self.log.last_stable_offset
        for segment in log.segments:
            end = log.segments.next_base(segment) or log.log_end_offset
            assert all(
                segment.base_offset <= batch.base_offset <= batch.last_offset < end for batch in segment.batches()
            )
        found = {record.offset: record for record in all_records(log)}
        assert all(self.written[offset] == record for offset, record in found.items())
        bound = log.last_stable_offset
        committed = [record for offset, record in self.written.items() if offset not in self.aborted and offset < bound]
        kept = [each for each in committed if each.offset in found]
        assert read_committed(log, 0) == kept
        assert latest(kept) == latest(committed)
        start = self.rng.randrange(log.log_end_offset + 1)
        assert read_committed(log, start) == [each for each in kept if each.offset >= start]

    def reopened(self, disk: MemoryDisk, recovery_point: int | None = None) -> Log:
        if recovery_point is None:
            recovery_point = self.log.recovery_point
        return open_log(disk, DIRECTORY, self.log.config, recovery_point=recovery_point)


def producers_of(log: Log) -> list[tuple[int, int, int, int, int]]:
    return sorted(
        (each.producer_id, each.producer_epoch, each.last_sequence, each.last_offset, each.current_txn_first_offset)
        for each in log.producers.snapshot()
        if each.last_offset >= 0
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.integers(5, 120))
def test_readers_see_the_newest_committed_records(seed: int, steps: int) -> None:
    disk = MemoryDisk()
    world = World(disk, Random(seed))
    for _ in range(steps):
        world.step()
    world.compact()
    world.check(world.log)
    found = {record.offset for record in all_records(world.log)}
    dirty = {offset for offset in world.written if offset >= world.first_dirty_offset} - world.aborted
    assert dirty <= found

    # The batches alone tell as much of the producers as the snapshots do, and of the transactions as their indexes.
    known = producers_of(world.log)
    flush(world.log)
    disk.process_died()
    for name in disk.list(DIRECTORY):
        if name.endswith((SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX)):
            disk.unlink(f"{DIRECTORY}/{name}")
    log = world.reopened(disk, recovery_point=0)
    assert producers_of(log) == known
    world.check(log)


MERGING = CONFIG._replace(segment_bytes=2100)
"""Three segments of the log are one after compaction."""


def written(seed: int) -> tuple[MemoryDisk, World]:
    """Seven segments and more, all on disk."""
    disk = MemoryDisk()
    world = World(disk, Random(seed))
    while len(world.log.segments) < 7:
        world.step()
    world.settle()
    disk.settle()
    return disk, world


def compact_twice(world: World) -> None:
    world.log.reconfigure(MERGING)
    world.compact(1000)
    world.now_ms += 2000
    world.log.roll()
    world.compact(1000)


# How many outcomes of a power cut to look at before an operation; most depends on names.
IMAGES = {"append": 1, "sync": 1, "unlink": 2, "rename": 3, "fsync_dir": 8}


@pytest.mark.parametrize("seed", range(4))
def test_power_cut_anywhere_in_a_compaction(seed: int) -> None:
    """Whatever survives, no reader misses a record or gets one that is not there."""
    disk, world = written(seed)
    rng = Random(seed)

    def cut(op: Op) -> bool:
        # The first two are the least and the most that may survive: the one just before, the other is no news.
        for image in [*disk.power_cut_images(rng, IMAGES.get(op.kind, 0) + 2)][2:]:
            world.check(world.reopened(image))
        return False

    disk.fail(cut, is_lasting=True)
    compact_twice(world)
    disk.heal()
    world.check(world.log)
