"""What a partition knows of its producers: sequence numbers, epochs and open transactions.

A batch of an idempotent producer says which of its records it holds. The partition keeps the last five batches of
every producer id, so that it can tell a retry (answered with the offsets of the first try) from a gap (refused), and
the highest epoch, so that a producer which was replaced is refused. Everything here follows from the batches of the
log in their order: replicas come to the same state, and loading replays what came after the last snapshot.

`check` decides before the append and changes nothing, `update` is called for each batch that was written and never
refuses. A batch from a leader, or from our own disk, is a fact and is not checked.

A transaction opens with the first transactional batch of its producer and ends with a marker. Readers of committed
data stop at the first unstable offset: the start of the oldest transaction that is open, or whose marker is not
below the high watermark yet, since an unreplicated marker may still be lost.

A producer expires when nothing of it was appended for long, by the monotonic clock of this broker: neither the
timestamps of its records nor the wall clock say whether it is active. Kafka goes by the timestamps, and forgets a
producer that writes old records. After loading, every producer has its whole time again.

Pure: no disk and no clock. The log keeps snapshots in `<offset>.snapshot` files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple, Self

from minikafka.protocol.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType, EndMarker
from minikafka.protocol.records.layout import (
    CONTROL_BIT,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SEQUENCE_MASK,
    TRANSACTIONAL_BIT,
)
from minikafka.storage.formats import ProducerSnapshotEntry
from minikafka.storage.verification import Verification

BATCHES_KEPT: Final = 5
"""As many requests as an idempotent producer may have in flight."""

NO_OFFSET: Final = -1
NO_COORDINATOR_EPOCH: Final = -1


class Origin(Enum):
    """Who appends, and so what is checked."""

    CLIENT = "client"
    REPLICATION = "replication"
    COORDINATOR = "coordinator"
    """Our own group and transaction coordinators: offsets, which have no sequence numbers, and markers."""


# Looking a member up in its class takes longer than comparing it.
_CLIENT = Origin.CLIENT
_REPLICATION = Origin.REPLICATION


class BatchMeta(NamedTuple):
    """What is kept of a batch to recognise it when it comes again."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @classmethod
    def of(cls, batch: BatchView) -> Self:
        return cls(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)

    @property
    def first_sequence(self) -> int:
        return self.last_sequence - self.offset_delta & SEQUENCE_MASK

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTxn(NamedTuple):
    """A transaction that a marker has ended; the marker is at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class Producer:
    """The state of one producer id."""

    __slots__ = (
        "__weakref__",
        "batches",
        "coordinator_epoch",
        "epoch",
        "idle_since_ms",
        "last_timestamp",
        "txn_first_offset",
    )

    def __init__(self) -> None:
        self.epoch = NO_PRODUCER_EPOCH
        # Oldest first, all of `epoch`.
        self.batches: list[BatchMeta] = []
        self.last_timestamp = NO_TIMESTAMP
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.txn_first_offset: int | None = None
        # When it was first found to be idle; None if it has appended since.
        self.idle_since_ms: int | None = None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def next_sequence(self, epoch: int) -> int:
        """What a batch of an epoch has to begin with: the first of a new one with 0, also after a marker brought it."""
        return self.last_sequence + 1 & SEQUENCE_MASK if epoch == self.epoch else 0

    def has_open(self, epoch: int) -> bool:
        """Whether the transaction of an epoch is open here."""
        return self.txn_first_offset is not None and self.epoch == epoch

    def enter_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether it was idle for so long; to be asked regularly, since idleness begins with the first time."""
        if self.idle_since_ms is None:
            self.idle_since_ms = now_ms
        return self.txn_first_offset is None and now_ms - self.idle_since_ms >= expiration_ms


class ProducerStates:
    """The producers of one partition, up to `map_end_offset`."""

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        # First offset -> producer id. Transactions open at ever higher offsets, so the first key is the lowest.
        self._open_txns: dict[int, int] = {}
        # In the order of their markers.
        self._unreplicated: deque[CompletedTxn] = deque()
        self._verifications: dict[int, Verification] = {}
        self.first_unstable_offset: int | None = None
        # The second is after the last batch that changed the state: a cut here or later leaves it as it is.
        self.map_end_offset = self.changed_end_offset = 0

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def recent(self, since_ms: int) -> dict[int, Producer]:
        """Those that have written since, without what they wrote in an earlier epoch."""
        found = self._producers.items()
        return {key: each for key, each in found if each.batches and each.last_timestamp >= since_ms}

    # ---------------------------------------------------------------------------------- before the append

    def duplicate_of(self, batch: BatchView) -> BatchMeta | None:
        """The batch of a client that was written before under the same sequence numbers, if it is remembered."""
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            return None
        last_sequence = batch.last_sequence
        for known in producer.batches:
            if known[0] == last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None

    def check(self, batch: BatchView, origin: Origin, marker: EndMarker | None = None) -> None:
        """Raise the KafkaError that the batch deserves; `marker` is what a control batch holds."""
        if batch.producer_id < 0 or origin is _REPLICATION:
            return
        producer = self._producers.get(batch.producer_id)
        if producer is not None and batch.producer_epoch < producer.epoch:
            raise InvalidProducerEpochError(
                f"producer {batch.producer_id} is at epoch {producer.epoch}, not {batch.producer_epoch}"
            )
        if producer is None:
            if self._verifications and origin is _CLIENT:
                self._check_waiting(batch)
            return
        if batch.attributes & CONTROL_BIT:
            if marker is not None and marker.coordinator_epoch < producer.coordinator_epoch:
                raise TransactionCoordinatorFencedError(
                    f"producer {batch.producer_id} is at coordinator epoch {producer.coordinator_epoch}"
                )
            return
        if origin is _CLIENT:
            self._check_sequence(batch, producer)
        if producer.txn_first_offset is not None and not batch.attributes & TRANSACTIONAL_BIT:
            raise InvalidTxnStateError(f"producer {batch.producer_id} has an open transaction")

    def _check_waiting(self, batch: BatchView) -> None:
        """A batch must not overtake one before it that waits for the transaction coordinator.

        Only of a producer that is new here, whose first batch may have any number. Of one that is known the next number
        is known too; and what waits may be an old batch that was late on its way, which nobody will send again.
        """
        waiting = self._verifications.get(batch.producer_id)
        if waiting is not None and batch.base_sequence > waiting.lowest_sequence:
            raise OutOfOrderSequenceNumberError(
                f"producer {batch.producer_id} has to send sequence {waiting.lowest_sequence} first"
            )

    def _check_sequence(self, batch: BatchView, producer: Producer) -> None:
        # The very first batch of a producer id may have any: what came before may have been deleted.
        expected = producer.next_sequence(batch.producer_epoch)
        if batch.base_sequence != expected and producer.epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequenceNumberError(
                f"producer {batch.producer_id} continues with sequence {expected}, not {batch.base_sequence}"
            )

    # ---------------------------------------------------------------------------------- after the append

    def update(self, batch: BatchView, marker: EndMarker | None = None) -> CompletedTxn | None:
        """Take in a batch that is in the log now, at its own offsets; the transaction that it ends, if any.

        The caller writes an aborted transaction to the transaction index, with `last_stable_offset_of`, and in any
        case calls `complete`.
        """
        self.map_end_offset = batch.base_offset + batch.last_offset_delta + 1
        producer_id = batch.producer_id
        if producer_id < 0:
            return None
        self.changed_end_offset = self.map_end_offset
        if batch.attributes & CONTROL_BIT:
            return self._end_transaction(batch, marker)
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer()
        if batch.producer_epoch != producer.epoch:
            producer.enter_epoch(batch.producer_epoch)
        elif len(producer.batches) == BATCHES_KEPT:
            del producer.batches[0]
        meta = BatchMeta(batch.last_sequence, self.map_end_offset - 1, batch.last_offset_delta, batch.max_timestamp)
        producer.batches.append(meta)
        producer.last_timestamp = batch.max_timestamp
        producer.idle_since_ms = None
        if batch.attributes & TRANSACTIONAL_BIT:
            if producer.txn_first_offset is None:
                self._open_transaction(producer_id, producer, batch.base_offset)
            self._verifications.pop(producer_id, None)
        return None

    def _open_transaction(self, producer_id: int, producer: Producer, first_offset: int) -> None:
        producer.txn_first_offset = first_offset
        self._open_txns[first_offset] = producer_id
        if self.first_unstable_offset is None:
            self.first_unstable_offset = first_offset

    def _end_transaction(self, batch: BatchView, marker: EndMarker | None) -> CompletedTxn | None:
        # Compaction empties the batch of a marker once the transaction's records are gone.
        if marker is None:
            return None
        producer = self._producers.setdefault(batch.producer_id, Producer())
        first_offset = producer.txn_first_offset
        producer.enter_epoch(batch.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = batch.max_timestamp
        producer.idle_since_ms = None
        producer.txn_first_offset = None
        verification = self._verifications.get(batch.producer_id)
        if verification is not None and verification.is_ended_by(batch.producer_epoch):
            del self._verifications[batch.producer_id]
        # A transaction that wrote nothing here holds nobody up.
        if first_offset is None:
            return None
        return CompletedTxn(batch.producer_id, first_offset, batch.base_offset, marker.type is ControlType.ABORT)

    def last_stable_offset_of(self, completed: CompletedTxn) -> int:
        """The last stable offset as it will be once the marker is replicated, for the transaction index."""
        for first_offset, producer_id in self._open_txns.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTxn) -> None:
        """The marker is written: only the high watermark holds the transaction back."""
        self._open_txns.pop(completed.first_offset, None)
        self._unreplicated.append(completed)

    # ---------------------------------------------------------------------------------- as the log moves on

    def on_high_watermark(self, high_watermark: int) -> None:
        """Let go of the transactions whose markers are below it."""
        unreplicated = self._unreplicated
        if not unreplicated or unreplicated[0].last_offset >= high_watermark:
            return
        while unreplicated and unreplicated[0].last_offset < high_watermark:
            unreplicated.popleft()
        starts = [txn.first_offset for txn in unreplicated]
        # Of the open ones the first is enough.
        starts += [*self._open_txns][:1]
        self.first_unstable_offset = min(starts, default=None)

    def on_log_start_offset(self, log_start_offset: int) -> None:
        """Records before it are gone, and so are markers there; producers stay until they expire."""
        self.on_high_watermark(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget those that were silent for so long, unless a transaction is open; how many."""
        gone = [key for key, producer in self._producers.items() if producer.is_expired(now_ms, expiration_ms)]
        for producer_id in gone:
            del self._producers[producer_id]
        stale = [key for key, asked in self._verifications.items() if now_ms - asked.started_ms >= expiration_ms]
        for producer_id in stale:
            del self._verifications[producer_id]
        return len(gone)

    def truncate_fully(self, start_offset: int) -> None:
        """Forget all of the log, which goes on at another offset, or is replayed from there."""
        for known in (self._producers, self._open_txns, self._unreplicated):
            known.clear()
        self.first_unstable_offset = None
        self.map_end_offset, self.changed_end_offset = start_offset, 0

    # ---------------------------------------------------------------------------------- snapshots

    def snapshot(self) -> list[ProducerSnapshotEntry]:
        """All producers, for a snapshot at `map_end_offset` and for DescribeProducers; of batches only the last."""
        entries = []
        for producer_id, producer in self._producers.items():
            last = producer.batches[-1] if producer.batches else BatchMeta(NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)
            entries.append(
                ProducerSnapshotEntry(
                    producer_id=producer_id,
                    producer_epoch=producer.epoch,
                    last_sequence=last.last_sequence,
                    last_offset=last.last_offset,
                    offset_delta=last.offset_delta,
                    last_timestamp=producer.last_timestamp,
                    coordinator_epoch=producer.coordinator_epoch,
                    current_txn_first_offset=(
                        NO_OFFSET if producer.txn_first_offset is None else producer.txn_first_offset
                    ),
                )
            )
        return entries

    def load(self, entries: Iterable[ProducerSnapshotEntry], log_start_offset: int) -> None:
        """Start from a snapshot; the caller has set `map_end_offset` to its offset."""
        self.truncate_fully(max(self.map_end_offset, log_start_offset))
        for entry in entries:
            producer = Producer()
            producer.epoch = entry.producer_epoch
            producer.last_timestamp = entry.last_timestamp
            producer.coordinator_epoch = entry.coordinator_epoch
            if entry.last_offset >= 0:
                producer.batches.append(
                    BatchMeta(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.last_timestamp)
                )
            if entry.current_txn_first_offset >= 0:
                producer.txn_first_offset = entry.current_txn_first_offset
            self._producers[entry.producer_id] = producer
        opened = [(p.txn_first_offset, pid) for pid, p in self._producers.items() if p.txn_first_offset is not None]
        self._open_txns.update(sorted(opened))
        self.first_unstable_offset = min(self._open_txns, default=None)

    # ---------------------------------------------------------------------------------- verification

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, has_own_epoch: bool = False
    ) -> Verification | None:
        """What to hold a transactional batch for while the coordinator is asked; None if its transaction is open.

        One that is open in another epoch is another one: its marker is still on the way (KIP-890).
        """
        producer = self._producers.get(producer_id)
        if producer is not None and producer.has_open(epoch):
            return None
        new = Verification(epoch, sequence, now_ms, has_own_epoch=has_own_epoch)
        verification = self._verifications.setdefault(producer_id, new)
        verification.note(epoch, sequence, has_own_epoch=has_own_epoch)
        return verification

    def check_verification(self, batch: BatchView, verification: Verification | None) -> None:
        """Raise InvalidTxnState for a transactional batch that nobody has vouched for."""
        if batch.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) != TRANSACTIONAL_BIT:
            return
        producer = self._producers.get(batch.producer_id)
        if producer is not None and producer.has_open(batch.producer_epoch):
            return
        if verification is None or self._verifications.get(batch.producer_id) is not verification:
            raise InvalidTxnStateError(f"producer {batch.producer_id} has no transaction that includes the partition")
