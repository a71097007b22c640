"""Which losses the documented guarantees permit, derived from the history of faults.

A record acknowledged by all in-sync replicas survives as long as one of them keeps what it has in memory. So in
`replicated` mode a loss is permitted only if a host lost power before another one that had lost it was in sync again
everywhere. In `fsync` mode no loss of power permits anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection


class PowerLog:
    """Hosts that lost power, until they are in sync again."""

    def __init__(self, durability: str, is_back: Callable[[int], bool]) -> None:
        """`is_back` says whether a host has everything again that others acknowledged."""
        self._is_replicated = durability == "replicated"
        self._is_back = is_back
        self._away: set[int] = set()
        self.permits_loss = False

    def all_are_back(self) -> bool:
        self._away = {each for each in self._away if not self._is_back(each)}
        return not self._away

    def lost(self, broker_id: int) -> None:
        if not self.all_are_back() and self._away != {broker_id} and self._is_replicated:
            self.permits_loss = True
        self._away.add(broker_id)


LOSSES = frozenset(
    {"lost", "unseen", "vanished", "inconsistent-offsets", "stale-ack", "poll-skip", "out-of-range", "fatal"}
)
"""What a permitted loss looks like in a history of records; what is known of producers is lost with their records."""


def violations(kinds: Collection[tuple[str, str]], *, permits_loss: bool) -> list[str]:
    """The anomalies, given as kind and text, that no guarantee permits."""
    return [f"{kind}: {text}" for kind, text in kinds if not (permits_loss and kind in LOSSES)]
