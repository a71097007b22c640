"""What nobody has thought of: a cluster, its clients, and trouble by lot.

    MINIKAFKA_SEEDS=1000:1200 python -m pytest tests/schedules/test_by_lot.py

plays other seeds than those that are played with all tests. The same seed is the same run.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.schedules.by_lot import Outcome, Run
from tests.schedules.stage import play

FIRST, END = map(int, os.environ.get("MINIKAFKA_SEEDS", "0:12").split(":"))


def outcome_of(seed: int) -> Outcome:
    """Play one seed to its end."""
    outcomes: list[Outcome] = []

    async def story() -> None:
        outcomes.append(await (await Run.start(seed)).play())

    # Ids of sessions come from here.
    random.seed(seed)
    play(story)
    return outcomes[0]


@pytest.mark.parametrize("seed", range(FIRST, END))
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    outcome = outcome_of(seed)
    assert outcome.verdict.acked > 10, "hardly anything was tried"
    assert outcome.complaints == []


def test_a_seed_is_one_run() -> None:
    first, second = outcome_of(3), outcome_of(3)
    assert first.logs == second.logs
    assert first.verdict == second.verdict
