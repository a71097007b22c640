"""Which batches are for readers to see, asked in the order of their offsets.

Control batches never are. With read_committed neither are batches of aborted transactions: these are known by producer
and first offset, and each lasts until the marker that ends it. Files tell where that is, brokers do not; where it is
known it counts, since compaction may have removed the marker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from minikafka.protocol.records import BatchView, ControlType, read_marker

_NOT_KNOWN: Final = (1 << 63) - 1


class Aborted(NamedTuple):
    """An aborted transaction: its first record and its marker."""

    producer_id: int
    first_offset: int
    last_offset: int = _NOT_KNOWN


class Visibility:
    """See the module's description. None for `aborted` shows all."""

    def __init__(self, aborted: Iterable[Aborted] | None) -> None:
        self._hides_aborted = aborted is not None
        # Taken from the end.
        self._aborted = sorted(aborted or (), key=lambda each: each.first_offset, reverse=True)
        # Producers whose transaction is one of them, and where it ends.
        self._lasts: dict[int, int] = {}

    def shows(self, batch: BatchView) -> bool:
        if not self._hides_aborted:
            return not batch.is_control
        while self._aborted and self._aborted[-1].first_offset <= batch.last_offset:
            found = self._aborted.pop()
            self._lasts[found.producer_id] = found.last_offset
        is_aborted = batch.base_offset <= self._lasts.get(batch.producer_id, -1)
        if batch.is_control:
            if is_aborted:
                marker = read_marker(batch)
                if marker is not None and marker.type is ControlType.ABORT:
                    del self._lasts[batch.producer_id]
            return False
        return not (batch.is_transactional and is_aborted)
