"""Compaction where everything goes, and with settings at the ends of their ranges."""

from __future__ import annotations

import pytest

from minikafka.storage.config import INT64_MAX
from minikafka.storage.log import Log
from tests.sim.memory_disk import MemoryDisk
from tests.storage.compacting import COMPACTED, all_records, compact, latest, pairs, put
from tests.storage.logs import NOW_MS, batches_from, open_log

DIRECTORY = "t-0"
HOUR_MS = 3_600_000


def end_of_reading(log: Log) -> int:
    """Where a reader from the start gets to."""
    return batches_from(log, log.log_start_offset)[-1].next_offset


def test_readers_reach_the_end_when_the_last_record_goes() -> None:
    """The active segment is empty, as after `max.compaction.lag.ms`, so everything can be cleaned."""
    log = open_log(MemoryDisk(), DIRECTORY, COMPACTED)
    put(log, (b"a", b"1"))
    put(log, (b"b", b"2"))
    put(log, (b"a", None))
    log.roll()
    compact(log)
    assert end_of_reading(log) == log.log_end_offset == 3
    # A replica that is made later gets the tombstone with its horizon, and drops it in its first round.
    replica = open_log(MemoryDisk(), "replica", COMPACTED)
    replica.append_as_follower(bytearray(b"".join(bytes(batch.data) for batch in batches_from(log, 0))), NOW_MS)
    replica.update_high_watermark(3)
    replica.roll()
    compact(replica, None, NOW_MS + HOUR_MS)
    assert pairs(replica) == [(1, b"b", b"2")]
    assert end_of_reading(replica) == replica.log_end_offset == 3
    # The empty batch is there for the end only: with others behind it, it goes.
    put(replica, (b"c", b"3"))
    replica.roll()
    compact(replica, None, NOW_MS + 2 * HOUR_MS)
    assert [batch.record_count for batch in batches_from(replica, 0)] == [1, 1]


@pytest.mark.parametrize("retention_ms", [0, INT64_MAX])
def test_delete_retention_at_its_limits(retention_ms: int) -> None:
    log = open_log(MemoryDisk(), DIRECTORY, COMPACTED._replace(delete_retention_ms=retention_ms))
    put(log, (b"a", b"1"), (b"b", b"2"), timestamp_ms=-1)
    put(log, (b"a", None), (b"b", b"3"), timestamp_ms=INT64_MAX - 2)
    put(log, (b"c", b"4"))
    log.roll()
    before = latest(all_records(log))
    compact(log, 0, NOW_MS)
    assert [record.timestamp_ms for record in all_records(log)] == [INT64_MAX - 2, INT64_MAX - 1, NOW_MS]
    compact(log, 0, NOW_MS + 1)
    assert any(record.value is None for record in all_records(log)) == (retention_ms > 0)
    assert latest(all_records(log)) == before
