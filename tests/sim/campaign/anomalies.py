"""Anomaly classes of Jepsen's Kafka workload that the judges of the chaos rows do not search for.

    G1c                 transactions that have read from each other in a circle
    poll-skip           a reader of committed data was given what comes after a value, but not the value, which is there
    nonmonotonic-poll   a reader of committed data was given an offset again, or an earlier one

G0, transactions whose writes are interleaved in a circle, is legal in Kafka, which orders single records only: it is
counted, and no violation. The other classes are in `tests.chaos.checker` (lost-write as lost, unseen, duplicate,
inconsistent-offsets, nonmonotonic-send as reordered, poll-skip and nonmonotonic-poll of single records) and in
`tests.chaos.coordinators.transactions` (G1a as aborted-read, precommitted-read, torn).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TypeVar

from tests.chaos.checker import Anomaly
from tests.chaos.coordinators.transactions import OFFSETS
from tests.chaos.history import Event

_N = TypeVar("_N", bound=Hashable)


def check(events: Sequence[Event]) -> list[Anomaly]:
    return [*_read_cycles(events), *_polls(events)]


def write_cycles(events: Sequence[Event]) -> int:
    """How many groups of transactions have interleaved their writes in a circle."""
    writer, edges = _writers(events), defaultdict[int, set[int]](set)
    final = {event.process for event in events if event.f == "final"}
    last: dict[str, int] = {}
    for event in events:
        if event.process in final:
            for partition, _, value in sorted(event.records):
                number = writer.get(value)
                if number is None:
                    continue
                if partition in last and last[partition] != number:
                    edges[last[partition]].add(number)
                last[partition] = number
    return len(cycles(edges))


def _writers(events: Iterable[Event]) -> dict[int, int]:
    """By which transaction each value was written."""
    return {
        seen.value: event.value
        for event in events
        if event.f == "txn" and event.kind == "invoke"
        for seen in event.records
        if not seen.partition.startswith(OFFSETS)
    }


def _read_cycles(events: Sequence[Event]) -> Iterator[Anomaly]:
    writer, edges = _writers(events), defaultdict[int, set[int]](set)
    for event in events:
        # Of a poll within a transaction `value` is its number.
        if event.f == "poll" and event.value >= 0:
            for seen in event.records:
                number = writer.get(seen.value)
                if number is not None and number != event.value:
                    edges[number].add(event.value)
    for circle in cycles(edges):
        yield Anomaly("G1c", "", f"transactions {sorted(circle)} have read from each other")


def cycles(edges: Mapping[_N, Set[_N]]) -> list[set[_N]]:
    """The strongly connected components of more than one node, after Kosaraju."""
    order: list[_N] = []
    done: set[_N] = set()
    for start in edges:
        order += _finished(start, edges, done)
    back: dict[_N, set[_N]] = defaultdict(set)
    for node, targets in edges.items():
        for target in targets:
            back[target].add(node)
    done.clear()
    components = [_finished(start, back, done) for start in reversed(order)]
    return [set(component) for component in components if len(component) > 1]


def _finished(start: _N, edges: Mapping[_N, Set[_N]], done: set[_N]) -> list[_N]:
    """What can be reached from a node and was not before, in the order in which a search leaves it."""
    if start in done:
        return []
    done.add(start)
    finished: list[_N] = []
    stack = [(start, iter(edges.get(start, ())))]
    while stack:
        node, targets = stack[-1]
        target = next((candidate for candidate in targets if candidate not in done), None)
        if target is None:
            stack.pop()
            finished.append(node)
        else:
            done.add(target)
            stack.append((target, iter(edges.get(target, ()))))
    return finished


def _polls(events: Sequence[Event]) -> Iterator[Anomaly]:
    final = {event.process for event in events if event.f == "final"}
    known: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if event.process in final:
            for partition, offset, _ in event.records:
                known[partition].append(offset)
    for offsets in known.values():
        offsets.sort()
    last: dict[tuple[str, str], int] = {}
    for event in sorted(events, key=lambda event: event.time):
        if event.f == "assign":
            last[event.process, event.partition] = event.offset - 1
        for partition, offset, _ in event.records if event.f == "poll" else ():
            before = last.get((event.process, partition), -1)
            last[event.process, partition] = offset
            there = known[partition]
            place = bisect_right(there, before)
            if offset <= before:
                yield Anomaly("nonmonotonic-poll", partition, f"{event.process} was given {offset} after {before}")
            elif place < len(there) and there[place] < offset:
                text = f"{event.process} was given {offset} after {before}, and {there[place]} is in between"
                yield Anomaly("poll-skip", partition, text)
