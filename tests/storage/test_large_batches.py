"""Batches that inflate to more than a reader of ours has in memory at a time: all of them get through."""

from __future__ import annotations

import pytest

from minikafka.protocol.compression import Compression
from minikafka.protocol.records import pieces, reader
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.storage import batch_filter
from minikafka.storage.config import LogConfig
from minikafka.storage.dump import dump
from minikafka.storage.finding import find
from minikafka.storage.log import Log
from minikafka.storage.verify import verify_partition
from tests.sim.memory_disk import MemoryDisk
from tests.storage.compacting import all_records, compact, latest, put
from tests.storage.logs import NOW_MS, open_log, record_at

DIRECTORY = "data/t-0"
CONFIG = LogConfig(cleanup_compact=True, cleanup_delete=False, delete_retention_ms=1000)
ROWS = 2000
CODECS = [codec for codec in Compression if codec is not Compression.NONE]


@pytest.fixture(autouse=True)
def small_wholes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes more than a KiB is taken apart, so that a hundred pieces are read quickly."""
    for module in (pieces, reader, batch_filter):
        monkeypatch.setattr(module, "WHOLE_BYTES_MAX", 1024)
    monkeypatch.setattr("minikafka.protocol.streams.STEP_BYTES", 2000)
    monkeypatch.setattr("minikafka.protocol.compression.STEP_BYTES", 2000)


def large_batch(codec: Compression, *, with_tombstones: bool = False) -> BatchView:
    builder = BatchBuilder()
    for row in range(ROWS):
        value = None if with_tombstones and row % 500 == 0 else b"value-%d" % row * 3
        builder.append(NOW_MS + row, b"k%d" % (row % 1000), value, (("h", b"x"),))
    return BatchView(builder.build(compression=codec))


def filled(codec: Compression, *, with_tombstones: bool = False) -> Log:
    log = open_log(MemoryDisk(), DIRECTORY, CONFIG)
    # As a leader has written it in a topic that was not compacted yet.
    log.append_as_follower(bytearray(large_batch(codec, with_tombstones=with_tombstones).data), NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return log


@pytest.mark.parametrize("with_tombstones", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_large_batch_is_compacted(codec: Compression, with_tombstones: bool) -> None:
    log = filled(codec, with_tombstones=with_tombstones)
    put(log, (b"k7", b"newest"), timestamp_ms=NOW_MS + 9999)
    log.roll()
    before = latest(all_records(log))
    compact(log)
    records = all_records(log)
    assert latest(records) == before
    assert len(records) == 1000 and sum(record.value is None for record in records) == 2 * with_tombstones
    for record in records[:-1]:
        assert record.key == b"k%d" % (record.offset % 1000) and record.timestamp_ms == NOW_MS + record.offset
        assert record.headers == (("h", b"x"),)
    first = next(log.segments.first.batches())
    assert (first.last_offset, first.max_timestamp) == (ROWS - 1, NOW_MS + ROWS - 1)
    # The horizon has passed.
    compact(log, 0, NOW_MS + 1002)
    assert all(record.value is not None for record in all_records(log))
    compact(log, 0, NOW_MS + 1002)
    assert len(all_records(log)) == 1000 - 2 * with_tombstones


@pytest.mark.parametrize("codec", CODECS)
def test_large_batch_is_dumped_verified_and_found_by_time(codec: Compression) -> None:
    log = filled(codec)
    disk = log.disk
    found = record_at(log, NOW_MS + 1500)
    assert found is not None and (found.offset, found.timestamp) == (1500, NOW_MS + 1500)
    log.close()
    items = [item for item in dump(disk, find(disk, DIRECTORY), records=True) if item["item"] == "record"]
    assert [item["offset"] for item in items] == [*range(ROWS)]
    (partition,) = find(disk, DIRECTORY).partitions
    verify_partition(disk, partition, records=True)


def test_record_that_is_too_large_keeps_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reader.iter_records.__kwdefaults__ or {}, "record_bytes_max", 4000)
    monkeypatch.setattr(pieces.iter_pieces, "__defaults__", (4000, None))
    log = open_log(MemoryDisk(), DIRECTORY, CONFIG)
    builder = BatchBuilder()
    for key, size in ((b"a", 10), (b"large", 5000), (b"b", 10)):
        builder.append(NOW_MS, key, bytes(size))
    log.append_as_follower(bytearray(builder.build(compression=Compression.ZSTD)), NOW_MS)
    put(log, (b"a", b"2"))
    log.roll()
    compact(log)
    log.close()
    items = [*dump(log.disk, find(log.disk, f"{DIRECTORY}/00000000000000000000.log"), records=True)]
    assert [item["offset"] for item in items if item["item"] == "record"] == [0, 2, 3]
    (problem,) = [item for item in items if item["item"] == "problem"]
    assert "offset 1 takes" in str(problem)
