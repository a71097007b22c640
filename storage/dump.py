"""What the files of a log say, one item after the other.

An item is a dictionary whose `item` tells what it is: a `file`, and after it its contents, each `batch` followed by
its `record`s if these are wanted; a `problem` where the bytes of a file make no sense. Bytes stay bytes and times
milliseconds: `dump_text` makes text or JSON of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from minikafka.protocol.errors import CorruptRecord, RecordTooLarge
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import read_marker
from minikafka.protocol.records.reader import iter_records
from minikafka.storage.disk import Disk
from minikafka.storage.errors import CorruptLog
from minikafka.storage.finding import OFFSET_CHECKPOINTS, Found, FoundFile, OpenSegment, read_found
from minikafka.storage.formats import (
    CLEAN_SHUTDOWN_FILE,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    BadFile,
    parse_aborted_txns,
    parse_clean_shutdown,
    parse_epochs,
    parse_offset_index,
    parse_offsets,
    parse_partition_metadata,
    parse_properties,
    parse_snapshot,
    parse_time_index,
    uuid_text,
)
from minikafka.storage.internal_topics import decode_internal
from minikafka.storage.scanning import read_batches

Item = dict[str, Any]


def dump(disk: Disk, found: Found, *, records: bool) -> Iterator[Item]:
    """All of it, file by file."""
    for file in found.files:
        yield from _dump_file(disk, file, None, records)
    for partition in found.partitions:
        for file in partition.files:
            yield from _dump_file(disk, file, partition.topic, records)


def _dump_file(disk: Disk, file: FoundFile, topic: str | None, records: bool) -> Iterator[Item]:
    try:
        yield {"item": "file", "path": file.path, "size": disk.size(file.path)}
        if file.content == LOG_SUFFIX:
            yield from _dump_log(disk, file, topic, records)
        else:
            data = read_found(disk, file) or b""
            yield from _ITEMS_OF[file.content](data, file.base_offset)
    except FileNotFoundError:
        return  # deleted since its name was read
    except BadFile as error:
        yield _problem(file.path, error.position, error.reason)
    except OSError as error:
        yield _problem(file.path, 0, str(error))


def _problem(path: str, position: int, reason: str) -> Item:
    return {"item": "problem", "path": path, "position": position, "reason": reason}


def _dump_log(disk: Disk, file: FoundFile, topic: str | None, records: bool) -> Iterator[Item]:
    segment = OpenSegment(disk, file)
    try:
        for position, batch in read_batches(segment.section, segment.read):
            yield _batch(position, batch)
            if records:
                yield from _records(file.path, position, batch, topic)
    except CorruptLog as error:
        yield _problem(error.path, error.position, error.reason)
    finally:
        segment.close()


def _batch(position: int, batch: BatchView) -> Item:
    item = {
        "item": "batch",
        "position": position,
        "size": batch.size,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "records": batch.record_count,
        "codec": _codec(batch),
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "timestamp_type": batch.timestamp_type.name.lower(),
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "delete_horizon_ms": batch.delete_horizon_ms,
        "crc": batch.crc,
        "crc_ok": _is_crc_right(batch),
    }
    return item | _marker(batch) if batch.is_control else item


def _codec(batch: BatchView) -> str:
    try:
        return batch.compression.name.lower()
    except CorruptRecord as error:
        return str(error)


def _is_crc_right(batch: BatchView) -> bool:
    try:
        batch.check_crc()
    except CorruptRecord:
        return False
    return True


def _marker(batch: BatchView) -> Item:
    try:
        marker = read_marker(batch)
    except CorruptRecord:
        return {}  # walking the records says what is wrong
    return {} if marker is None else {"marker": marker.type.name.lower(), "coordinator_epoch": marker.coordinator_epoch}


def _records(path: str, position: int, batch: BatchView, topic: str | None) -> Iterator[Item]:
    too_large: list[RecordTooLarge] = []
    try:
        for record in iter_records(batch, on_too_large=too_large.append):
            yield from _problems(path, position, too_large)
            decoded = None if batch.is_control else decode_internal(topic, record.key, record.value)
            key, value = decoded if decoded is not None else (record.key, record.value)
            yield {
                "item": "record",
                "offset": record.offset,
                "timestamp": record.timestamp_ms,
                "key": key,
                "value": value,
                "headers": [*record.headers],
            }
        yield from _problems(path, position, too_large)
    except CorruptRecord as error:
        yield _problem(path, position, str(error))


def _problems(path: str, position: int, errors: list[RecordTooLarge]) -> Iterator[Item]:
    while errors:
        yield _problem(path, position, str(errors.pop(0)))


def _rows(kind: str, *names: str) -> Callable[[Iterator[tuple[Any, ...]]], Iterator[Item]]:
    return lambda rows: ({"item": kind, **dict(zip(names, row, strict=True))} for row in rows)


_offset_entries = _rows("offset index entry", "offset", "position")
_time_entries = _rows("time index entry", "timestamp", "offset")
_epochs = _rows("leader epoch", "epoch", "start_offset")
_offsets = _rows("offset", "topic", "partition", "offset")


def _dump_offsets(data: bytes, _: int) -> Iterator[Item]:
    return _offsets((*partition, offset) for partition, offset in parse_offsets(data).items())


# By the kind of file: from its bytes and the base offset in its name to its contents.
_ITEMS_OF: Final[dict[str, Callable[[bytes, int], Iterator[Item]]]] = {
    INDEX_SUFFIX: lambda data, base: _offset_entries(iter(parse_offset_index(data, base))),
    TIME_INDEX_SUFFIX: lambda data, base: _time_entries(iter(parse_time_index(data, base))),
    TXN_INDEX_SUFFIX: lambda data, _: (
        {"item": "aborted transaction", **txn._asdict()} for txn in parse_aborted_txns(data)
    ),
    SNAPSHOT_SUFFIX: lambda data, _: ({"item": "producer", **entry._asdict()} for entry in parse_snapshot(data)),
    LEADER_EPOCH_CHECKPOINT: lambda data, _: _epochs(iter(parse_epochs(data))),
    PARTITION_METADATA_FILE: lambda data, _: iter(
        [{"item": "partition metadata", "topic_id": uuid_text(parse_partition_metadata(data))}]
    ),
    META_PROPERTIES_FILE: lambda data, _: iter([{"item": "properties", **parse_properties(data)}]),
    CLEAN_SHUTDOWN_FILE: lambda data, _: iter([{"item": "clean shutdown", "broker_epoch": parse_clean_shutdown(data)}]),
    **dict.fromkeys(OFFSET_CHECKPOINTS, _dump_offsets),
}
