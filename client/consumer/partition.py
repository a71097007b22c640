"""One assigned partition: where its reader is, how far has been fetched, and what waits in between.

    position ........ what the program gets next; what is committed
    fetch position .. what is asked of the broker next; between the two lie `chunks`, batches that wait to be read

A position may not be known yet, or be in doubt. What it needs then (`Needs`) is found out by `positions`; meanwhile
nothing is fetched:

    COMMITTED   ask the group's coordinator         found: NOTHING; nothing committed: RESET, or an error
    RESET       ask the leader for an offset        found: NOTHING
    VALIDATION  the leader is of a later epoch: ask whether its log has what was read       yes: NOTHING; no: RESET

`version` counts the jumps of the position: an answer to a question asked before a jump is of no interest after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum, auto
from operator import length_hint
from typing import Any, Final, NamedTuple, TypeVar

from minikafka.client.consumer.errors import CorruptBatch, LargeRecord, RecordNotReadable
from minikafka.client.consumer.records import ConsumerRecord, Rows, batch_rows, consumer_records, deserialized
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import CorruptRecord, InflatesTooFar, KafkaError, RecordTooLarge
from minikafka.protocol.records import RECORD_BYTES_MAX, BatchBuilder, BatchView, iter_plain_batches
from minikafka.protocol.schema import ZERO_UUID

_T = TypeVar("_T")

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1

# Questions to ListOffsets, in the place of a timestamp.
LATEST: Final = -1
EARLIEST: Final = -2


class Needs(Enum):
    """What must be found out before a partition can be fetched."""

    NOTHING = auto()
    COMMITTED = auto()
    RESET = auto()
    VALIDATION = auto()


class Reading(NamedTuple):
    """How batches are turned into records."""

    check_crcs: bool = True
    key_deserializer: Callable[[bytes], Any] | None = None
    value_deserializer: Callable[[bytes], Any] | None = None
    max_record_bytes: int = RECORD_BYTES_MAX

    @property
    def deserializes(self) -> bool:
        return self.key_deserializer is not None or self.value_deserializer is not None


class Position(NamedTuple):
    """The offset that comes next, and the leader epoch of the last batch before it, delivered or skipped.

    A leader that knows a later epoch is asked where this one ends (KIP-320). With the epoch of an earlier batch that is
    before the offset, and a log that has everything is taken for truncated."""

    offset: int
    epoch: int = NO_EPOCH


_UNKNOWN: Final = Position(NO_OFFSET)


class Chunk:
    """A batch that waits to be read, and the position after it: also past batches that are skipped.

    One that is too large to be inflated as a whole has `pieces` from the moment when that was found out."""

    __slots__ = ("after", "batch", "pieces")

    def __init__(self, batch: BatchView, after: Position, pieces: Iterator[BatchView] | None = None) -> None:
        self.batch = batch
        self.after = after
        self.pieces = pieces


class Run:
    """The batch that is being read. Records are made of it when they are first asked for."""

    __slots__ = ("_rows", "_start", "after", "batch", "left", "records")

    def __init__(self, chunk: Chunk, start: Position) -> None:
        self.batch = chunk.batch
        self.after = chunk.after
        self.records: list[ConsumerRecord] = []
        self.left: Iterator[ConsumerRecord] | None = None
        self._start = start
        self._rows: Rows | None = None

    @property
    def position(self) -> Position:
        """What comes next. The iterator knows how far it is, so that nobody has to count."""
        return self._before(len(self.records) - length_hint(self.left)) if self.left is not None else self._start

    def _before(self, index: int) -> Position:
        """The position at which the record of an index is the next. Nothing is passed before a record was handed out:
        offsets that compaction has removed in front of it may be of a later epoch."""
        if index == len(self.records):
            return self.after
        return Position(self.records[index].offset, self.batch.leader_epoch) if index else self._start

    @property
    def is_over(self) -> bool:
        return self.position.offset >= self.after.offset

    @property
    def before_last(self) -> Position | None:
        """The position before the last record that left the iterator."""
        handed_out = len(self.records) - length_hint(self.left) if self.left is not None else 0
        return self._before(handed_out - 1) if handed_out else None

    def become(self, other: Run) -> None:
        """Read a piece of the batch instead of all of it."""
        self.batch, self.after, self._start = other.batch, other.after, other._start

    def end_before(self, offset: int) -> None:
        """Leave out the rest of the batch: `records` are what is before it."""
        self.after = Position(offset, self.batch.leader_epoch) if self.records else self._start

    def rows(self) -> Rows:
        """What is left, as columns; `skip_to` says how much of it was taken."""
        if self._rows is None or self.left is not None:
            self._rows = batch_rows(self.batch, self.position.offset)
        return self._rows

    def skip_to(self, rows: Rows | None) -> None:
        """Go on with these rows, None if there are none left."""
        self.left, self.records = None, []
        self._rows = rows
        if rows is None:
            self._start = self.after
        else:
            self._start = Position(int(rows.columns.offsets[rows.start]), self.batch.leader_epoch)


class PartitionState:
    """See the module's description."""

    def __init__(self, tp: TopicPartition, reading: Reading, topic_id: bytes = ZERO_UUID) -> None:
        self.tp = tp
        self.topic_id = topic_id
        """The topic that is read. A later one of the same name has another id; zeros as long as it is not known."""
        self.former_offset = NO_OFFSET
        """The position in an earlier topic of the name: what was committed up to it may be of that one."""
        self.needs = Needs.COMMITTED
        self.reset_to = LATEST
        self.version = 0
        self.is_paused = False
        # A partition that is not handed out before the program was told that it has it.
        self.is_held = False
        self.error: KafkaError | None = None
        self.fetch_position = _UNKNOWN
        self.leader_epoch = NO_EPOCH
        self.chunks: deque[Chunk] = deque()
        self.buffered_bytes = 0
        self.run: Run | None = None
        self.high_watermark = NO_OFFSET
        self.last_stable_offset = NO_OFFSET
        self.log_start_offset = NO_OFFSET
        self.preferred_replica: int | None = None
        self.preferred_until_ms = 0
        self.retry_at_ms = 0
        self.last_fetch_ms = 0
        self._position = _UNKNOWN
        self._reading = reading

    # ------------------------------------------------------------------------------------------ the position

    @property
    def has_position(self) -> bool:
        return self._position.offset != NO_OFFSET and self.needs in (Needs.NOTHING, Needs.VALIDATION)

    @property
    def position(self) -> Position:
        return self._position if self.run is None else self.run.position

    def seek(self, position: Position) -> int:
        """Go on at another position; returns how many bytes had been fetched in vain."""
        return self._jump(position, Needs.NOTHING)

    def need(self, needs: Needs, reset_to: int | None = None) -> int:
        """Have the position found out; returns how many bytes had been fetched in vain."""
        if reset_to is not None:
            self.reset_to = reset_to
        return self._jump(_UNKNOWN, needs)

    def _jump(self, position: Position, needs: Needs) -> int:
        freed = self.drop()
        self.error = None
        self.needs = needs
        self._position = self.fetch_position = position
        return freed

    def fail(self, error: KafkaError) -> None:
        """Hand out an error where the records end that were fetched; only a jump goes past it."""
        self.error = error

    def lead_by(self, epoch: int) -> None:
        """Take note of the leader's epoch: what was read may not be in the log of a later leader."""
        if epoch > self.leader_epoch:
            self.leader_epoch = epoch
            if self.needs is Needs.NOTHING and self.fetch_position.epoch != NO_EPOCH:
                self.needs = Needs.VALIDATION

    def drop(self) -> int:
        """Forget what was fetched and not read; fetching goes on at the position."""
        self._position = self.fetch_position = self.position
        freed, self.buffered_bytes = self.buffered_bytes, 0
        self.chunks.clear()
        self.run = None
        self.version += 1
        return freed

    # ---------------------------------------------------------------------------------- what waits to be read

    @property
    def has_data(self) -> bool:
        return self.has_batches or self.error is not None

    @property
    def has_batches(self) -> bool:
        return bool(self.chunks) or (self.run is not None and not self.run.is_over)

    @property
    def can_be_read(self) -> bool:
        return not self.is_paused and not self.is_held and self.has_data

    def add(self, skipped: Position, chunks: list[Chunk]) -> None:
        """Take in what was fetched: batches, and the position after those that are skipped in front of them."""
        self._pass(skipped)
        for chunk in chunks:
            self.buffered_bytes += chunk.batch.size
        self.chunks += chunks
        self.fetch_position = chunks[-1].after if chunks else skipped

    def _pass(self, skipped: Position) -> None:
        """Reading goes on there after what is waiting; at once if nothing is."""
        if self.chunks:
            self.chunks[-1].after = skipped
        elif self.run is not None:
            self.run.after = skipped
        else:
            self._position = skipped

    def next_run(self) -> Run | None:
        """The batch to read from; None at the end of what was fetched. CorruptBatch if it is damaged."""
        if self.run is not None and not self.run.is_over:
            return self.run
        self.close_run()
        while self.chunks:
            chunk = self.chunks[0]
            if chunk.pieces is not None:
                if (piece := self._next_piece(chunk.pieces)) is not None:
                    self.run = Run(Chunk(piece, Position(piece.next_offset, piece.leader_epoch)), self._position)
                    return self.run
                self._position = self.chunks.popleft().after
                continue
            self.chunks.popleft()
            self.buffered_bytes -= chunk.batch.size
            self.run = Run(chunk, self._position)
            if self._reading.check_crcs:
                self._checked(chunk.batch.check_crc)
            return self.run
        return None

    def _next_piece(self, pieces: Iterator[BatchView]) -> BatchView | None:
        """The next one that has something from the position on."""
        while (piece := self._checked(lambda: next(pieces, None))) is not None:
            if piece.next_offset > self._position.offset:
                return piece
        return None

    def _take_apart(self, run: Run) -> None:
        """Its batch is too large to be inflated as a whole: the run goes on with the first piece of it."""

        def on_too_large(error: RecordTooLarge) -> None:
            if error.offset >= self._position.offset:
                raise error

        pieces = iter_plain_batches(run.batch, self._reading.max_record_bytes, on_too_large)
        self._position = run.position
        self.run = None
        self.chunks.appendleft(Chunk(run.batch, run.after, pieces))
        piece_run = self.next_run()
        if piece_run is None:
            # Compaction has left nothing from the position on.
            empty = BatchView(BatchBuilder().build(base_offset=run.batch.base_offset))
            piece_run = Run(Chunk(empty, self._position), self._position)
        run.become(piece_run)
        self.run = run

    def close_run(self) -> None:
        """Move the position past the batch that has been read."""
        if self.run is not None:
            self._position = self.run.position
            self.run = None

    def records_of(self, run: Run) -> Iterator[ConsumerRecord]:
        """What is left of a batch, record by record; an iterator that whoever hands out records goes on with."""
        if run.left is None:
            run.records = self._whole(run, lambda: consumer_records(self.tp, run.batch, run.position.offset))
            if self._reading.deserializes:
                self._deserialize(run)
            run.left = iter(run.records)
        return run.left

    def rows_of(self, run: Run) -> Rows:
        return self._whole(run, run.rows)

    def _whole(self, run: Run, read: Callable[[], _T]) -> _T:
        """Read from a run, which becomes a piece of its batch if that is too large."""
        try:
            return self._checked(read)
        except InflatesTooFar:
            self._take_apart(run)
        return self._checked(read)

    def _deserialize(self, run: Run) -> None:
        raw, reading = run.records, self._reading
        run.records, error = deserialized(raw, reading.key_deserializer, reading.value_deserializer)
        if error is None:
            return
        bad = raw[len(run.records)]
        # Reading ends before the bad record; after a jump past it, the rest is fetched again.
        run.end_before(bad.offset)
        self.chunks.clear()
        self.buffered_bytes = 0
        self.fetch_position = run.after
        self.version += 1
        where = f"{self.tp.topic}-{self.tp.partition} at offset {bad.offset}"
        failure = RecordNotReadable(
            f"the record of {where} was refused by its deserializer: {error}", self.tp, bad.offset
        )
        failure.__cause__ = error
        self.fail(failure)

    def _checked(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except InflatesTooFar:
            raise
        except RecordTooLarge as error:
            self.drop()
            where = f"{self.tp.topic}-{self.tp.partition} at offset {error.offset}"
            text = f"the record of {where} takes {error.size} bytes, more than the {error.limit} of max_record_bytes"
            raise LargeRecord(text, self.tp, error.offset) from error
        except CorruptRecord as error:
            offset = self.position.offset
            self.drop()
            where = f"{self.tp.topic}-{self.tp.partition} at offset {offset}"
            raise CorruptBatch(f"the batch of {where} is damaged: {error}", self.tp, offset) from error

    def lag(self, end_offset: int) -> int | None:
        """How many offsets are left until an end; None if the position or the end is not known."""
        return max(0, end_offset - self.position.offset) if self.has_position and end_offset != NO_OFFSET else None
