"""How far the readers of a partition get to see."""

from __future__ import annotations

from typing import NamedTuple


class Bound(NamedTuple):
    """What a reader gets to see: nothing at or above `offset`."""

    offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
