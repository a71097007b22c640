"""The judge of groups: a pure function from events to a verdict, beside the one of single records.

    f        events                  fields
    owned    ok                      process: a life of a member; value: generation; records: what it owns in it
    commit   invoke, ok, fail, info  partition: a group's place; offset; value: generation
    offset   invoke, ok              partition: a group's place; with `ok` the offset that is committed there
    rebalanced info                  others were disturbed who should not have been; `note` says when
    fault    info                    `note` says what was done to the cluster

Everybody who owns a place asks for its offset and then commits greater ones only.

    double-owner      two members own one place in one generation
    generation-back   a generation is below one that was owned before
    stale-commit      an offset was accepted of a generation after which there was another already
    offset-back       an offset is below one that was told before
    offset-lost       an offset is below one that was accepted before it was asked for
    phantom           an offset that nobody committed
    rebalanced        see above
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.chaos.checker import Anomaly
from tests.chaos.history import Event, Kind


class Commit:
    """One offset on its way."""

    def __init__(self, event: Event) -> None:
        self.process = event.process
        self.place = event.partition
        self.offset = event.offset
        self.generation = event.value
        self.began = event.time
        self.ended = float("inf")
        # Until it is heard of.
        self.kind: Kind = "info"

    @property
    def group(self) -> str:
        return self.place.partition("/")[0]


class Verdict(NamedTuple):
    """What a history comes to."""

    attempted: int
    acked: int
    unknown: int
    faults: int
    generations: int
    anomalies: list[Anomaly]
    longest_outage: float


class _Facts:
    """A history, put in order."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = sorted(events, key=lambda event: event.time)
        self.commits: list[Commit] = []
        # group -> generation -> when it was owned by somebody for the first time
        self.generations: dict[str, dict[int, float]] = defaultdict(dict)
        open_ones: dict[tuple[str, str], Commit] = {}
        for event in self.events:
            if event.f == "owned":
                self.generations[event.partition].setdefault(event.value, event.time)
            elif event.f == "commit" and event.kind == "invoke":
                commit = open_ones[event.process, event.partition] = Commit(event)
                self.commits.append(commit)
            elif event.f == "commit":
                commit = open_ones[event.process, event.partition]
                commit.ended, commit.kind = event.time, event.kind


def check(events: Iterable[Event]) -> Verdict:
    """Judge a history."""
    facts = _Facts(events)
    searches = (_owners, _generations, _stale, _offsets, _told)
    return Verdict(
        attempted=len(facts.commits),
        acked=sum(commit.kind == "ok" for commit in facts.commits),
        unknown=sum(commit.kind == "info" for commit in facts.commits),
        faults=sum(event.f == "fault" for event in facts.events),
        generations=sum(map(len, facts.generations.values())),
        anomalies=[anomaly for search in searches for anomaly in search(facts)],
        longest_outage=_longest_outage(facts),
    )


def _owners(facts: _Facts) -> Iterator[Anomaly]:
    owners: dict[tuple[str, int, str], str] = {}
    for event in facts.events:
        if event.f != "owned":
            continue
        for place, _, _ in event.records:
            owner = owners.setdefault((event.partition, event.value, place), event.process)
            if owner != event.process:
                text = f"{owner} and {event.process} own {place} in generation {event.value}"
                yield Anomaly("double-owner", event.partition, text)


def _generations(facts: _Facts) -> Iterator[Anomaly]:
    for group, generations in facts.generations.items():
        highest = -1
        for generation, time in sorted(generations.items(), key=lambda each: each[1]):
            if generation < highest:
                yield Anomaly("generation-back", group, f"{generation} after {highest} at {time:.3f}")
            highest = max(highest, generation)


def _stale(facts: _Facts) -> Iterator[Anomaly]:
    for commit in facts.commits:
        if commit.kind != "ok":
            continue
        later = [
            generation
            for generation, time in facts.generations[commit.group].items()
            if generation > commit.generation and time < commit.began
        ]
        if later:
            text = f"{commit.process} committed in generation {commit.generation} after {max(later)} had begun"
            yield Anomaly("stale-commit", commit.place, text)


def _offsets(facts: _Facts) -> Iterator[Anomaly]:
    accepted: dict[str, list[tuple[float, int]]] = defaultdict(list)
    asked: dict[str, set[int]] = defaultdict(set)
    for commit in facts.commits:
        asked[commit.place].add(commit.offset)
        if commit.kind == "ok":
            accepted[commit.place].append((commit.ended, commit.offset))
    told: dict[str, list[tuple[float, int]]] = defaultdict(list)
    began: dict[tuple[str, str], float] = {}
    for event in facts.events:
        if event.f != "offset":
            continue
        place, key = event.partition, (event.process, event.partition)
        if event.kind == "invoke":
            began[key] = event.time
            continue
        before = max((offset for time, offset in told[place] if time < began[key]), default=0)
        least = max((offset for time, offset in accepted[place] if time < began[key]), default=0)
        if event.offset < before:
            yield Anomaly("offset-back", place, f"{event.process} was told {event.offset} after {before}")
        elif event.offset < least:
            yield Anomaly("offset-lost", place, f"{event.process} was told {event.offset}, {least} was accepted")
        elif event.offset and asked[place] and event.offset not in asked[place]:
            yield Anomaly("phantom", place, f"{event.process} was told {event.offset}")
        told[place].append((event.time, event.offset))


def _told(facts: _Facts) -> Iterator[Anomaly]:
    for event in facts.events:
        if event.f == "rebalanced":
            yield Anomaly("rebalanced", "", event.note)


def _longest_outage(facts: _Facts) -> float:
    """The longest time in which nothing was accepted for a place."""
    longest = 0.0
    last: dict[str, float] = {}
    for commit in facts.commits:
        if commit.kind == "ok":
            longest = max(longest, commit.ended - last.get(commit.place, commit.ended))
            last[commit.place] = commit.ended
    return longest
