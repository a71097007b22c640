"""The judge of groups is judged: a history with nothing wrong, and histories with one thing wrong each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.coordinators.groups import check
from tests.chaos.history import Event, Kind, Seen

GROUP = "g"
PLACES = ("t-0", "t-1")


class Tale:
    """A history in the making; every event comes a second after the one before."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, process: str, kind: Kind, f: str, **fields: object) -> None:
        self.events.append(Event(len(self.events) + 1.0, process, kind, f, **fields))  # type: ignore[arg-type]

    def own(self, process: str, generation: int, *places: str) -> None:
        records = tuple(Seen(place, -1, -1) for place in places)
        self.add(process, "ok", "owned", partition=GROUP, value=generation, records=records)

    def commit(self, process: str, generation: int, place: str, offset: int, kind: Kind = "ok") -> None:
        self.add(process, "invoke", "commit", partition=f"{GROUP}/{place}", offset=offset, value=generation)
        self.add(process, kind, "commit", partition=f"{GROUP}/{place}", offset=offset, value=generation)

    def ask(self, process: str, place: str, offset: int) -> None:
        self.add(process, "invoke", "offset", partition=f"{GROUP}/{place}")
        self.add(process, "ok", "offset", partition=f"{GROUP}/{place}", offset=offset)


def good() -> Tale:
    """One member, then two; one of them commits without being told, one is refused, and one dies."""
    tale = Tale()
    tale.own("a", 1, *PLACES)
    tale.ask("a", "t-0", 0)
    tale.commit("a", 1, "t-0", 1)
    tale.commit("a", 1, "t-1", 1)
    tale.add("nemesis", "info", "fault", note="a member comes")
    tale.own("a", 2, "t-0")
    tale.own("b", 2, "t-1")
    tale.ask("b", "t-1", 1)
    tale.commit("b", 2, "t-1", 2, "info")
    tale.commit("a", 1, "t-1", 2, "fail")
    tale.commit("a", 2, "t-0", 2)
    tale.own("b", 3, *PLACES)
    tale.ask("b", "t-0", 2)
    tale.ask("b", "t-1", 2)
    tale.commit("b", 3, "t-1", 3)
    return tale


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    verdict = check(good().events)
    assert verdict.anomalies == []
    assert (verdict.attempted, verdict.acked, verdict.unknown, verdict.faults, verdict.generations) == (6, 4, 1, 1, 3)
    assert verdict.longest_outage == 18.0


def double_owner() -> Tale:
    tale = good()
    tale.own("c", 3, "t-1")
    return tale


def generation_back() -> Tale:
    tale = good()
    tale.own("b", 5, *PLACES)
    tale.own("b", 4, *PLACES)
    return tale


def stale_commit() -> Tale:
    tale = good()
    tale.commit("a", 2, "t-0", 3)
    return tale


def offset_back() -> Tale:
    """Nobody was told that it was accepted, but somebody was told that it is there."""
    tale = good()
    tale.commit("b", 3, "t-0", 3, "info")
    tale.ask("b", "t-0", 3)
    tale.ask("b", "t-0", 2)
    return tale


def offset_lost() -> Tale:
    tale = good()
    tale.commit("b", 3, "t-0", 3)
    tale.ask("b", "t-0", 2)
    return tale


def offset_of_nobody() -> Tale:
    tale = good()
    tale.ask("b", "t-0", 9)
    return tale


def rebalanced() -> Tale:
    tale = good()
    tale.add("nemesis", "info", "rebalanced", note="g")
    return tale


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (double_owner, ["double-owner"]),
        (generation_back, ["generation-back"]),
        (stale_commit, ["stale-commit"]),
        (offset_back, ["offset-back"]),
        (offset_lost, ["offset-lost"]),
        (offset_of_nobody, ["phantom"]),
        (rebalanced, ["rebalanced"]),
    ],
)
def test_what_is_wrong_is_found(make: Callable[[], Tale], kinds: list[str]) -> None:
    assert [anomaly.kind for anomaly in check(make().events).anomalies] == kinds
