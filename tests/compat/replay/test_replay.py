"""What a real Kafka was asked, our brokers are asked, and have to answer the same.

Informative cases show defects of Kafka. Our brokers need not have them; what they are asked then is a clear answer.
"""

import os

import pytest

from tests.compat.replay.needs import is_answerable_oddity
from tests.compat.replay.playing import Outcome
from tests.compat.replay.recording import Case, all_cases


def parameters() -> list[object]:
    return [pytest.param(case, id=case.name) for case in all_cases() if not case.is_informative]


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
