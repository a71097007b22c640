"""The judge is judged: histories with nothing wrong, and histories with one thing wrong each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.checker import check
from tests.chaos.history import Recorder, load, save
from tests.chaos.told import PARTITION, Tale


def good() -> Tale:
    """Two producers that overlap, a reader that lags, a send of which nobody knows, a refused one."""
    tale = Tale()
    tale.assign()
    tale.write(10, 0)
    tale.send(11)
    tale.send(20, "p2")
    tale.ack(20, 1, "p2")
    tale.note("fault", "a broker is killed")
    tale.ack(11, 2)
    tale.read((0, 10), (1, 20))
    tale.send(12)
    tale.lose_sight(12)
    tale.send(21, "p2")
    tale.fail(21, "p2")
    # At offset 4 lies something that is no record.
    tale.write(13, 5)
    tale.write(14, 6)
    tale.read((2, 11), (3, 12))
    tale.read((5, 13))
    tale.assign(1, "r2")
    tale.read((1, 20), (2, 11), process="r2")
    # It may begin again where it likes.
    tale.assign(0, "r2")
    tale.read((0, 10), process="r2")
    return tale


WHOLE = ((0, 10), (1, 20), (2, 11), (3, 12), (5, 13), (6, 14))


def finished(tale: Tale, *placed: tuple[int, int]) -> Tale:
    tale.read_all_in_the_end(*(placed or WHOLE))
    return tale


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    verdict = check(finished(good()).events)
    assert verdict.anomalies == []
    assert (verdict.attempted, verdict.acked, verdict.failed, verdict.unknown) == (7, 5, 1, 1)
    assert (verdict.read, verdict.faults) == (6, 1)
    assert (verdict.lost, verdict.duplicated, verdict.reordered, verdict.others) == (0, 0, 0, 0)


def inconsistent() -> Tale:
    """A reader is given what a leader had that was none any more; then another value takes the offset."""
    tale = good()
    tale.send(15)
    tale.lose_sight(15)
    tale.assign(6, "r3")
    tale.read((6, 14), (7, 15), process="r3")
    tale.write(22, 7, "p2")
    return finished(tale, *WHOLE, (7, 22))


def inconsistent_ack() -> Tale:
    """Two producers are told the same offset."""
    tale = good()
    tale.send(15)
    tale.send(22, "p2")
    tale.ack(22, 7, "p2")
    tale.ack(15, 7)
    return finished(tale, *WHOLE, (7, 22))


def duplicate() -> Tale:
    return finished(good(), *WHOLE, (7, 14))


def duplicate_told() -> Tale:
    """A retry is answered with another offset than the one the record has."""
    tale = good()
    tale.write(15, 8)
    return finished(tale, *WHOLE, (7, 15))


def lost() -> Tale:
    """The last reader comes past it."""
    tale = good()
    tale.write(15, 7)
    tale.write(16, 8)
    return finished(tale, *WHOLE, (8, 16))


def lost_unknown_offset() -> Tale:
    tale = good()
    tale.send(15)
    tale.ack(15)
    return finished(tale)


def unseen() -> Tale:
    tale = good()
    tale.write(15, 7)
    return finished(tale)


def vanished() -> Tale:
    """Nobody was told that it is there, but somebody has read it."""
    return finished(good(), *(placed for placed in WHOLE if placed != (3, 12)))


def vanished_acked() -> Tale:
    return finished(good(), *(placed for placed in WHOLE if placed != (1, 20)))


def reordered() -> Tale:
    tale = good()
    tale.send(15)
    tale.send(16)
    tale.ack(16, 7)
    tale.ack(15, 8)
    return finished(tale, *WHOLE, (7, 16), (8, 15))


def reordered_unknown() -> Tale:
    """Even if only readers know where it has got to."""
    tale = good()
    tale.send(15)
    tale.lose_sight(15)
    tale.send(16)
    tale.ack(16, 7)
    return finished(tale, *WHOLE, (7, 16), (8, 15))


def stale_ack() -> Tale:
    """A leader that is none any more acknowledges below what the new one has acknowledged."""
    tale = good()
    tale.write(22, 4, "p2")
    return finished(tale, *WHOLE[:4], (4, 22), *WHOLE[4:])


def poll_skip() -> Tale:
    tale = good()
    tale.assign(0, "r3")
    tale.read((0, 10), (2, 11), process="r3")
    return finished(tale)


def poll_skip_between_polls() -> Tale:
    tale = good()
    tale.assign(0, "r3")
    tale.read((0, 10), process="r3")
    tale.read((2, 11), process="r3")
    return finished(tale)


def poll_skip_at_the_start() -> Tale:
    tale = good()
    tale.assign(0, "r3")
    tale.read((1, 20), process="r3")
    return finished(tale)


def poll_back() -> Tale:
    tale = good()
    tale.assign(0, "r3")
    tale.read((0, 10), (1, 20), process="r3")
    tale.read((1, 20), (2, 11), process="r3")
    return finished(tale)


def phantom() -> Tale:
    return finished(good(), *WHOLE, (7, 999))


def phantom_of_another_partition() -> Tale:
    tale = good()
    tale.assign(0, "r3", "load-1")
    tale.read((0, 14), process="r3", partition="load-1")
    tale.read_all_in_the_end((0, 14), partition="load-1")
    return finished(tale)


def failed_read() -> Tale:
    return finished(good(), *WHOLE, (7, 21))


def out_of_range() -> Tale:
    tale = good()
    tale.refuse_read("OFFSET_OUT_OF_RANGE")
    return finished(tale)


def fatal() -> Tale:
    tale = good()
    tale.note("fatal", "OUT_OF_ORDER_SEQUENCE_NUMBER", "p1")
    return finished(tale)


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (inconsistent, {"inconsistent-offsets", "vanished"}),
        (inconsistent_ack, {"inconsistent-offsets", "lost"}),
        (duplicate, {"duplicate"}),
        (duplicate_told, {"duplicate"}),
        (lost, {"lost", "poll-skip"}),
        (lost_unknown_offset, {"lost"}),
        (unseen, {"unseen"}),
        (vanished, {"vanished", "poll-skip"}),
        (vanished_acked, {"vanished", "poll-skip"}),
        (reordered, {"reordered"}),
        (reordered_unknown, {"reordered"}),
        (stale_ack, {"stale-ack", "poll-skip"}),
        (poll_skip, {"poll-skip"}),
        (poll_skip_between_polls, {"poll-skip"}),
        (poll_skip_at_the_start, {"poll-skip"}),
        (poll_back, {"nonmonotonic-poll"}),
        (phantom, {"phantom"}),
        (phantom_of_another_partition, {"phantom"}),
        (failed_read, {"failed-read"}),
        (out_of_range, {"out-of-range"}),
        (fatal, {"fatal"}),
    ],
)
def test_what_is_wrong_is_found(make: Callable[[], Tale], kinds: set[str]) -> None:
    assert {anomaly.kind for anomaly in check(make().events).anomalies} == kinds


def test_the_table_counts_what_was_lost_doubled_and_reordered() -> None:
    verdict = check(unseen().events)
    assert (verdict.lost, verdict.duplicated, verdict.reordered, verdict.others) == (1, 0, 0, 0)
    verdict = check(duplicate().events)
    assert (verdict.lost, verdict.duplicated, verdict.reordered, verdict.others) == (0, 1, 0, 0)
    verdict = check(reordered().events)
    assert (verdict.lost, verdict.duplicated, verdict.reordered, verdict.others) == (0, 0, 1, 0)
    verdict = check(poll_back().events)
    assert (verdict.lost, verdict.duplicated, verdict.reordered, verdict.others) == (0, 0, 0, 1)


def test_nothing_has_vanished_before_the_end_was_read() -> None:
    """Without a last reader nobody can tell."""
    assert check(good().events).count("vanished") == 0


def test_a_history_is_the_same_after_it_was_saved(tmp_path: Path) -> None:
    events = finished(good()).events
    save(events, tmp_path / "history.jsonl")
    assert list(load(tmp_path / "history.jsonl")) == events


def test_a_line_that_is_not_whole_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    events = finished(good()).events
    save(events, path)
    path.write_text(path.read_text()[:-3])
    assert list(load(path)) == events[:-1]


def test_a_recorder_writes_what_a_judge_reads(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")
    began = recorder.write("p1", "invoke", "send", partition=PARTITION, value=1)
    ended = recorder.write("p1", "ok", "send", partition=PARTITION, value=1, offset=0)
    recorder.close()
    first, second = load(recorder.path)
    assert (first.time, second.time, second.offset) == (began, ended, 0)
