"""How long a partition did not acknowledge anything while somebody was trying to send to it.

A stretch begins with an acknowledgement after which others are still awaited, or with the first send after a time in
which nobody tried. It ends with the next acknowledgement. Sends that fail end nothing: whoever sends next tries on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.chaos.history import Event


class Outage(NamedTuple):
    """One stretch without an acknowledgement."""

    partition: str
    began: float
    seconds: float
    # Whether an acknowledgement ended it, and not the history.
    is_over: bool


class _Partition:
    """Sends to one partition, as they come and go."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._pending: set[int] = set()
        self._since: float | None = None

    def sent(self, time: float, value: int) -> None:
        self._pending.add(value)
        if self._since is None:
            self._since = time

    def acked(self, time: float, value: int) -> Outage | None:
        self._pending.discard(value)
        began = self._since
        self._since = time if self._pending else None
        return None if began is None else Outage(self.name, began, time - began, True)

    def failed(self, value: int) -> None:
        self._pending.discard(value)

    def ended(self, time: float) -> Outage | None:
        return None if self._since is None else Outage(self.name, self._since, time - self._since, False)


def find_stretches(events: Iterable[Event]) -> Iterator[Outage]:
    """Every stretch without an acknowledgement, however short, as it ends."""
    partitions: dict[str, _Partition] = {}
    now = 0.0
    for event in events:
        now = event.time
        if event.f != "send":
            continue
        partition = partitions.setdefault(event.partition, _Partition(event.partition))
        if event.kind == "invoke":
            partition.sent(now, event.value)
        elif event.kind == "ok" and (stretch := partition.acked(now, event.value)):
            yield stretch
        elif event.kind != "ok":
            partition.failed(event.value)
    for partition in partitions.values():
        if stretch := partition.ended(now):
            yield stretch


def find_outages(events: Iterable[Event]) -> list[Outage]:
    """The longest stretch of every partition."""
    longest: dict[str, Outage] = {}
    for stretch in find_stretches(events):
        if stretch.partition not in longest or stretch.seconds > longest[stretch.partition].seconds:
            longest[stretch.partition] = stretch
    return [longest[name] for name in sorted(longest)]


def outages_by_fault(events: Iterable[Event]) -> list[float]:
    """For every fault the longest stretch of any partition that ended after it and before the next fault."""
    listed = list(events)
    faults = [event.time for event in listed if event.f == "fault"]
    longest = [0.0] * len(faults)
    for stretch in find_stretches(listed):
        index = bisect_left(faults, stretch.began + stretch.seconds) - 1
        if index >= 0:
            longest[index] = max(longest[index], stretch.seconds)
    return longest
