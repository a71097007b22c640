"""A partition as far as producer state goes: batches and markers, each where the one before it ended."""

import pytest

from minikafka.protocol.errors import KafkaError
from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType, build_marker, read_marker
from minikafka.storage.producers import CompletedTxn, Origin, ProducerStates
from tests.storage.batches import NOW_MS, make_batch

PID = 70


class Partition:
    """Producer states, and the offset of the next batch."""

    def __init__(self) -> None:
        self.states = ProducerStates()
        self.end = 0

    def data(
        self,
        sequence: int,
        count: int = 1,
        *,
        pid: int = PID,
        epoch: int = 0,
        is_txn: bool = False,
        origin: Origin = Origin.CLIENT,
        now_ms: int = NOW_MS,
    ) -> None:
        batch = self.batch(sequence, count, pid=pid, epoch=epoch, is_txn=is_txn, now_ms=now_ms)
        self.states.check(batch, origin)
        assert self.states.update(batch) is None
        self.end = batch.next_offset

    def batch(
        self,
        sequence: int,
        count: int = 1,
        *,
        pid: int = PID,
        epoch: int = 0,
        is_txn: bool = False,
        now_ms: int = NOW_MS,
    ) -> BatchView:
        made = make_batch(
            count,
            base_offset=self.end,
            timestamps=[now_ms] * count,
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=sequence,
            attributes=0x10 if is_txn else 0,
        )
        return BatchView(made)

    def marker(
        self,
        control_type: ControlType = ControlType.COMMIT,
        *,
        pid: int = PID,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        origin: Origin = Origin.COORDINATOR,
        now_ms: int = NOW_MS,
    ) -> CompletedTxn | None:
        """Append a marker; what it completes is completed at once."""
        made = build_marker(
            control_type,
            producer_id=pid,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now_ms,
        )
        batch = BatchView(made)
        batch.patch_base_offset(self.end)
        self.states.check(batch, origin, read_marker(batch))
        completed = self.states.update(batch, read_marker(batch))
        self.end += 1
        if completed is not None:
            self.states.complete(completed)
        return completed

    def refused(self, error: type[KafkaError], sequence: int, **more: object) -> bool:
        before = self.states.snapshot()
        with pytest.raises(error):
            self.data(sequence, **more)  # type: ignore[arg-type]
        return self.states.snapshot() == before
