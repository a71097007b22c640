"""Logs for tests: small segments, short batches, any disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minikafka.protocol.compression import Compression
from minikafka.protocol.records.batch import BatchView, read_whole_batches
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.protocol.records.control import ControlType, build_marker
from minikafka.protocol.records.reader import iter_records
from minikafka.protocol.varint import Buffer
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, RealDisk
from minikafka.storage.loading import LoadedState, load_log
from minikafka.storage.log import Appended, Log
from minikafka.storage.producers import Origin
from minikafka.storage.segment import Segment
from minikafka.storage.timestamps import FoundRecord
from minikafka.storage.trimming import advance_log_start, retire_below_log_start
from minikafka.storage.verification import Verification
from tests.storage.batches import make_batch

NOW_MS = 1_750_000_000_000
SMALL = LogConfig(segment_bytes=1200, segment_index_bytes=400, index_interval_bytes=150)
COMPACTED = SMALL._replace(cleanup_compact=True)


def open_log(
    disk: Disk,
    directory: str,
    config: LogConfig = SMALL,
    *,
    is_clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> Log:
    return load_log(disk, directory, config, LoadedState(is_clean, recovery_point, log_start_offset), NOW_MS)


def batch_of(
    *values: bytes,
    timestamp_ms: int = NOW_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    compression: Compression = Compression.NONE,
) -> BatchView:
    builder = BatchBuilder()
    for value in values:
        builder.append(timestamp_ms, b"key", value)
    return BatchView(
        builder.build(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
            compression=compression,
        )
    )


def append(log: Log, *values: bytes, epoch: int = 0, timestamp_ms: int = NOW_MS) -> Appended:
    return log.append_as_leader(batch_of(*values, timestamp_ms=timestamp_ms), epoch, NOW_MS)


def append_in_txn(log: Log, producer_id: int, sequence: int, *values: bytes) -> Appended:
    batch = batch_of(*values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)
    verification: Verification | None = log.producers.begin_verification(producer_id, 0, sequence, NOW_MS)
    return log.append_as_leader(batch, 0, NOW_MS, verification=verification)


def end_txn(log: Log, producer_id: int, control_type: ControlType) -> Appended:
    marker = build_marker(
        control_type, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    return log.append_as_leader(BatchView(marker), 0, NOW_MS, Origin.COORDINATOR)


def read(log: Log, offset: int, max_bytes: int = 1 << 20, bound: int | None = None) -> Buffer:
    return log.plan_read(offset, max_bytes, log.log_end_offset if bound is None else bound).run()


def batches_from(log: Log, offset: int, bound: int | None = None) -> list[BatchView]:
    """All whole batches from an offset on, by as many reads as it takes."""
    end = log.log_end_offset if bound is None else bound
    found: list[BatchView] = []
    while offset < end:
        batches, _ = read_whole_batches(read(log, offset, 500, end))
        if not batches:
            break
        for batch in batches:
            batch.check_crc()
        assert batches[-1].next_offset > offset, "a reader has to get ahead"
        found += batches
        offset = batches[-1].next_offset
    return found


def contents(log: Log) -> list[tuple[int, bytes]]:
    """Offset and value of every data record."""
    return [
        (record.offset, record.value or b"")
        for batch in batches_from(log, log.log_start_offset)
        if not batch.is_control
        for record in iter_records(batch)
        if record.offset >= log.log_start_offset
    ]


def flush(log: Log) -> None:
    plan = log.prepare_flush()
    if plan is not None:
        plan.run()
        log.complete_flush(plan)


def drop_below(log: Log, offset: int) -> list[Segment]:
    """Move the log start offset and retire the segments below it, which are returned."""
    advance_log_start(log, offset)
    return retire_below_log_start(log)


def follow(log: Log, *bases: int, epoch: int = 0, **fields: Any) -> None:
    """Append one-record batches at the offsets given, as a leader sends them."""
    records = b"".join(make_batch(1, base_offset=base, leader_epoch=epoch, **fields) for base in bases)
    log.append_as_follower(bytearray(records), NOW_MS)


def record_at(log: Log, timestamp: int) -> FoundRecord | None:
    offset: int | None = 0
    while offset is not None and (plan := log.plan_timestamp(timestamp, offset)) is not None:
        if (found := plan.run()) is not None:
            return found
        offset = plan.next_offset
    return None


def largest(log: Log) -> FoundRecord | None:
    plan = log.plan_largest_timestamp()
    return None if plan is None else plan.run()


def filled(folder: str, count: int = 60, config: LogConfig = SMALL) -> Log:
    """A log on a real disk, with the numbers from 0 as values and a millisecond between them."""
    log = open_log(RealDisk(), folder, config)
    for number in range(count):
        append(log, b"%d" % number, timestamp_ms=NOW_MS + number)
    return log


def edit(path: str | Path, at: int, data: bytes) -> None:
    """Overwrite some bytes of a file."""
    whole = bytearray(Path(path).read_bytes())
    whole[at : at + len(data)] = data
    Path(path).write_bytes(whole)
