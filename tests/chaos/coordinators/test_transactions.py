"""The judge of transactions is judged: a history with nothing wrong, and histories with one thing wrong each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.coordinators.transactions import BACK, DIRTY, HUNG, OFFSETS, TORN, Bounds, check
from tests.chaos.history import Event, Kind, Seen

A, B = "load-0", "load-1"
GROUP = f"{OFFSETS}g/input-0"
BOUNDS = Bounds(hung_seconds=15.0, source="source", copied="copied")


class Tale:
    """A history in the making; every event comes a second after the one before."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 0.0

    def add(self, process: str, kind: Kind, f: str, **fields: object) -> None:
        self.now += 1.0
        self.events.append(Event(self.now, process, kind, f, **fields))  # type: ignore[arg-type]

    def begin(self, number: int, *writes: tuple[str, int], move: tuple[int, int] | None = None) -> None:
        records = [Seen(partition, -1, value) for partition, value in writes]
        records += [Seen(GROUP, *move)] if move else []
        self.add("p", "invoke", "txn", value=number, records=tuple(records))

    def send_end(self, number: int) -> None:
        self.add("p", "invoke", "end", value=number)

    def finish(self, number: int, kind: Kind) -> None:
        self.add("p", kind, "txn", value=number)

    def whole(self, number: int, *writes: tuple[str, int], move: tuple[int, int] | None = None) -> None:
        self.begin(number, *writes, move=move)
        self.send_end(number)
        self.finish(number, "ok")

    def read(self, *records: tuple[str, int, int], process: str = "r") -> None:
        self.add(process, "ok", "poll", records=tuple(Seen(*each) for each in records))

    def offset(self, offset: int, process: str = "w") -> None:
        self.add(process, "invoke", "offset", partition=GROUP)
        self.add(process, "ok", "offset", partition=GROUP, offset=offset)

    def lso(self, offset: int, end: int, seconds: float = 1.0, partition: str = A) -> None:
        self.now += seconds - 1.0
        self.add("w", "ok", "lso", partition=partition, offset=offset, value=end)

    def end(self, *records: tuple[str, int, int], offset: int) -> None:
        self.read(*records, process="last")
        self.offset(offset, "last")
        self.add("last", "info", "final")


def good() -> Tale:
    """Committed, aborted, unknown and there, unknown and not there; read while it happens."""
    tale = Tale()
    tale.lso(0, 0)
    tale.whole(1, (A, 10), (B, 11), move=(0, 2))
    tale.read((A, 0, 10))
    tale.add("nemesis", "info", "fault", note="a coordinator is killed")
    tale.begin(2, (A, 20), (B, 21), move=(2, 4))
    tale.lso(2, 5)
    tale.finish(2, "fail")
    tale.offset(2)
    tale.begin(3, (A, 30), (B, 31), move=(2, 3))
    tale.send_end(3)
    tale.read((A, 4, 30))
    tale.finish(3, "info")
    tale.begin(4, (A, 40), (B, 41), move=(3, 5))
    tale.send_end(4)
    tale.finish(4, "info")
    tale.whole(5, (A, 50), move=(3, 7))
    tale.offset(7)
    tale.lso(9, 9, 100.0)
    return tale


WHOLE = ((A, 0, 10), (B, 0, 11), (A, 4, 30), (B, 4, 31), (A, 8, 50))
COPIES = (("source-0", 0, 900), ("copied-0", 0, 900), ("source-1", 0, 901), ("copied-1", 4, 901))


def finished(tale: Tale, *records: tuple[str, int, int], offset: int = 7) -> Tale:
    tale.end(*(records or (*WHOLE, *COPIES)), offset=offset)
    return tale


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    verdict = check(finished(good()).events, BOUNDS)
    assert verdict.anomalies == []
    assert (verdict.attempted, verdict.committed, verdict.unknown, verdict.faults) == (5, 2, 2, 1)
    assert verdict.longest_outage == 17.0


def aborted_read() -> Tale:
    tale = good()
    tale.read((A, 2, 20), (B, 2, 21))
    return finished(tale, *WHOLE, (A, 2, 20), (B, 2, 21), offset=7)


def aborted_read_by_the_way() -> Tale:
    """It is not there in the end, but somebody was given it."""
    tale = good()
    tale.read((A, 2, 20))
    return finished(tale)


def precommitted_read() -> Tale:
    tale = good()
    tale.begin(6, (A, 60))
    tale.read((A, 10, 60))
    tale.send_end(6)
    tale.finish(6, "ok")
    return finished(tale, *WHOLE, (A, 10, 60))


def torn() -> Tale:
    return finished(good(), *(each for each in WHOLE if each != (B, 0, 11)))


def torn_unknown() -> Tale:
    return finished(good(), *(each for each in WHOLE if each != (A, 4, 30)))


def lost() -> Tale:
    tale = good()
    tale.whole(6, (A, 60), (B, 61))
    return finished(tale)


def offset_without_values() -> Tale:
    """Of transaction 4 the offset was moved, and nothing else is there."""
    tale = good()
    tale.begin(6, (A, 60), move=(7, 9))
    tale.send_end(6)
    tale.finish(6, "info")
    return finished(tale, offset=9)


def values_without_offset() -> Tale:
    tale = good()
    tale.begin(6, (A, 60), move=(7, 9))
    tale.send_end(6)
    tale.finish(6, "info")
    return finished(tale, *WHOLE, (A, 10, 60))


def values_twice_for_one_offset() -> Tale:
    """Transactions 4 and 5 go on from the same offset."""
    return finished(good(), *WHOLE, (A, 6, 40), (B, 6, 41))


def duplicate() -> Tale:
    return finished(good(), *WHOLE, (A, 12, 50))


def inconsistent() -> Tale:
    tale = good()
    tale.whole(6, (A, 60))
    tale.read((A, 8, 60))
    return finished(tale, *WHOLE, (A, 10, 60))


def phantom() -> Tale:
    return finished(good(), *WHOLE, (A, 12, 999))


def phantom_of_another_partition() -> Tale:
    return finished(good(), *WHOLE, (B, 12, 10))


def offset_back() -> Tale:
    tale = good()
    tale.begin(6, move=(7, 9))
    tale.send_end(6)
    tale.offset(9)
    tale.finish(6, "info")
    return finished(tale)


def offset_lost() -> Tale:
    tale = good()
    tale.whole(6, (A, 60), move=(7, 9))
    tale.offset(7)
    return finished(tale, *WHOLE, (A, 10, 60), offset=9)


def hung() -> Tale:
    tale = good()
    tale.lso(9, 12)
    tale.lso(9, 13, 16.0)
    tale.lso(9, 14, 16.0)
    return finished(tale)


def copied_twice() -> Tale:
    return finished(good(), *WHOLE, *COPIES, ("copied-0", 2, 900))


def not_copied() -> Tale:
    return finished(good(), *WHOLE, *COPIES[:3])


def unfenced() -> Tale:
    tale = good()
    tale.add("zombie", "info", "unfenced", note="commits")
    return finished(tale)


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        # What was aborted is there, and so are the offsets of others out of step with it.
        (aborted_read, ["aborted-read", "aborted-read", "torn-offset", "torn-offset"]),
        (aborted_read_by_the_way, ["aborted-read"]),
        (precommitted_read, ["precommitted-read"]),
        (torn, ["torn"]),
        (torn_unknown, ["torn"]),
        (lost, ["lost"]),
        (offset_without_values, ["torn-offset"]),
        (values_without_offset, ["torn-offset"]),
        (values_twice_for_one_offset, ["torn-offset"]),
        (duplicate, ["duplicate"]),
        (inconsistent, ["duplicate", "inconsistent-offsets"]),
        (phantom, ["phantom"]),
        (phantom_of_another_partition, ["phantom"]),
        (offset_back, ["offset-back"]),
        (offset_lost, ["offset-lost"]),
        (hung, ["hung"]),
        (copied_twice, ["copied-twice"]),
        (not_copied, ["not-copied"]),
        (unfenced, ["unfenced"]),
    ],
)
def test_what_is_wrong_is_found(make: Callable[[], Tale], kinds: list[str]) -> None:
    assert sorted(anomaly.kind for anomaly in check(make().events, BOUNDS).anomalies) == kinds


def test_the_table_counts_kinds() -> None:
    assert check(torn().events, BOUNDS).count(*TORN) == 1
    assert check(precommitted_read().events, BOUNDS).count(*DIRTY) == 1
    assert check(hung().events, BOUNDS).count(*HUNG) == 1
    assert check(offset_back().events, BOUNDS).count(*BACK) == 1


def test_what_stands_still_and_is_committed_does_not_hang() -> None:
    tale = good()
    tale.lso(9, 9, 100.0)
    assert check(finished(tale).events, BOUNDS).anomalies == []


def test_nothing_is_torn_before_the_end_was_read() -> None:
    assert check(good().events, BOUNDS).anomalies == []
