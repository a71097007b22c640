"""Compacted logs for tests: records with keys, transactions, and readers who see what a client would."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.protocol.compression import Compression
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.protocol.records.control import ControlType, read_marker
from minikafka.protocol.records.reader import iter_records
from minikafka.protocol.records.walk import Record
from minikafka.storage.cleaning import CleanedGroup, CompactionPlan, clean
from minikafka.storage.compaction import Compaction, measure_dirt, plan_compaction
from minikafka.storage.config import LogConfig
from minikafka.storage.log import Appended, Log
from minikafka.storage.offset_map import KEYS_MAX
from tests.storage.logs import NOW_MS, SMALL, batches_from

COMPACTED = SMALL._replace(cleanup_compact=True, cleanup_delete=False, delete_retention_ms=1000)

Pair = tuple[bytes | None, bytes | None]


def keyed_batch(
    *pairs: Pair,
    timestamp_ms: int = NOW_MS,
    producer_id: int = -1,
    sequence: int = -1,
    is_transactional: bool = False,
    compression: Compression = Compression.NONE,
) -> BatchView:
    """Keys and values; each record is a millisecond after the one before."""
    builder = BatchBuilder()
    for row, (key, value) in enumerate(pairs):
        builder.append(timestamp_ms + row, key, value, (("h", b"%d" % row),) if row % 3 == 2 else ())
    made = builder.build(
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=sequence,
        is_transactional=is_transactional,
        compression=compression,
    )
    return BatchView(made)


def put(log: Log, *pairs: Pair, timestamp_ms: int = NOW_MS, compression: Compression = Compression.NONE) -> Appended:
    """Append one batch, which is replicated at once."""
    batch = keyed_batch(*pairs, timestamp_ms=timestamp_ms, compression=compression)
    appended = log.append_as_leader(batch, 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return appended


def put_in_txn(log: Log, producer_id: int, sequence: int, *pairs: Pair) -> Appended:
    batch = keyed_batch(*pairs, producer_id=producer_id, sequence=sequence, is_transactional=True)
    verification = log.producers.begin_verification(producer_id, 0, sequence, NOW_MS)
    appended = log.append_as_leader(batch, 0, NOW_MS, verification=verification)
    log.update_high_watermark(log.log_end_offset)
    return appended


def plan_of(log: Log) -> CompactionPlan:
    """What there is to clean in a log that never was."""
    plan = plan_compaction(log, measure_dirt(log, None, NOW_MS), NOW_MS)
    assert plan is not None
    return plan


def cleaned_groups(
    log: Log, first_dirty_offset: int | None, now_ms: int = NOW_MS, keys_max: int = KEYS_MAX
) -> tuple[Compaction, list[CleanedGroup]]:
    """What compaction has written, ready to be applied."""
    plan = plan_compaction(log, measure_dirt(log, first_dirty_offset, now_ms), now_ms, keys_max)
    assert plan is not None
    return Compaction(log, plan), [*clean(log.disk, plan)]


def compact(log: Log, first_dirty_offset: int | None = None, now_ms: int = NOW_MS, keys_max: int = KEYS_MAX) -> int:
    """Clean whatever can be cleaned, due or not; the first dirty offset then."""
    plan = plan_compaction(log, measure_dirt(log, first_dirty_offset, now_ms), now_ms, keys_max)
    if plan is None:
        return log.log_start_offset if first_dirty_offset is None else first_dirty_offset
    compaction = Compaction(log, plan)
    next_dirty_offset = -1
    for group in clean(log.disk, plan):
        assert compaction.apply(group)
        next_dirty_offset = group.next_dirty_offset
    return next_dirty_offset


def all_records(log: Log) -> list[Record]:
    """The data that is there, committed or not."""
    batches = batches_from(log, log.log_start_offset)
    return [record for batch in batches if not batch.is_control for record in iter_records(batch)]


def pairs(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in all_records(log)]


def read_committed(log: Log, from_offset: int) -> list[Record]:
    """What a client gets that reads committed data from an offset on, by the client's own rules."""
    bound = log.last_stable_offset
    to_come = sorted(log.aborted_transactions(from_offset, bound), key=lambda txn: txn.first_offset, reverse=True)
    skipped: set[int] = set()
    found: list[Record] = []
    for batch in batches_from(log, from_offset, bound):
        while to_come and to_come[-1].first_offset <= batch.last_offset:
            skipped.add(to_come.pop().producer_id)
        if batch.is_control:
            marker = read_marker(batch) if batch.record_count else None
            if marker is not None and marker.type is ControlType.ABORT:
                skipped.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in skipped):
            found += [record for record in iter_records(batch) if record.offset >= from_offset]
    return found


def latest(records: Sequence[Record]) -> dict[bytes | None, bytes]:
    """What somebody knows in the end who takes a record without a value for a deletion."""
    known: dict[bytes | None, bytes] = {}
    for record in records:
        known.pop(record.key, None)
        if record.value is not None:
            known[record.key] = record.value
    return known


def small_segments(config: LogConfig = COMPACTED, segment_bytes: int = 400) -> LogConfig:
    return config._replace(segment_bytes=segment_bytes)
