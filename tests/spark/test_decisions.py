"""Which records of the topic of decisions count, one after the other and after compaction. Without brokers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.spark_jobs.errors import BadCheckpoint
from minikafka.spark_jobs.sink.decisions import (
    Decision,
    QueryState,
    Run,
    committed_attempts,
    run_number_of,
    transactional_id,
)
from minikafka.spark_jobs.sink.transactions import Transaction

Record = tuple[bytes, "Decision | Run | None"]


def state_of(*records: Record) -> QueryState:
    state = QueryState()
    for key, record in records:
        state.apply(key, record)
    return state


def decision(batch_id: int, run: str = "", name: str = "t") -> Decision:
    return Decision(batch_id, (Transaction(name, batch_id, 0),), run)


def test_decision_of_a_superseded_run_does_not_count() -> None:
    first, second = decision(5, "a"), decision(6, "b")
    begun: list[Record] = [(b"1", Run("a")), (b"2", first), (b"3", Run("b"))]
    assert state_of(*begun, (b"4", decision(6, "a", "late"))).last == first
    assert state_of(*begun, (b"4", second), (b"5", decision(7, "a", "late"))).last == second
    # A run begins once, however often it is written that it does.
    assert state_of(*begun, (b"4", Run("a")), (b"5", decision(6, "a"))).last == first


def test_first_decision_of_a_batch_counts() -> None:
    first = decision(5, "a")
    records: list[Record] = [
        (b"1", Run("a")),
        (b"2", first),
        (b"3", decision(5, "a", "other")),
        (b"4", decision(4, "a")),
    ]
    state = state_of(*records)
    assert state.last == first
    assert state.stale_keys == {b"3", b"4"}


def test_decisions_of_earlier_versions_count_until_a_run_has_begun() -> None:
    legacy = decision(5)
    assert state_of((b"q", decision(4)), (b"q", legacy), (b"q", legacy)).last == legacy
    state = state_of((b"q", legacy), (b"1", Run("a")), (b"q", decision(6)))
    assert state.last == legacy and not state.stale_keys
    assert Decision.decode(json.dumps({"batch": 5, "transactions": [["t", 5, 0]]}).encode()) == legacy


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.booleans()), max_size=30), st.data())
def test_compaction_changes_nothing_that_counts(steps: list[tuple[int, int, bool]], data: st.DataObject) -> None:
    """Drivers of several runs write in any order, each with what it knew at some earlier time."""
    log: list[Record] = []
    for number, (run, batch_id, begins) in enumerate(steps):
        known = state_of(*log[: data.draw(st.integers(0, len(log)))])
        log.extend((key, None) for key in sorted(known.stale_keys))
        record = Run(f"run-{run}") if begins else decision(batch_id, f"run-{run}", f"t{number}")
        log.append((b"%d" % number, record))
    whole = state_of(*log)
    # Compaction takes any records of which there is a later one of the same key, and may stop anywhere.
    clean = data.draw(st.integers(0, len(log)))
    later = {key for key, record in log[:clean] if record is None}
    compacted = state_of(*((key, record) for key, record in log[:clean] if key not in later), *log[clean:])
    assert compacted.last == whole.last
    assert list(compacted.runs) == list(whole.runs)


def test_transactional_ids_of_runs_and_attempts_differ() -> None:
    names = {transactional_id("q", 0, run, attempt) for run in (1, 2) for attempt in (0, 1, 2)}
    assert len(names) == 6 and "spark-q-0" in names
    assert [run_number_of(transactional_id("q", 3, run, 0), "q") for run in (1, 2, 13)] == [1, 2, 13]
    # A write of foreachBatch has a name that begins with the query's.
    assert run_number_of(transactional_id("q-w", 3, 2, 0), "q") is None


def test_attempt_that_was_committed_is_the_first_of_later_batches() -> None:
    names = [transactional_id("q", 0, 2, 0), transactional_id("q", 1, 2, 3)]
    last = Decision(5, tuple(Transaction(name, 1, 0) for name in names), "run", attempts={7: 2})
    assert committed_attempts(last, "run") == {1: 3, 7: 2}
    assert committed_attempts(last, "other run") == {}
    assert Decision.decode(last.encode()) == last


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b"1"])
def test_run_that_cannot_be_read(value: bytes) -> None:
    with pytest.raises(BadCheckpoint, match="holds what is no run"):
        Run.decode(value)
