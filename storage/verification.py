"""Transactional batches that wait for their transaction coordinator to confirm them (KIP-890)."""

from __future__ import annotations


class Verification:
    """A question to the transaction coordinator on its way: is this partition part of the transaction?

    The append that was held back brings the object along. It must still be the current one then: a marker that came
    in between takes it away, so an answer about the old transaction cannot open a new one.

    With transaction version 2 no two transactions share an epoch, and the marker of one has the epoch of the next: that
    marker may be written while the next transaction's first batch is held back, and takes nothing away from it.
    """

    __slots__ = ("epoch", "has_own_epoch", "lowest_sequence", "started_ms")

    def __init__(self, epoch: int, sequence: int, now_ms: int, *, has_own_epoch: bool = False) -> None:
        self.epoch = epoch
        self.has_own_epoch = has_own_epoch
        self.lowest_sequence = sequence
        self.started_ms = now_ms

    def is_ended_by(self, marker_epoch: int) -> bool:
        """Whether a marker may be the end of the transaction that was asked about."""
        return self.epoch < marker_epoch or not self.has_own_epoch

    def note(self, epoch: int, sequence: int, *, has_own_epoch: bool = False) -> None:
        """A further batch waits for the same answer; the lowest sequence number has to be written first."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch = epoch
            self.has_own_epoch = has_own_epoch
            self.lowest_sequence = sequence
