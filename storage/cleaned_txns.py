"""Transactions as compaction meets them, from the first batch of the log on.

Records of aborted transactions are dropped at once, whatever their keys. A marker is another matter: as long as any
record of its transaction is there, readers need it to tell where the transaction ends. So a marker may go only when
no batch of its transaction was met, and even then, like a tombstone, not before its delete horizon. What is met in
this round may all be dropped in this round; the marker then goes in a later one.

An aborted transaction whose marker stays with records before it stays in the transaction index. Without records it
leaves the index, since a reader who is told to skip its producer from there on would skip what the producer commits
later if the marker is gone by then.
"""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.protocol.records.batch import BatchView
from minikafka.protocol.records.control import ControlType, read_marker
from minikafka.storage.formats import AbortedTxn


class CleanedTxns:
    """Fed with every batch in order; `aborted` are the aborted transactions with any record in the log."""

    def __init__(self, aborted: Sequence[AbortedTxn]) -> None:
        # The last one is the first to begin.
        self._to_come = sorted(aborted, key=_first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}
        self._aborted_with_data: set[int] = set()
        self._committed: set[int] = set()

    def is_aborted(self, batch: BatchView) -> bool:
        """Whether a batch of data belongs to an aborted transaction."""
        self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._aborted_with_data.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def end(self, marker: BatchView) -> tuple[bool, AbortedTxn | None]:
        """Whether a control batch is still needed, and which aborted transaction is in the index with it if it is."""
        self._begin_up_to(marker.last_offset)
        if not marker.record_count:
            # It was emptied before, and is there for its producer's epoch only.
            return False, None
        ending = read_marker(marker)
        if ending is None:
            return True, None
        producer_id = marker.producer_id
        if ending.type is ControlType.COMMIT:
            has_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return has_data, None
        txn = self._aborted.pop(producer_id, None)
        has_data = producer_id in self._aborted_with_data
        self._aborted_with_data.discard(producer_id)
        # The index is in the order of its markers, whatever the one that was read says.
        return has_data, None if txn is None else txn._replace(last_offset=marker.last_offset)

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            txn = self._to_come.pop()
            self._aborted.setdefault(txn.producer_id, txn)


def _first_offset(txn: AbortedTxn) -> int:
    return txn.first_offset
