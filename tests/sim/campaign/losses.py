"""Which losses the documented guarantees permit, derived from the history of faults.

A record acknowledged by all in-sync replicas survives as long as one of them keeps what it has in memory. So in
`replicated` mode a loss is permitted only if a host lost power before another one that had lost it was in sync again
everywhere. In `fsync` mode no loss of power permits anything.

Of records it excuses those alone whose sends began before the last such moment: the history of later values is judged
by itself and has to be whole. Transactions and offsets of groups are excused for the whole run, since later ones
build on earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tests.chaos.history import Event


class PowerLog:
    """Hosts that lost power, until they are in sync again."""

    def __init__(self, durability: str, is_back: Callable[[int], bool], now: Callable[[], float]) -> None:
        """`is_back` says whether a host has everything again that others acknowledged."""
        self._now = now
        self._is_replicated = durability == "replicated"
        self._is_back = is_back
        self._away: set[int] = set()
        self.overlapped_at: float | None = None
        """When power losses overlapped for the last time."""

    @property
    def permits_loss(self) -> bool:
        return self.overlapped_at is not None

    def all_are_back(self) -> bool:
        self._away = {each for each in self._away if not self._is_back(each)}
        return not self._away

    def lost(self, broker_id: int) -> None:
        if not self.all_are_back() and self._away != {broker_id} and self._is_replicated:
            self.overlapped_at = self._now()
        self._away.add(broker_id)


LOSSES = frozenset(
    {"lost", "unseen", "vanished", "inconsistent-offsets", "reordered", "stale-ack", "poll-skip", "out-of-range"}
    | {"fatal", "torn", "torn-offset", "offset-back", "offset-lost", "stale-offset"}
)
"""What a permitted loss looks like; what is known of producers, transactions and groups is lost with their records."""


def violations(kinds: Collection[tuple[str, str]], *, permits_loss: bool) -> list[str]:
    """The anomalies, given as kind and text, that no guarantee permits."""
    return [f"{kind}: {text}" for kind, text in kinds if not (permits_loss and kind in LOSSES)]


def history_after(events: Sequence[Event], moment: float) -> list[Event]:
    """The history of the values whose sends began later, as if there had been no others.

    A reader's position and a producer's sequence are from before, so what those were refused is left out.
    """
    values = {each.value for each in events if each.f == "send" and each.kind == "invoke" and each.time > moment}
    return [
        each._replace(records=tuple(seen for seen in each.records if seen.value in values))
        for each in events
        if each.f == "final" or (each.f == "send" and each.value in values) or (each.f == "poll" and each.kind == "ok")
    ]
