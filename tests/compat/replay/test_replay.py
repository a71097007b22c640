"""What a real Kafka was asked, our brokers are asked, and have to answer the same."""

import os
from collections import Counter

import pytest

from tests.compat.replay.needs import is_answerable_oddity, missing
from tests.compat.replay.playing import Outcome
from tests.compat.replay.recording import Case, all_cases


def parameters() -> list[object]:
    """Every case; those that cannot be asked yet say what they need."""
    rows = [(case, missing(case)) for case in all_cases()]
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.skip(reason=f"needs {need}")] if need else [])
        for case, need in rows
    ]


def oddities() -> list[object]:
    return [pytest.param(case, id=case.name) for case in all_cases() if is_answerable_oddity(case)]


@pytest.mark.needs("java")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("asked", parameters())
def test_answers_are_the_recorded_ones(asked: Case, outcomes: dict[str, Outcome]) -> None:
    trouble = outcomes[asked.name].trouble
    assert not trouble, f"\n{trouble}"


@pytest.mark.needs("java")
@pytest.mark.timeout(300)
@pytest.mark.skipif("MINIKAFKA_TEST_CLUSTER" in os.environ, reason="a given cluster may be a real Kafka")
@pytest.mark.parametrize("asked", oddities())
def test_where_kafka_fails_the_answer_is_clear(asked: Case, outcomes: dict[str, Outcome]) -> None:
    trouble = outcomes[asked.name].trouble
    assert not trouble, f"\n{trouble}"


@pytest.mark.needs("java")
@pytest.mark.timeout(300)
def test_tell_what_was_not_asked(capsys: pytest.CaptureFixture[str], outcomes: dict[str, Outcome]) -> None:
    needs = Counter(need for case in all_cases() if (need := missing(case)) is not None)
    steps = sum(outcome.steps_left_out for outcome in outcomes.values())
    with capsys.disabled():
        print(f"\nrecorded cases: {len(all_cases())}, of them not asked by what they need: {dict(needs)}")
        print(f"steps left out of the others, for want of a follower: {steps}")
