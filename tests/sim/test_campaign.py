"""The campaign: a few seeds, their determinism, and its command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.sim.campaign.plan import plan_of
from tests.sim.campaign.play import Result
from tests.sim.run import PROFILES, Ledger, failure_line, parse_seeds, report, run_seed

_COUNTS = {"replication": (28, 100), "full": (20, 60)}
"""How many seeds of a profile `make test` plays, and how many `make test-long`."""
_TRACE = "import sys; from tests.sim.run import run_seed; print(run_seed(4, sys.argv[1])._replace(cpu_seconds=0))"


def result(seed: int, *violations: str) -> Result:
    return Result(seed, list(violations), 1, {"acked": 100, "committed": 1}, {"kill": 1}, {}, 1.0, 20.0)


def _seeds() -> Iterator[ParameterSet]:
    """Those of `make test` and of `make test-long`; with MINIKAFKA_SEEDS=FIRST:END those of both profiles in turn."""
    chosen = os.environ.get("MINIKAFKA_SEEDS")
    if chosen is not None:
        yield from (pytest.param(name, seed) for seed in range(*map(int, chosen.split(":"))) for name in PROFILES)
        return
    for profile, (short, long) in _COUNTS.items():
        yield from (pytest.param(profile, seed) for seed in range(short))
        yield from (pytest.param(profile, seed, marks=pytest.mark.long) for seed in range(short, long))


@pytest.mark.parametrize(("profile", "seed"), list(_seeds()))
def test_seed_ends_without_violations(profile: str, seed: int) -> None:
    played = run_seed(seed, profile)
    assert played.violations == [], failure_line(played, profile)
    assert played.counts["acked"] >= 100


@pytest.mark.timeout(240)
@pytest.mark.parametrize("profile", PROFILES)
def test_trace_of_a_seed_is_the_same_in_two_processes(profile: str) -> None:
    def trace(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", _TRACE, profile], capture_output=True, text=True, check=True, env=environment
        ).stdout

    assert trace("1") == trace("2")


def test_plan_depends_on_its_seed_only() -> None:
    assert plan_of(7) == plan_of(7)
    assert plan_of(7) != plan_of(8)


def test_reserved_seeds_are_refused() -> None:
    assert parse_seeds("999999:1000000", reserved=False) == range(999_999, 1_000_000)
    with pytest.raises(ValueError, match="reserved"):
        parse_seeds("999999:1000001", reserved=False)
    assert len(parse_seeds("1000000:1000002", reserved=True)) == 2


def test_ledger_keeps_results_by_commit_and_profile(tmp_path: Path) -> None:
    path = tmp_path / "results"
    Ledger(path, "a", "full").add(result(1))
    Ledger(path, "b", "full").add(result(2, "lost: 5"))
    assert Ledger(path, "a", "full").load() == {1: result(1)}
    assert Ledger(path, "a", "replication").load() == {}


def test_seed_counts_only_if_enough_has_happened() -> None:
    assert result(1).counted
    assert not result(1)._replace(counts={"acked": 99, "committed": 1}).counted
    assert not result(1)._replace(counts={"acked": 100}).counted
    assert not result(1)._replace(storm_seconds=0.0).counted


def test_failure_line_says_how_to_replay() -> None:
    assert "--seeds 3:4" in failure_line(result(3, "lost: 5"), "full")


def test_report_counts_faults_and_losses() -> None:
    text = report([result(1), result(2, "lost: 5")._replace(permitted={"unclean election": 1})], "abc", "full")
    assert "2 seeds, 2 count, 1 with violations" in text
    assert "50.0 %" in text
    assert "kill 2" in text
