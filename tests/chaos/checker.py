"""The judge of a history: a pure function from events to a verdict, after Jepsen's checker for Kafka.

What is known of a partition is one map from offsets to values, made of everything that any reader was given, at any
time, and of every acknowledgement. Reading is always safe, so two values at one offset are a fault whoever saw them.

    inconsistent-offsets   two values at one offset
    duplicate              one value at two offsets
    lost                   acknowledged and never read, though readers came past its offset
    unseen                 acknowledged and never read, and nobody came that far
    vanished               read by somebody, and not there in the end
    reordered              two values of one producer in the other order than they were sent
    stale-ack              an offset not above every one that was acknowledged before the send began
    poll-skip              a reader was given what comes after a record, but not the record
    nonmonotonic-poll      a reader was given an offset again, or an earlier one
    phantom                a value in a partition that nobody sent there
    failed-read            a value was read whose send was certainly refused
    out-of-range           a reader was told that the offset it goes on from is none
    fatal                  a producer was told something after which it cannot go on
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from tests.chaos.history import UNKNOWN_OFFSET, Event, Kind
from tests.chaos.outages import Outage, find_outages

LOST = ("lost", "unseen", "vanished")
DUPLICATED = ("duplicate",)
REORDERED = ("reordered",)


class Anomaly(NamedTuple):
    """One thing that must not be."""

    kind: str
    partition: str
    text: str
    offsets: tuple[int, ...] = ()
    """Where its copies are, of a value that is there more than once."""


class Verdict(NamedTuple):
    """What a history comes to."""

    attempted: int
    acked: int
    failed: int
    unknown: int
    read: int
    faults: int
    anomalies: list[Anomaly]
    outages: list[Outage]
    """For every partition the longest time without an acknowledgement while somebody was trying."""

    def count(self, *kinds: str) -> int:
        return sum(anomaly.kind in kinds for anomaly in self.anomalies)

    @property
    def lost(self) -> int:
        return self.count(*LOST)

    @property
    def duplicated(self) -> int:
        return self.count(*DUPLICATED)

    @property
    def reordered(self) -> int:
        return self.count(*REORDERED)

    @property
    def others(self) -> int:
        return len(self.anomalies) - self.lost - self.duplicated - self.reordered

    @property
    def longest_outage(self) -> float:
        return max((outage.seconds for outage in self.outages), default=0.0)


class Send:
    """One value on its way."""

    __slots__ = ("began", "ended", "kind", "offset", "partition", "process", "value")

    def __init__(self, event: Event) -> None:
        self.process = event.process
        self.partition = event.partition
        self.value = event.value
        self.began = event.time
        self.ended = float("inf")
        # Until it is heard of.
        self.kind: Kind = "info"
        self.offset = UNKNOWN_OFFSET


class _Facts:
    """A history, put in order."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = sorted(events, key=lambda event: event.time)
        self.sends: dict[int, Send] = {}
        # partition -> offset -> values, and partition -> value -> offsets
        self.values: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.offsets: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        # partition -> what anybody was given, and what was there in the end
        self.read: dict[str, set[int]] = defaultdict(set)
        self.final: dict[str, set[int]] = defaultdict(set)
        self.highest_read: dict[str, int] = defaultdict(lambda: -1)
        final = {event.process for event in self.events if event.f == "final"}
        for event in self.events:
            if event.f == "send":
                self._take_send(event)
            elif event.f == "poll":
                self._take_poll(event, event.process in final)
        self.has_final = bool(final)

    def _take_send(self, event: Event) -> None:
        if event.kind == "invoke":
            assert event.value not in self.sends, "every value is sent once"
            self.sends[event.value] = Send(event)
            return
        send = self.sends[event.value]
        send.ended, send.kind, send.offset = event.time, event.kind, event.offset
        if event.kind == "ok" and event.offset != UNKNOWN_OFFSET:
            self._place(event.partition, event.offset, event.value)

    def _take_poll(self, event: Event, is_final: bool) -> None:
        for partition, offset, value in event.records:
            self._place(partition, offset, value)
            self.read[partition].add(value)
            self.highest_read[partition] = max(self.highest_read[partition], offset)
            if is_final:
                self.final[partition].add(value)

    def _place(self, partition: str, offset: int, value: int) -> None:
        self.values[partition][offset].add(value)
        self.offsets[partition][value].add(offset)


def check(events: Iterable[Event]) -> Verdict:
    """Judge a history."""
    facts = _Facts(events)
    kinds = Counter(send.kind for send in facts.sends.values())
    searches = (_misplaced, _lost, _vanished, _reordered, _stale_acks, _polls, _strangers, _told)
    return Verdict(
        attempted=len(facts.sends),
        acked=kinds["ok"],
        failed=kinds["fail"],
        unknown=kinds["info"],
        read=sum(map(len, facts.read.values())),
        faults=sum(event.f == "fault" for event in facts.events),
        anomalies=[anomaly for search in searches for anomaly in search(facts)],
        outages=find_outages(facts.events),
    )


def _misplaced(facts: _Facts) -> Iterator[Anomaly]:
    for partition, values in facts.values.items():
        for offset, here in sorted(values.items()):
            if len(here) > 1:
                yield Anomaly("inconsistent-offsets", partition, f"offset {offset} holds {sorted(here)}")
    for partition, offsets in facts.offsets.items():
        for value, places in sorted(offsets.items()):
            if len(places) > 1:
                yield Anomaly("duplicate", partition, f"{value} is at {sorted(places)}", tuple(sorted(places)))


def _lost(facts: _Facts) -> Iterator[Anomaly]:
    for send in facts.sends.values():
        if send.kind != "ok" or send.value in facts.read[send.partition]:
            continue
        is_passed = send.offset <= facts.highest_read[send.partition]
        text = f"{send.value}, acknowledged at {send.offset} by {send.ended:.3f}, was never read"
        yield Anomaly("lost" if is_passed else "unseen", send.partition, text)


def _vanished(facts: _Facts) -> Iterator[Anomaly]:
    if not facts.has_final:
        return
    for partition, values in facts.read.items():
        for value in sorted(values - facts.final[partition]):
            places = sorted(facts.offsets[partition][value])
            yield Anomaly("vanished", partition, f"{value} was read at {places} and is not there in the end")


def _reordered(facts: _Facts) -> Iterator[Anomaly]:
    """By the order in which a producer has sent; of a duplicate the first copy counts, since a later one is no news."""
    sent: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for send in facts.sends.values():
        places = facts.offsets[send.partition].get(send.value)
        if places:
            sent[send.process, send.partition].append((send.value, min(places)))
    for (process, partition), placed in sent.items():
        for (value, offset), (later, later_offset) in pairwise(placed):
            if later_offset < offset:
                text = f"{process} sent {value} (at {offset}) before {later} (at {later_offset})"
                yield Anomaly("reordered", partition, text)


def _stale_acks(facts: _Facts) -> Iterator[Anomaly]:
    acked = [send for send in facts.sends.values() if send.kind == "ok" and send.offset != UNKNOWN_OFFSET]
    ends = sorted(acked, key=lambda send: send.ended)
    highest: dict[str, int] = defaultdict(lambda: -1)
    done = 0
    for send in sorted(acked, key=lambda send: send.began):
        while ends[done].ended < send.began:
            highest[ends[done].partition] = max(highest[ends[done].partition], ends[done].offset)
            done += 1
        before = highest[send.partition]
        if send.offset <= before:
            text = f"{send.value} got offset {send.offset}, when {before} had been acknowledged before it was sent"
            yield Anomaly("stale-ack", send.partition, text)


def _polls(facts: _Facts) -> Iterator[Anomaly]:
    known = {partition: sorted(values) for partition, values in facts.values.items()}
    # The offset that was read last; unknown until a reader was given its first record.
    last: dict[tuple[str, str], int] = {}
    for event in facts.events:
        if event.f == "assign":
            last[event.process, event.partition] = event.offset - 1
        for partition, offset, _ in event.records:
            before = last.get((event.process, partition))
            last[event.process, partition] = offset
            if before is None:
                continue
            if offset <= before:
                text = f"{event.process} was given {offset} after {before}"
                yield Anomaly("nonmonotonic-poll", partition, text)
                continue
            # What was read is known, so there is always a next one.
            after = known[partition][bisect_right(known[partition], before)]
            if after < offset:
                text = f"{event.process} was given {offset} after {before}, and {after} is in between"
                yield Anomaly("poll-skip", partition, text)


def _strangers(facts: _Facts) -> Iterator[Anomaly]:
    for partition, values in facts.read.items():
        for value in sorted(values):
            send = facts.sends.get(value)
            if send is None or send.partition != partition:
                yield Anomaly("phantom", partition, f"{value} was never sent there")
            elif send.kind == "fail":
                yield Anomaly("failed-read", partition, f"{value} was refused and read all the same")


def _told(facts: _Facts) -> Iterator[Anomaly]:
    for event in facts.events:
        if event.f == "poll" and event.kind == "fail":
            yield Anomaly("out-of-range", event.partition, f"{event.process} was told {event.note}")
        elif event.f == "fatal":
            yield Anomaly("fatal", event.partition, f"{event.process} was told {event.note}")
