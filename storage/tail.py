"""Where the newest batches begin, without looking at the disk.

Nearly every read is at the end of a log: a consumer that keeps up asks for the offset after the last batch
it got, and the high watermark that limits it was a batch boundary a moment ago.  The last boundaries
are kept in memory, so such a read needs neither the index nor a walk over headers.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

_KEPT_MAX: Final = 2048
"""Trimmed to half of it when full.  At 1,000 batches a second the last second is there."""


class Tail:
    """Batch boundaries at the end of the segment being written, oldest first."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self, offset: int, position: int) -> None:
        self._offsets = [offset]
        self._positions = [position]

    def add(self, next_offset: int, position: int) -> None:
        """A batch was written that ends before `next_offset`, at `position`."""
        if len(self._offsets) == _KEPT_MAX:
            del self._offsets[: _KEPT_MAX // 2]
            del self._positions[: _KEPT_MAX // 2]
        self._offsets.append(next_offset)
        self._positions.append(position)

    def batch_position(self, offset: int) -> int | None:
        """Where the batch with this offset begins, if that is known."""
        if offset >= self._offsets[-1]:
            return self._positions[-1]
        number = bisect_right(self._offsets, offset) - 1
        return None if number < 0 else self._positions[number]

    def boundary_position(self, offset: int) -> int | None:
        """The position of a boundary at exactly this offset, if there is one."""
        if offset == self._offsets[-1]:
            return self._positions[-1]
        number = bisect_right(self._offsets, offset) - 1
        return None if number < 0 or self._offsets[number] != offset else self._positions[number]
