"""The short form of `make chaos`: one cluster, a topic for each row, one or two faults each.

What is asserted is what must hold however slow the machine is; how long partitions may be without a leader is asserted
with room for a machine that does other things too. `make chaos` holds the clusters to the promise itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.chaos.cluster import Cluster
from tests.chaos.rows import ROWS, Row
from tests.chaos.run import Result, disturb, run_row
from tests.conftest import lacking

FAULT_SECONDS = 90.0
ACKED_MIN = 500
SEED = 1

BUSY_SECONDS = 2.0
"""By how much a busy machine may miss what is promised."""

# Row -> how many faults.
SHORT = {
    "kill -9 leader": 2,
    "kill -9 controller": 1,
    "kill -9 all": 1,
    "SIGSTOP leader": 1,
    "SIGSTOP controller": 1,
    "SIGSTOP ZooKeeper": 2,
    "session expiry": 2,
    "leader cut from ZooKeeper": 1,
    "leader cut from followers": 2,
    "rolling restart": 1,
    "topic delete and recreate": 1,
    "power loss of leader": 1,
    "disk full": 1,
}

LONG_SECONDS = 20.0
LONG_FAULTS_MIN = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("chaos") / "cluster"
    with Cluster(folder, linked=True, injected=lacking("cc") is None) as made:
        yield made


def params(rows: Iterable[Row]) -> list[ParameterSet]:
    return [pytest.param(row, id=row.name, marks=pytest.mark.needs("java", *row.all_needs)) for row in rows]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("row", params(row for row in ROWS if row.name in SHORT))
def test_nothing_is_lost(cluster: Cluster, row: Row) -> None:
    topic = "".join(letter if letter.isalnum() else "-" for letter in row.name)
    result = disturb(cluster, row, topic, FAULT_SECONDS, faults_max=SHORT[row.name], seed=SEED)
    assert_nothing_is_wrong(result)
    assert result.verdict.faults >= SHORT[row.name]
    assert result.offsets_compared >= result.verdict.acked


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("row", params(row for row in ROWS if row.name not in SHORT))
def test_nothing_is_lost_in_long_rows(tmp_path: Path, row: Row) -> None:
    result = run_row(row, tmp_path / "cluster", LONG_SECONDS, SEED)
    assert_nothing_is_wrong(result)
    assert result.verdict.faults >= LONG_FAULTS_MIN


def assert_nothing_is_wrong(result: Result) -> None:
    verdict = result.verdict
    findings = "\n".join(result.findings())
    assert (verdict.lost, verdict.duplicated, verdict.reordered, verdict.others) == (0, 0, 0, 0), findings
    assert not result.troubles, findings
    assert verdict.acked >= ACKED_MIN
    assert_in_time(result)


def assert_in_time(result: Result) -> None:
    longest = result.verdict.longest_outage
    promised = result.row.outage_seconds_max
    assert longest <= promised + BUSY_SECONDS, f"a partition acknowledged nothing for {longest:.2f} s"
