"""Which batches are for readers to see, asked in the order of their offsets.

Control batches never are. With read_committed neither are batches of aborted transactions: these are known by producer
and first offset, and each lasts until the marker that ends it.
"""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.protocol.records import BatchView, ControlType, read_marker


class Visibility:
    """See the module's description. `aborted` has producer ids and first offsets; None shows all."""

    def __init__(self, aborted: Iterable[tuple[int, int]] | None) -> None:
        self._hides_aborted = aborted is not None
        # Taken from the end.
        self._aborted = sorted(((offset, producer_id) for producer_id, offset in aborted or ()), reverse=True)
        self._producers: set[int] = set()

    def shows(self, batch: BatchView) -> bool:
        if not self._hides_aborted:
            return not batch.is_control
        while self._aborted and self._aborted[-1][0] <= batch.last_offset:
            self._producers.add(self._aborted.pop()[1])
        if batch.is_control:
            if batch.producer_id in self._producers:
                marker = read_marker(batch)
                if marker is not None and marker.type is ControlType.ABORT:
                    self._producers.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._producers)
