"""Whether the files of a log are good: all that can be told without the broker that wrote them.

Per segment: every batch is whole, its CRC right, offsets grow from batch to batch and leader epochs never shrink; index
entries grow and agree with the batches (`verify_indexes`). Per partition: aborted transactions are in the index of
aborted transactions, leader epochs agree with their checkpoint, snapshots and metadata can be read. The first byte
that is bad ends the search in that partition.

In the segment with the largest base offset, which a running broker may be writing to, one thing is not an error: bytes
at the end that are the beginning of a batch, or zeros. They are what an append looks like that is not finished, or
never was; a broker cuts them off when it starts. A whole batch with a wrong CRC is an error even there. Indexes are
read before their log, so that all they speak of is there; what they lack at the end may have come since.

Files marked `.deleted`, `.cleaned` or `.swap` are left out where there are others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple, TypeVar

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.columns import iter_columns
from minikafka.protocol.records.control import ControlType, read_marker
from minikafka.protocol.records.layout import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MAGIC
from minikafka.storage.disk import Disk, join, parent
from minikafka.storage.errors import CorruptLog
from minikafka.storage.finding import (
    OFFSET_CHECKPOINTS,
    FoundFile,
    FoundPartition,
    OpenSegment,
    read_found,
)
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
)
from minikafka.storage.scanning import read_batches
from minikafka.storage.verify_indexes import Batches, check_aborted_txns, check_offset_index, check_time_index

_T = TypeVar("_T")
_ZEROS_BYTES: Final = 1 << 20
_RELATIVE_OFFSET_MAX: Final = 2**31 - 1
_length_and_magic: Final = Struct(">8xi4xb").unpack_from


class Summary(NamedTuple):
    """What was found good in a partition."""

    segments: int
    batches: int
    records: int
    size: int
    first_offset: int | None
    last_offset: int | None
    # The bytes that a running broker has not finished to write, or a broken one never did.
    torn: tuple[str, int, int] | None


class _Partition:
    """What one batch says about the next, across segments."""

    def __init__(self, epochs: list[tuple[int, int]]) -> None:
        self.next_offset = 0
        self.leader_epoch = -1
        self.epochs = epochs
        # By producer, the first offset that was seen of an open transaction.
        self.open_txns: dict[int, int] = {}
        self.records = 0


def verify_file(disk: Disk, file: FoundFile) -> None:
    """Raise CorruptLog unless one of the files of a log directory can be read."""
    _parsed(disk, file, _PARSERS[file.kind])


def verify_partition(disk: Disk, found: FoundPartition, *, records: bool = False) -> Summary:
    """Raise CorruptLog at the first byte that is bad; `records` has every record decoded as well."""
    segments: dict[int, dict[str, FoundFile]] = {}
    epochs: list[tuple[int, int]] = []
    # Of marked files only those that were asked for by name.
    mark = min((file.mark for file in found.files), default="")
    for file in [file for file in found.files if file.mark == mark]:
        if file.content in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX):
            segments.setdefault(file.base_offset, {})[file.content] = file
        elif file.kind == LEADER_EPOCH_CHECKPOINT:
            epochs = _parsed(disk, file, _growing_epochs) or []
        elif file.content == SNAPSHOT_SUFFIX:
            _parsed(disk, file, parse_snapshot)
        else:
            verify_file(disk, file)
    state = _Partition(epochs)
    seen = [_verify_segment(disk, files, state, records) for files in segments.values()]
    walked = [batches for batches in seen if batches is not None]
    full = [batches for batches in walked if len(batches)]
    return Summary(
        segments=len(walked),
        batches=sum(map(len, walked)),
        records=state.records,
        size=sum(batches.end for batches in walked),
        first_offset=full[0].base_offsets[0] if full else None,
        last_offset=full[-1].last_offsets[-1] if full else None,
        torn=next((batches.torn for batches in walked if batches.torn), None),
    )


def _growing_epochs(data: bytes) -> list[tuple[int, int]]:
    epochs = parse_epochs(data)
    for (epoch, start), (next_epoch, next_start) in pairwise(epochs):
        if next_epoch <= epoch or next_start <= start:
            raise BadFile(f"epoch {next_epoch} from {next_start} does not follow epoch {epoch} from {start}")
    return epochs


_PARSERS: Final[dict[str, Callable[[bytes], object]]] = {
    PARTITION_METADATA_FILE: parse_partition_metadata,
    META_PROPERTIES_FILE: parse_properties,
    CLEAN_SHUTDOWN_FILE: parse_clean_shutdown,
    **dict.fromkeys(OFFSET_CHECKPOINTS, parse_offsets),
}


def _parsed(disk: Disk, file: FoundFile, parse: Callable[[bytes], _T]) -> _T | None:
    """What a small file says, None if it is gone by now."""
    for attempt in (1, 2):
        try:
            data = read_found(disk, file)
            return None if data is None else parse(data)
        except BadFile as error:
            # Apache Kafka writes some of them in place: it may have been at it just then.
            if attempt == 2:
                raise CorruptLog(file.path, error.position, error.reason) from error
    return None


def _verify_segment(disk: Disk, files: dict[str, FoundFile], state: _Partition, records: bool) -> Batches | None:
    """The batches of a segment, or None if only its indexes are left, or not even these."""
    base = next(iter(files.values())).base_offset
    offset_index = _index(disk, files.get(INDEX_SUFFIX), lambda data: parse_offset_index(data, base))
    time_index = _index(disk, files.get(TIME_INDEX_SUFFIX), lambda data: parse_time_index(data, base))
    aborted_txns = _index(disk, files.get(TXN_INDEX_SUFFIX), parse_aborted_txns)
    if LOG_SUFFIX not in files:
        return None
    try:
        segment = OpenSegment(disk, files[LOG_SUFFIX])
    except FileNotFoundError:
        return None
    try:
        batches = _walk(segment, files[LOG_SUFFIX], state, records)
    finally:
        segment.close()
    if offset_index is not None:
        check_offset_index(files[INDEX_SUFFIX].path, offset_index, batches)
    if time_index is not None:
        check_time_index(files[TIME_INDEX_SUFFIX].path, time_index, batches)
    txn_index_path = files[LOG_SUFFIX].path.removesuffix(files[LOG_SUFFIX].kind) + TXN_INDEX_SUFFIX
    check_aborted_txns(txn_index_path, aborted_txns or [], batches)
    return batches


def _index(disk: Disk, file: FoundFile | None, parse: Callable[[bytes], _T]) -> _T | None:
    return None if file is None else _parsed(disk, file, parse)


def _walk(segment: OpenSegment, file: FoundFile, state: _Partition, records: bool) -> Batches:
    batches = Batches(file.base_offset, is_active=file.is_active)
    for position, batch in _finished_batches(segment, batches):
        try:
            _check_batch(batch, file.base_offset, state)
            if batch.is_transactional:
                _follow_txn(batch, state, batches)
            if records:
                _check_records(batch)
        except CorruptRecord as error:
            raise CorruptLog(segment.path, position, str(error)) from error
        _check_checkpoint(segment.path, batch, state, file.is_active)
        batches.add(position, batch)
        state.records += batch.record_count
        state.next_offset = batch.next_offset
    return batches


def _finished_batches(segment: OpenSegment, batches: Batches) -> Iterator[tuple[int, BatchView]]:
    """The batches of a segment up to an end that may be unfinished."""
    try:
        yield from read_batches(segment.section, segment.read)
    except CorruptLog as error:
        if not batches.is_active or not _is_torn(segment, error.position):
            raise
        batches.torn = segment.path, error.position, segment.size - error.position


def _check_batch(batch: BatchView, segment_base_offset: int, state: _Partition) -> None:
    batch.check_crc()
    _ = batch.compression  # raises if there is no such codec
    first, last = batch.base_offset, batch.last_offset
    if batch.last_offset_delta < 0:
        raise CorruptRecord(f"the last offset {last} of a batch is below its first, {first}")
    if first < state.next_offset:
        raise CorruptRecord(f"offset {first} comes after {state.next_offset - 1}")
    if first < segment_base_offset or last - segment_base_offset > _RELATIVE_OFFSET_MAX:
        raise CorruptRecord(f"offsets {first}-{last} cannot be in the segment of {segment_base_offset}")
    if not 0 <= batch.record_count <= batch.last_offset_delta + 1:
        raise CorruptRecord(f"{batch.record_count} records have the offsets {first}-{last}")
    # Batches that were converted from an older format have no epoch.
    if 0 <= batch.leader_epoch < state.leader_epoch:
        raise CorruptRecord(f"leader epoch {batch.leader_epoch} comes after {state.leader_epoch}")
    state.leader_epoch = max(state.leader_epoch, batch.leader_epoch)


def _check_records(batch: BatchView) -> None:
    before = batch.base_offset - 1
    # What is too large is not looked into; the records beside it are.
    for columns in iter_columns(batch, on_too_large=lambda _: None):
        before = _check_offsets(batch, columns.offsets.tolist(), before)


def _check_offsets(batch: BatchView, offsets: list[int], before: int) -> int:
    """Raise CorruptRecord unless these offsets can follow one another, and the one before; the last of them."""
    if not offsets:
        return before
    first, last = before + 1, batch.last_offset
    # Mostly no offset is missing, and comparing with a whole range is quick.
    is_growing = offsets == [*range(offsets[0], offsets[0] + len(offsets))] or all(
        one < next_one for one, next_one in pairwise(offsets)
    )
    if not is_growing or offsets[0] < first or offsets[-1] > last:
        raise CorruptRecord(f"the records of the batch of {batch.base_offset}-{last} have other offsets")
    return offsets[-1]


def _check_checkpoint(path: str, batch: BatchView, state: _Partition, is_active: bool) -> None:
    """Compare a batch with the checkpoint of leader epochs; it may be empty, or older than what is being written."""
    epoch = batch.leader_epoch
    if epoch < 0 or not state.epochs or (is_active and epoch > state.epochs[-1][0]):
        return
    first, last = (
        bisect_right(state.epochs, offset, key=lambda entry: entry[1]) - 1
        for offset in (batch.base_offset, batch.last_offset)
    )
    if first < 0 or first != last or state.epochs[first][0] != epoch:
        checkpoint = join(parent(path), LEADER_EPOCH_CHECKPOINT)
        raise CorruptLog(checkpoint, 0, f"offset {batch.base_offset} is of leader epoch {epoch}, which it denies")


def _follow_txn(batch: BatchView, state: _Partition, batches: Batches) -> None:
    if not batch.is_control:
        state.open_txns.setdefault(batch.producer_id, batch.base_offset)
        return
    marker = read_marker(batch)
    if marker is None:
        return
    first = state.open_txns.pop(batch.producer_id, None)
    if marker.type is ControlType.ABORT:
        batches.aborts[batch.base_offset] = batch.producer_id, first


def _is_torn(segment: OpenSegment, position: int) -> bool:
    """Whether the rest of a segment is the beginning of a batch, or zeros."""
    head = segment.read(position, HEADER_BYTES)
    # Fewer bytes than there were: a broker has cut them off in the meantime.
    if len(head) < HEADER_BYTES:
        return True
    length, magic = _length_and_magic(head)
    if magic == MAGIC and length + LENGTH_OVERHEAD_BYTES > segment.size - position:
        return True
    return not any(map(any, _chunks(segment, position)))


def _chunks(segment: OpenSegment, position: int) -> Iterator[bytes]:
    for start in range(position, segment.size, _ZEROS_BYTES):
        yield bytes(segment.read(start, min(_ZEROS_BYTES, segment.size - start)))
