"""Which leader wrote what: the leader epochs of a partition, each with the offset it starts at.

Epoch and start offset grow together from entry to entry. An epoch ends where the next one starts, the latest at the
log end. Replicas compare these ends to find where their logs part, so the entries must be right for every offset that
the log holds, and gone for offsets that it lost: `assign` removes what contradicts a new entry, `truncate_from_end`
and `truncate_from_start` follow the log's own ends.

Pure: whoever owns the object writes `entries()` to `leader-epoch-checkpoint` when `is_dirty` says so, and then clears
the flag. An assigned epoch must be on disk before its first batch; a truncation may be written later, since loading
truncates again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from minikafka.storage.formats import BadFile

# Kafka's "no such epoch" and "no such offset".
UNDEFINED = -1


class LeaderEpochs:
    """Entries (epoch, start offset), strictly growing in both; BadFile for entries of a file that cannot be."""

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        # Two lists in step: bisecting one of them is the only search there is.
        self._epochs: list[int] = []
        self._starts: list[int] = []
        try:
            for epoch, start_offset in entries:
                self.assign(epoch, start_offset)
        except ValueError as error:
            raise BadFile(str(error)) from None
        self.is_dirty = False

    def __len__(self) -> int:
        return len(self._epochs)

    def entries(self) -> list[tuple[int, int]]:
        return [*zip(self._epochs, self._starts, strict=True)]

    @property
    def latest_epoch(self) -> int | None:
        return self._epochs[-1] if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Let the epoch start at the offset, and tell whether anything changed.

        The latest epoch keeps its start, unless the new one is lower. Entries that would not come before the new one
        in both numbers are removed, epochs that are higher included: the caller has the batches to prove it.
        """
        # Both numbers come out of files, and of batches of other brokers.
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"there is no leader epoch {epoch} that starts at offset {start_offset}")
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == epoch and starts[-1] <= start_offset:
            return False
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        self.is_dirty = True
        return True

    def start_offset_of(self, epoch: int) -> int | None:
        at = bisect_left(self._epochs, epoch)
        return self._starts[at] if at < len(self._epochs) and self._epochs[at] == epoch else None

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch that an offset was or would be written in; None before the first entry."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above the one asked for and the offset where it ends; both UNDEFINED if unknown.

        An epoch before all entries was removed together with its data, so the answer is the asked epoch and the start
        of what is left. An epoch after all entries is not known here.
        """
        if not self._epochs or epoch == UNDEFINED:
            return UNDEFINED, UNDEFINED
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        at = bisect_right(self._epochs, epoch)
        if at == len(self._epochs):
            return UNDEFINED, UNDEFINED
        return self._epochs[at - 1] if at else epoch, self._starts[at]

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget the epochs that start at the offset or later, and tell whether there were any."""
        at = bisect_left(self._starts, end_offset)
        if at == len(self._starts):
            return False
        del self._epochs[at:], self._starts[at:]
        self.is_dirty = True
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget the epochs that end at the offset or before it; the one that it lies in starts there from now on.

        The latest epoch ends nowhere, so something is always left.
        """
        at = bisect_right(self._starts, start_offset)
        if not at or (at == 1 and self._starts[0] == start_offset):
            return False
        del self._epochs[: at - 1], self._starts[: at - 1]
        self._starts[0] = start_offset
        self.is_dirty = True
        return True

    def clear(self) -> None:
        """Forget all, as a log does that starts anew at another offset."""
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.is_dirty = True
