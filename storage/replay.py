"""Building the producers' state anew from a log's batches.

A snapshot holds the state at one offset; the batches after it are replayed by their headers.  Markers
end transactions, and those that abort one have an entry in the transaction index of their segment,
which recovery restores on the way.
"""

from __future__ import annotations

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import EndMarker, read_marker
from minikafka.storage.config import INT64_MAX, LogConfig
from minikafka.storage.errors import CorruptLog
from minikafka.storage.formats import AbortedTxn
from minikafka.storage.producers import CompletedTxn, ProducerStates
from minikafka.storage.scanning import read_batches
from minikafka.storage.segment import Segment
from minikafka.storage.segments import Segments
from minikafka.storage.state_files import StateFiles


def rebuild_producers(
    segments: Segments,
    state_files: StateFiles,
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
    restore_from: int | None = None,
) -> ProducerStates:
    """The state at the log end; transaction indexes of segments from `restore_from` on are empty and are filled."""
    producers = ProducerStates()
    snapshot_max = log_end_offset if restore_from is None else min(log_end_offset, restore_from)
    snapshot = state_files.latest_snapshot(snapshot_max)
    start = log_start_offset
    if snapshot is not None:
        start = max(start, snapshot[0])
        producers.load(snapshot[1], now_ms, log_start_offset, config.producer_id_expiration_ms)
    if start < log_end_offset:
        for segment in segments.from_offset(start):
            fills = restore_from is not None and segment.base_offset >= restore_from
            _replay(producers, segment, start, log_end_offset, fills_index=fills)
    producers.map_end_offset = log_end_offset
    return producers


def _replay(producers: ProducerStates, segment: Segment, start: int, end: int, *, fills_index: bool) -> None:
    section = segment.section()
    for position, batch in read_batches(section, section.file.read):
        if batch.base_offset >= end:
            return
        if batch.producer_id >= 0 and batch.last_offset >= start:
            try:
                completed = producers.update(batch, end_marker(batch))
            except CorruptRecord as error:
                raise CorruptLog(section.path, position, str(error)) from error
            if completed is not None:
                if completed.is_aborted and fills_index:
                    segment.txn_index.append(aborted_txn(producers, completed))
                producers.complete(completed)


def end_marker(batch: BatchView) -> EndMarker | None:
    """The marker in a control batch; compaction leaves some of them without it."""
    return read_marker(batch) if batch.is_control and batch.record_count else None


def aborted_txn(producers: ProducerStates, completed: CompletedTxn) -> AbortedTxn:
    """The index entry of a transaction that ends now; to be made before it is completed."""
    stable = producers.last_stable_offset_of(completed)
    return AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)


def restore_txn_index(segments: Segments, segment: Segment, state_files: StateFiles, config: LogConfig) -> None:
    """Fill the transaction index of one segment anew, from the batches."""
    end = segments.next_base(segment)
    segment.txn_index.reset()
    only = Segments([each for each in segments if each.base_offset <= segment.base_offset])
    rebuild_producers(
        only,
        state_files,
        config,
        log_start_offset=segments.first.base_offset,
        log_end_offset=INT64_MAX if end is None else end,
        now_ms=0,  # before every timestamp, so that no producer has expired
        restore_from=segment.base_offset,
    )
