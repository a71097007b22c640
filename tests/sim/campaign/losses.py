"""Which losses the documented guarantees permit, derived from the history of faults.

In `replicated` mode a record survives as long as one of the replicas that were in sync stays up or was stopped in good
order. After any other stop nobody knows whether a host has kept what was in its memory: kill -9 keeps it, a loss of
power does not. So a loss is permitted if several hosts have stopped like that, each before the others were in sync
again everywhere, and one of them has really lost something. With `fsync` neither loses anything. A host whose disk is
damaged loses its copy in both modes. And whatever a replica lacks that was not in sync is lost if an operator lets it
lead.

A permitted loss excuses that values which were sent before it are gone in the end, or are where their producers have
sent them once more, and nothing else: the history without what was seen of them elsewhere has to be free of anomalies.
Of transactions it excuses those that began before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.chaos.coordinators.transactions import OFFSETS
from tests.chaos.history import UNKNOWN_OFFSET, Event, Seen


class Permitted(NamedTuple):
    """When a loss was permitted for the first and for the last time."""

    first: float
    last: float


class Losses:
    """Hosts that might lack something until they are in sync again, and when a loss was permitted for the last time."""

    def __init__(self, durability: str, is_back: Callable[[int], bool], now: Callable[[], float]) -> None:
        """`is_back` says whether a host has everything again that others acknowledged."""
        self._now = now
        self._is_replicated = durability == "replicated"
        self._is_back = is_back
        # Whether they have really lost something.
        self._away: dict[int, bool] = {}
        self._doomed: dict[int, bool] = {}
        self.permitted: Permitted | None = None
        self.reasons: Counter[str] = Counter()

    def permit(self, reason: str) -> None:
        now = self._now()
        self.permitted = Permitted(now if self.permitted is None else self.permitted.first, now)
        self.reasons[reason] += 1

    def is_safe(self, broker_id: int, *, loses: bool, is_damage: bool = False) -> bool:
        """Whether a host may stop, and lose its copy or not, and no record is lost by that."""
        if not is_damage and not self._is_replicated:
            return True
        self._away = {host: has_lost for host, has_lost in self._away.items() if not self._is_back(host)}
        others = {**self._away, **self._doomed}
        others.pop(broker_id, None)
        return not others if loses else not any(others.values())

    def stopped(self, broker_id: int, *, loses: bool, is_damage: bool = False) -> None:
        """A host has stopped, not in good order."""
        if is_damage or self._is_replicated:
            if not self.is_safe(broker_id, loses=loses, is_damage=is_damage):
                self.permit("no copy that stayed")
            self._away[broker_id] = loses or self._away.get(broker_id, False)

    def doom(self, broker_id: int, *, loses: bool = False) -> None:
        """A host is going to be stopped because of what has just happened to it."""
        if loses or self._is_replicated:
            self._doomed[broker_id] = loses

    def forget_doom(self, broker_id: int) -> None:
        self._doomed.pop(broker_id, None)


def without_lost(events: Sequence[Event], permitted: Permitted) -> list[Event]:
    """The history of records without what was seen, where it is not in the end, of values sent before a permitted loss.

    What a client was refused after the first one is left out: its position, or its sequence, may be of what is gone.
    """
    final = {event.process for event in events if event.f == "final"}
    there = {seen for event in events if event.process in final for seen in event.records}
    kept = {seen.value for seen in there}
    sends = [event for event in events if event.f == "send" and event.kind == "invoke"]
    excused = {event.value for event in sends if event.time <= permitted.last}
    history = []
    for event in events:
        if event.f == "send" and event.value in excused:
            if event.value not in kept:
                continue
            if Seen(event.partition, event.offset, event.value) not in there:
                event = event._replace(offset=UNKNOWN_OFFSET)
        if event.time >= permitted.first and (event.f == "fatal" or (event.f == "poll" and event.kind == "fail")):
            continue
        records = tuple(seen for seen in event.records if seen.value not in excused or seen in there)
        history.append(event._replace(records=records))
    return history


def transactions_after(events: Sequence[Event], permitted: Permitted) -> list[Event]:
    """The history of the transactions that began after a permitted loss, without the offsets that they move.

    Those are steps on from offsets that may be gone.
    """
    begun = [event for event in events if event.f == "txn" and event.kind == "invoke" and event.time > permitted.last]
    numbers = {event.value for event in begun}
    values = {seen.value for event in begun for seen in event.records if not seen.partition.startswith(OFFSETS)}
    return [
        event._replace(
            records=tuple(
                seen for seen in event.records if seen.value in values and not seen.partition.startswith(OFFSETS)
            )
        )
        for event in events
        if (event.f in ("txn", "end") and event.value in numbers) or event.f in ("poll", "assign", "final")
    ]


def without_offsets(events: Sequence[Event]) -> list[Event]:
    """The history of a group without the offsets that it was given: where a log was cut, its readers go back."""
    return [event for event in events if event.f != "offset"]
