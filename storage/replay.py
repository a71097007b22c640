"""Building the producers' state anew from a log's batches.

A snapshot holds the state at one offset; the batches after it are replayed by their headers.  Markers
end transactions, and those that abort one have an entry in the transaction index of their segment,
which recovery restores on the way.
"""

from __future__ import annotations

from minikafka.protocol.errors import CorruptRecord
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import EndMarker, read_marker
from minikafka.storage.config import INT64_MAX
from minikafka.storage.errors import CorruptLog
from minikafka.storage.formats import AbortedTxn
from minikafka.storage.producers import CompletedTxn, ProducerStates
from minikafka.storage.recall import plan_recall
from minikafka.storage.scanning import Section, held, read_batches
from minikafka.storage.segment import Segment
from minikafka.storage.segments import Segments
from minikafka.storage.state_files import StateFiles


class Replay:
    """Producers' state on its way from the latest snapshot to the end of a log."""

    def __init__(self, state_files: StateFiles, *, log_start_offset: int, snapshot_max: int, now_ms: int) -> None:
        self.producers = ProducerStates()
        self.start = log_start_offset
        """Batches before it are in the snapshot, or deleted."""
        self._now_ms = now_ms
        snapshot = state_files.latest_snapshot(snapshot_max)
        if snapshot is not None:
            self.start = max(log_start_offset, snapshot[0])
            self.producers.load(snapshot[1], log_start_offset)
            self.producers.changed_end_offset = snapshot[0]

    def recall(self, segments: Segments) -> None:
        """Before anything else: what the snapshot leaves out of producers that are at work."""
        plan_recall(self.producers, segments, self.start, self._now_ms).run()

    def take(self, batch: BatchView, segment: Segment, *, fills_index: bool) -> None:
        """The next batch; CorruptRecord if it is a marker that cannot be read."""
        if batch.producer_id < 0 or batch.last_offset < self.start:
            return
        completed = self.producers.update(batch, end_marker(batch))
        if completed is not None:
            if completed.is_aborted and fills_index:
                segment.txn_index.append(aborted_txn(self.producers, completed))
            self.producers.complete(completed)

    def take_segment(self, segment: Segment, end: int, *, fills_index: bool = False) -> None:
        """All batches of a segment below an offset."""
        self.take_section(segment.section(), end, segment, fills_index=fills_index)

    def take_section(self, section: Section, end: int, segment: Segment, *, fills_index: bool) -> None:
        """The same; the section is all of the segment, opened by whoever may."""
        for position, batch in read_batches(section, section.file.read):
            if batch.base_offset >= end:
                return
            try:
                self.take(batch, segment, fills_index=fills_index)
            except CorruptRecord as error:
                raise CorruptLog(section.path, position, str(error)) from error

    def finish(self, log_end_offset: int) -> ProducerStates:
        self.producers.map_end_offset = log_end_offset
        return self.producers


class RebuildPlan:
    """The state at an offset, from the snapshot before it. What has to be read may be a whole segment, so that is for
    any thread; the log may go on meanwhile, but must not be cut or cleaned."""

    def __init__(
        self, segments: Segments, state_files: StateFiles, *, log_start_offset: int, end_offset: int, now_ms: int
    ) -> None:
        self._end_offset = end_offset
        self._replay = Replay(state_files, log_start_offset=log_start_offset, snapshot_max=end_offset, now_ms=now_ms)
        start = self._replay.start
        self._recall = plan_recall(self._replay.producers, segments, start, now_ms)
        replayed = segments.from_offset(start) if start < end_offset else []
        self._sections = [(each, each.section()) for each in replayed if each.base_offset < end_offset]

    def run(self) -> ProducerStates:
        with held([*self._recall.sections, *(section for _, section in self._sections)]):
            self._recall.run()
            for segment, section in self._sections:
                self._replay.take_section(section, self._end_offset, segment, fills_index=False)
        return self._replay.finish(self._end_offset)


def rebuild_producers(
    segments: Segments, state_files: StateFiles, *, log_start_offset: int, end_offset: int, now_ms: int
) -> ProducerStates:
    """The state at an offset, on the spot."""
    plan = RebuildPlan(segments, state_files, log_start_offset=log_start_offset, end_offset=end_offset, now_ms=now_ms)
    return plan.run()


def end_marker(batch: BatchView) -> EndMarker | None:
    """The marker in a control batch; compaction leaves some of them without it."""
    return read_marker(batch) if batch.is_control and batch.record_count else None


def aborted_txn(producers: ProducerStates, completed: CompletedTxn) -> AbortedTxn:
    """The index entry of a transaction that ends now; to be made before it is completed."""
    stable = producers.last_stable_offset_of(completed)
    return AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)


def restore_txn_index(segments: Segments, segment: Segment, state_files: StateFiles) -> None:
    """Fill the transaction index of one segment anew, from the batches."""
    segment.txn_index.reset()
    replay = Replay(
        state_files,
        log_start_offset=segments.first.base_offset,
        snapshot_max=segment.base_offset,
        now_ms=0,
    )
    for each in segments.from_offset(replay.start):
        if each.base_offset <= segment.base_offset:
            replay.take_segment(each, INT64_MAX, fills_index=each is segment)
