"""The batches of producers that a snapshot does not hold.

A snapshot in Kafka's format has the last batch of every producer. A producer may have five under way, though, and send
them all again after a restart: those that are not known would be refused as out of order, and for an idempotent
producer that is the end. They stand in the log, not far before the snapshot, and are read again there.

That is of use only to producers that are at work, so nothing is read for others, and nothing that is far away. In a log
that was written to just now all count as being at work, however old the timestamps of their records are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.layout import NO_TIMESTAMP
from minikafka.storage.errors import CorruptLog
from minikafka.storage.producers import BATCHES_KEPT, BatchMeta, ProducerStates
from minikafka.storage.scanning import Section, read_batches
from minikafka.storage.segments import Segments

TAIL_BYTES: Final = 1 << 20
RECENT_MS: Final = 10 * 60_000
"""Longer than any client goes on trying by default."""


def recall_batches(producers: ProducerStates, segments: Segments, end: int, now_ms: int) -> None:
    """Add what the log has before an offset, at which a snapshot was taken, to the producers in it."""
    if not producers:
        return
    recent_ms = now_ms - RECENT_MS
    is_at_work = segments.active.written_ms() >= recent_ms
    wanted = producers.recent(NO_TIMESTAMP if is_at_work else recent_ms)
    if not wanted:
        return
    found: dict[int, deque[BatchMeta]] = {}
    for batch in _tail(segments, end):
        producer = wanted.get(batch.producer_id)
        if producer is None or batch.is_control or batch.producer_epoch != producer.epoch:
            continue
        if batch.last_offset < producer.batches[0].last_offset:
            earlier = found.setdefault(batch.producer_id, deque(maxlen=BATCHES_KEPT - 1))
            earlier.append(BatchMeta.of(batch))
    for producer_id, earlier in found.items():
        wanted[producer_id].batches[:0] = earlier


def _tail(segments: Segments, end: int) -> Iterator[BatchView]:
    """The last batches before an offset, in their order."""
    sections: list[Section] = []
    left_bytes = TAIL_BYTES
    for segment in reversed([each for each in segments if each.base_offset < end]):
        if segment is not segments.active:
            segment.load_indexes()
        stop = segment.position_before(end) if segment is segments.holding(end) else segment.size
        start = segment.position_near(stop - left_bytes)
        sections.append(segment.section(start))
        left_bytes -= stop - start
        if left_bytes <= 0:
            break
    for section in reversed(sections):
        try:
            for _, batch in read_batches(section, section.file.read):
                if batch.base_offset >= end:
                    return
                yield batch
        except CorruptLog:
            # Whoever reads it will be told.
            continue
