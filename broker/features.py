"""Features: what all brokers of a cluster must be able to do before any of them may be asked for it (KIP-584).

A broker registers which levels it supports. The controller finalizes a level when every live broker supports it, and
takes it back when one comes that does not. Clients learn of finalized levels when they connect, from any broker; the
epoch tells which of two answers is the newer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

TRANSACTION_VERSION: Final = "transaction.version"
"""Level 2: every transaction has an epoch of its own (KIP-890)."""


class Levels(NamedTuple):
    """The lowest and the highest level of a feature."""

    lowest: int
    highest: int


SUPPORTED: Final[Mapping[str, Levels]] = {TRANSACTION_VERSION: Levels(0, 2)}
"""What this broker can do."""


class Finalized(NamedTuple):
    """The levels that hold in the cluster; a level of 0 is left out."""

    levels: Mapping[str, int]
    epoch: int
    """-1 if nothing is known of them."""

    def level(self, feature: str) -> int:
        return self.levels.get(feature, 0)


NOTHING_FINALIZED: Final = Finalized({}, -1)


def common_levels(supported: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, int]:
    """The highest levels of our features that all brokers support; none of these if there are no brokers."""
    brokers = list(supported)
    found = {}
    for feature, levels in SUPPORTED.items():
        highest = min((each.get(feature, {}).get("max_version", 0) for each in brokers), default=0)
        if level := min(levels.highest, highest):
            found[feature] = level
    return found


def registered(supported: Mapping[str, Levels]) -> dict[str, dict[str, int]]:
    """Supported features as a broker's node has them."""
    return {name: {"min_version": each.lowest, "max_version": each.highest} for name, each in supported.items()}
