"""What a log must hold, as a plain list of batches: every answer is found by looking at all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType, read_marker
from minikafka.protocol.records.reader import iter_records

Epochs = list[tuple[int, int]]


class Stored(NamedTuple):
    """A batch as it must be in the log."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    marker: ControlType | None
    timestamps: tuple[int, ...]
    data: bytes


class Txn(NamedTuple):
    """A transaction: its data, and its marker if it has ended."""

    producer_id: int
    offsets: tuple[int, ...]
    marker_offset: int | None
    is_aborted: bool


def stored(data: bytes) -> Stored:
    """A batch from its bytes."""
    batch = BatchView(data)
    found = read_marker(batch) if batch.is_control else None
    return Stored(
        batch.base_offset,
        batch.last_offset,
        batch.leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.is_transactional,
        None if found is None else found.type,
        tuple(record.timestamp_ms for record in iter_records(batch)),
        data,
    )


@dataclass
class LogModel:
    """All batches that were ever written and not cut off at the end."""

    batches: list[Stored] = field(default_factory=list)
    origin: int = 0
    """Where the first batch began."""
    log_start_offset: int = 0
    log_end_offset: int = 0
    high_watermark: int = 0
    recovery_point: int = 0
    epochs: Epochs = field(default_factory=list)
    rebuilt_at: int = 0
    """The log end offset when producers' state was last built from files."""

    # ---------------------------------------------------------------------------------- changes

    def append(self, batch: Stored) -> None:
        assert batch.base_offset == self.log_end_offset
        self.batches.append(batch)
        self.start_epoch(batch.leader_epoch)
        self.log_end_offset = batch.last_offset + 1

    def start_epoch(self, epoch: int) -> None:
        """The latest epoch goes on; any other starts at the end and takes the place of what started there."""
        if not self.epochs or self.epochs[-1][0] != epoch:
            self.epochs = [each for each in self.epochs if each[1] < self.log_end_offset]
            self.epochs.append((epoch, self.log_end_offset))

    def truncate(self, offset: int) -> None:
        if offset < self.log_end_offset:
            self.batches = [batch for batch in self.batches if batch.last_offset < offset]
            self.log_end_offset = self.batches[-1].last_offset + 1 if self.batches else self.origin
            self.rebuilt_at = self.log_end_offset
            offset = self.log_end_offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.epochs = [each for each in self.epochs if each[1] < offset]

    def start_over(self, offset: int) -> None:
        self.batches, self.epochs = [], []
        self.origin = self.log_start_offset = self.log_end_offset = self.high_watermark = self.rebuilt_at = offset
        self.recovery_point = min(self.recovery_point, offset)

    def advance(self, offset: int) -> None:
        self.log_start_offset = max(self.log_start_offset, offset)
        self.high_watermark = max(self.high_watermark, self.log_start_offset)
        before = [each for each in self.epochs if each[1] <= self.log_start_offset][-1:]
        after = [each for each in self.epochs if each[1] > self.log_start_offset]
        self.epochs = [(epoch, self.log_start_offset) for epoch, _ in before] + after

    def restart(self) -> None:
        """An epoch without batches at the end is forgotten."""
        self.epochs = [each for each in self.epochs if each[1] < self.log_end_offset]
        self.rebuilt_at = self.log_end_offset

    # ---------------------------------------------------------------------------------- questions

    def readable(self, offset: int, bound: int) -> bytes:
        """What a reader may get: a prefix of this, the first batch whole."""
        if offset >= bound:
            return b""
        return b"".join(
            batch.data for batch in self.batches if batch.last_offset >= offset and batch.base_offset < bound
        )

    def records(self) -> Iterator[tuple[int, int, int]]:
        """Timestamp, offset and leader epoch of all records that can be read."""
        for batch in self.batches:
            for number, timestamp in enumerate(batch.timestamps):
                if batch.base_offset + number >= self.log_start_offset:
                    yield timestamp, batch.base_offset + number, batch.leader_epoch

    def at_time(self, timestamp: int) -> tuple[int, int, int] | None:
        return next((record for record in self.records() if record[0] >= timestamp), None)

    def largest(self) -> tuple[int, int, int] | None:
        found = max(self.records(), key=lambda record: (record[0], -record[1]), default=None)
        return None if found is None or found[0] < 0 else found

    def transactions(self) -> list[Txn]:
        """All of them, the open ones included, in the order of their starts."""
        done: list[Txn] = []
        running: dict[int, list[int]] = {}
        for batch in self.batches:
            if batch.marker is not None:
                offsets = running.pop(batch.producer_id, None)
                if offsets is not None:
                    is_aborted = batch.marker is ControlType.ABORT
                    done.append(Txn(batch.producer_id, tuple(offsets), batch.base_offset, is_aborted))
            elif batch.is_transactional:
                running.setdefault(batch.producer_id, []).extend(range(batch.base_offset, batch.last_offset + 1))
        done += [Txn(producer_id, tuple(offsets), None, False) for producer_id, offsets in running.items()]
        return sorted(done, key=lambda txn: txn.offsets[0])

    def last_stable_offset(self, sure_from: int = 0) -> int:
        """Without the transactions whose markers are not replicated, or only with those from an offset on."""
        unreplicated_from = max(self.high_watermark, sure_from)
        unstable = [
            txn.offsets[0]
            for txn in self.transactions()
            if txn.marker_offset is None or txn.marker_offset >= unreplicated_from
        ]
        return max(self.log_start_offset, min([self.high_watermark, *unstable]))

    def aborted_offsets(self) -> dict[int, set[int]]:
        """The offsets of aborted records, by producer."""
        found: dict[int, set[int]] = {}
        for txn in self.transactions():
            if txn.is_aborted:
                found.setdefault(txn.producer_id, set()).update(txn.offsets)
        return found

    def batches_of(self, producer_id: int) -> list[Stored]:
        """The data batches of a producer, of its latest epoch."""
        of_producer = [batch for batch in self.batches if batch.producer_id == producer_id]
        epoch = of_producer[-1].producer_epoch if of_producer else -1
        return [batch for batch in of_producer if batch.marker is None and batch.producer_epoch == epoch]

    def has_open_txn(self, producer_id: int) -> bool:
        return any(txn.marker_offset is None for txn in self.transactions() if txn.producer_id == producer_id)
