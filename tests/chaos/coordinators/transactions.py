"""The judge of transactions: a pure function from events to a verdict, beside the one of single records.

f        events            fields
txn      invoke            value: its number; records: what it writes, and the offset it moves (see `OFFSETS`)
         ok, fail, info    it is committed, it is certainly not, nobody knows
end      invoke            value: a number; from now on it may be committed, before it must not be seen
poll     ok                records: what somebody was given who reads what is committed
offset   invoke, ok        partition: a group's place; with `ok` the offset that is committed there for certain
lso      ok                partition, offset: up to where is committed; value: up to where is written
final    info              `process` is a reader that has seen everything there is in the end
unfenced info              somebody was not refused who should have been; `note` says who
fault    info              `note` says what was done to the cluster

aborted-read           a value was read whose transaction was certainly not committed
precommitted-read      a value was read before its transaction could be committed
torn                   some values of a transaction are there in the end, and some are not
torn-offset            a transaction is there in the end and the offset it moves is not, or the other way round
lost                   a transaction was committed and nothing of it is there in the end
duplicate              one value at two offsets
inconsistent-offsets   two values at one offset
phantom                a value that nobody wrote there
offset-back            a committed offset is below one that was seen before
offset-lost            a committed offset is below one whose transaction had been committed before it was asked for
hung                   what is committed ended at one place for longer than any transaction may take
copied-twice           an input has two outputs
not-copied             an input has no output
unfenced               see above
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from tests.chaos.checker import Anomaly
from tests.chaos.history import Event, Kind, Seen

OFFSETS = "offsets of "
"""What a record of a transaction begins with that is no record: the group's place; its offset before, and after."""

TORN = ("torn", "torn-offset", "lost")
DIRTY = ("aborted-read", "precommitted-read")
HUNG = ("hung",)
BACK = ("offset-back", "offset-lost")


class Bounds(NamedTuple):
    """What a history is judged by."""

    hung_seconds: float
    """How long an open transaction may hold others up."""
    source: str = ""
    copied: str = ""
    """Topics of which the second is to hold what the first does."""


class Txn:
    """One transaction on its way."""

    def __init__(self, event: Event) -> None:
        self.number = event.value
        self.process = event.process
        self.began = event.time
        self.writes = {each.value: each.partition for each in event.records if not each.partition.startswith(OFFSETS)}
        moves = [each for each in event.records if each.partition.startswith(OFFSETS)]
        self.move: Seen | None = moves[0] if moves else None
        self.end_sent = float("inf")
        self.ended = float("inf")
        # Until it is heard of.
        self.kind: Kind = "info"


class Verdict(NamedTuple):
    """What a history comes to."""

    attempted: int
    committed: int
    unknown: int
    faults: int
    anomalies: list[Anomaly]
    longest_outage: float

    def count(self, *kinds: str) -> int:
        return sum(anomaly.kind in kinds for anomaly in self.anomalies)


class _Facts:
    """A history, put in order."""

    def __init__(self, events: Iterable[Event], bounds: Bounds) -> None:
        self.bounds = bounds
        self.events = sorted(events, key=lambda event: event.time)
        self.txns: dict[int, Txn] = {}
        self.writer: dict[int, Txn] = {}
        # partition -> offset -> values
        self.values: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        # partition -> value -> when it was read first
        self.read: dict[str, dict[int, float]] = defaultdict(dict)
        # partition -> value -> offsets, of everybody, and of the last reader
        self.offsets: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.final: dict[str, dict[int, int]] = defaultdict(dict)
        final = {event.process for event in self.events if event.f == "final"}
        for event in self.events:
            if event.f in ("txn", "end"):
                self._take_txn(event)
            elif event.f == "poll":
                self._take_poll(event, event.process in final)
        self.has_final = bool(final)

    def _take_txn(self, event: Event) -> None:
        if event.f == "end":
            txn = self.txns[event.value]
            txn.end_sent = min(txn.end_sent, event.time)
        elif event.kind == "invoke":
            txn = self.txns[event.value] = Txn(event)
            self.writer |= dict.fromkeys(txn.writes, txn)
        else:
            txn = self.txns[event.value]
            txn.ended, txn.kind = event.time, event.kind

    def _take_poll(self, event: Event, is_final: bool) -> None:
        for partition, offset, value in event.records:
            self.values[partition][offset].add(value)
            self.offsets[partition][value].add(offset)
            self.read[partition].setdefault(value, event.time)
            if is_final:
                self.final[partition][value] = offset

    def is_there(self, txn: Txn) -> list[bool]:
        """For each value of a transaction whether it is there in the end."""
        return [value in self.final[partition] for value, partition in txn.writes.items()]

    def is_copying(self, partition: str) -> bool:
        topic = partition.rpartition("-")[0]
        return topic in (self.bounds.source, self.bounds.copied)


def check(events: Iterable[Event], bounds: Bounds) -> Verdict:
    """Judge a history."""
    facts = _Facts(events, bounds)
    kinds = Counter(txn.kind for txn in facts.txns.values())
    searches = (_dirty, _torn, _chains, _misplaced, _strangers, _offsets, _hung, _copies, _told)
    return Verdict(
        attempted=len(facts.txns),
        committed=kinds["ok"],
        unknown=kinds["info"],
        faults=sum(event.f == "fault" for event in facts.events),
        anomalies=[anomaly for search in searches for anomaly in search(facts)],
        longest_outage=_longest_outage(facts),
    )


def _dirty(facts: _Facts) -> Iterator[Anomaly]:
    for partition, read in facts.read.items():
        for value, time in read.items():
            txn = facts.writer.get(value)
            if txn is None or facts.is_copying(partition):
                continue
            text = f"{value} of transaction {txn.number} of {txn.process}"
            if txn.kind == "fail":
                yield Anomaly("aborted-read", partition, f"{text}, which was not committed")
            elif time < txn.end_sent:
                yield Anomaly("precommitted-read", partition, f"{text} at {time:.3f}, before it could be committed")


def _torn(facts: _Facts) -> Iterator[Anomaly]:
    if not facts.has_final:
        return
    for txn in facts.txns.values():
        there = facts.is_there(txn)
        text = f"transaction {txn.number} of {txn.process}: {sum(there)} of {len(there)} values are there"
        if any(there) and not all(there):
            yield Anomaly("torn", "", text)
        elif txn.kind == "ok" and not any(there):
            yield Anomaly("lost", "", text)


def _chains(facts: _Facts) -> Iterator[Anomaly]:
    """The transactions that are there in the end move a group's offset step by step from 0 to where it is."""
    if not facts.has_final:
        return
    moves: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for txn in facts.txns.values():
        if txn.move is not None:
            moves[txn.move.partition] += (
                [(txn.move.offset, txn.move.value, txn.number)] if any(facts.is_there(txn)) else []
            )
    last = {event.partition: event.offset for event in facts.events if event.f == "offset" and event.kind == "ok"}
    for place, some in moves.items():
        chain = [(0, 0, -1), *sorted(some), (last.get(place, 0), last.get(place, 0), -1)]
        for (_, end, before), (start, _, after) in pairwise(chain):
            if end != start:
                text = f"the offset goes to {end} by transaction {before} and on from {start} by {after}"
                yield Anomaly("torn-offset", place, text)


def _misplaced(facts: _Facts) -> Iterator[Anomaly]:
    for partition, values in facts.values.items():
        for offset, here in sorted(values.items()):
            if len(here) > 1:
                yield Anomaly("inconsistent-offsets", partition, f"offset {offset} holds {sorted(here)}")
    for partition, offsets in facts.offsets.items():
        if facts.is_copying(partition):
            continue
        for value, places in sorted(offsets.items()):
            if len(places) > 1:
                yield Anomaly("duplicate", partition, f"{value} is at {sorted(places)}")


def _strangers(facts: _Facts) -> Iterator[Anomaly]:
    for partition, read in facts.read.items():
        if facts.is_copying(partition):
            continue
        for value in sorted(read):
            txn = facts.writer.get(value)
            if txn is None or txn.writes[value] != partition:
                yield Anomaly("phantom", partition, f"{value} was never written there")


def _offsets(facts: _Facts) -> Iterator[Anomaly]:
    """A group's place is moved forward only, so whoever asks later is told no less."""
    began: dict[tuple[str, str], float] = {}
    seen: list[tuple[float, str, int]] = []
    known = [(txn.ended, txn.move) for txn in facts.txns.values() if txn.kind == "ok" and txn.move is not None]
    for event in facts.events:
        if event.f != "offset":
            continue
        if event.kind == "invoke":
            began[event.process, event.partition] = event.time
            continue
        since = began[event.process, event.partition]
        before = max((offset for time, place, offset in seen if place == event.partition and time < since), default=0)
        moved = max(
            (move.value for time, move in known if move.partition == event.partition and time < since), default=0
        )
        if event.offset < before:
            yield Anomaly("offset-back", event.partition, f"{event.offset} after {before}")
        elif event.offset < moved:
            yield Anomaly("offset-lost", event.partition, f"{event.offset}, when {moved} had been committed")
        seen.append((event.time, event.partition, event.offset))


def _hung(facts: _Facts) -> Iterator[Anomaly]:
    since: dict[str, tuple[int, float]] = {}
    told: set[tuple[str, int]] = set()
    for event in facts.events:
        if event.f != "lso":
            continue
        offset, time = since.get(event.partition, (-1, event.time))
        if event.offset != offset or event.offset >= event.value:
            since[event.partition] = (event.offset, event.time)
        elif event.time - time > facts.bounds.hung_seconds and (event.partition, offset) not in told:
            told.add((event.partition, offset))
            text = f"at {offset} for more than {facts.bounds.hung_seconds:g} s, while {event.value} was written"
            yield Anomaly("hung", event.partition, text)


def _copies(facts: _Facts) -> Iterator[Anomaly]:
    if not facts.has_final or not facts.bounds.copied:
        return

    def values(topic: str, offsets: dict[str, dict[int, set[int]]]) -> Counter[int]:
        found: Counter[int] = Counter()
        for partition, here in offsets.items():
            if partition.rpartition("-")[0] == topic:
                found.update({value: len(places) for value, places in here.items()})
        return found

    copied = values(facts.bounds.copied, facts.offsets)
    for value, count in sorted(values(facts.bounds.source, facts.offsets).items()):
        if copied[value] != count:
            kind = "copied-twice" if copied[value] > count else "not-copied"
            yield Anomaly(kind, facts.bounds.copied, f"{value} has {copied[value]} outputs")


def _told(facts: _Facts) -> Iterator[Anomaly]:
    for event in facts.events:
        if event.f == "unfenced":
            yield Anomaly("unfenced", "", f"{event.process}: {event.note}")


def _longest_outage(facts: _Facts) -> float:
    """The longest time in which one of those who tried all the time could not commit."""
    longest = 0.0
    last: dict[str, float] = {}
    for event in facts.events:
        if event.f == "txn":
            name = event.process
            last.setdefault(name, event.time)
            longest = max(longest, event.time - last[name])
            if event.kind == "ok":
                last[name] = event.time
    return longest
