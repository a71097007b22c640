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
from typing import Final, NamedTuple

from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.layout import NO_TIMESTAMP
from minikafka.storage.errors import CorruptLog
from minikafka.storage.producers import BATCHES_KEPT, BatchMeta, Producer, ProducerStates
from minikafka.storage.scanning import Section, read_batches
from minikafka.storage.segments import Segments

TAIL_BYTES: Final = 1 << 20
RECENT_MS: Final = 10 * 60_000
"""Longer than any client goes on trying by default."""


class Recall(NamedTuple):
    """What to read for which producers; on any thread."""

    wanted: dict[int, Producer]
    sections: list[Section]
    end: int

    def run(self) -> None:
        """Add what the log has before the end to the producers."""
        _recall(self.wanted, self.sections, self.end)


def plan_recall(producers: ProducerStates, segments: Segments, end: int, now_ms: int) -> Recall:
    """For producers of a snapshot that was taken at the end."""
    recent_ms = now_ms - RECENT_MS
    wanted: dict[int, Producer] = {}
    if producers:
        is_at_work = segments.active.written_ms() >= recent_ms
        wanted = producers.recent(NO_TIMESTAMP if is_at_work else recent_ms)
    return Recall(wanted, _tail_sections(segments, end) if wanted else [], end)


def _recall(wanted: dict[int, Producer], sections: list[Section], end: int) -> None:
    found: dict[int, deque[BatchMeta]] = {}
    for batch in _batches(sections, end):
        producer = wanted.get(batch.producer_id)
        if producer is None or batch.is_control or batch.producer_epoch != producer.epoch:
            continue
        if batch.last_offset < producer.batches[0].last_offset:
            earlier = found.setdefault(batch.producer_id, deque(maxlen=BATCHES_KEPT - 1))
            earlier.append(BatchMeta.of(batch))
    for producer_id, earlier in found.items():
        wanted[producer_id].batches[:0] = earlier


def _tail_sections(segments: Segments, end: int) -> list[Section]:
    """The last batches before an offset."""
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
    return sections[::-1]


def _batches(sections: list[Section], end: int) -> Iterator[BatchView]:
    for section in sections:
        try:
            for _, batch in read_batches(section, section.file.read):
                if batch.base_offset >= end:
                    return
                yield batch
        except CorruptLog:
            # Whoever reads it will be told.
            continue
