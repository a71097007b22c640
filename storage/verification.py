"""Transactional batches that wait for their transaction coordinator to confirm them (KIP-890)."""

from __future__ import annotations


class Verification:
    """A question to the transaction coordinator on its way: is this partition part of the transaction?

    The append that was held back brings the object along. It must still be the current one then: a marker that came
    in between takes it away, so an answer about the old transaction cannot open a new one.
    """

    __slots__ = ("epoch", "lowest_sequence", "started_ms")

    def __init__(self, epoch: int, sequence: int, now_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.started_ms = now_ms

    def note(self, epoch: int, sequence: int) -> None:
        """A further batch waits for the same answer; the lowest sequence number has to be written first."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch = epoch
            self.lowest_sequence = sequence
