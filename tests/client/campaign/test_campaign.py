"""A few seeds of each workload of `make campaign-client`; more of them with the mark `long`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.campaign.cluster import CampaignCluster
from tests.client.campaign.run import WORKLOADS, failure_line, play_all, table

SHORT_SEEDS = range(1_000, 1_002)
LONG_SEEDS = range(2_000, 2_020)
AT_ONCE = 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CampaignCluster]:
    with CampaignCluster(tmp_path_factory.mktemp("campaign") / "cluster") as started:
        yield started


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Clients log every record that they fail to deliver here on purpose."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def play(cluster: CampaignCluster, folder: Path, jobs: list[tuple[str, int]]) -> None:
    results = asyncio.run(play_all(jobs, "minikafka", cluster, folder, AT_ONCE))
    failures = [failure_line(result) for result in results if result.violations]
    assert not failures, "\n".join(["", *failures, table(results)])
    assert not cluster.complaints()
    # What disturbs nothing shows nothing.
    assert sum(sum(result.faults.values()) for result in results) > len(jobs)
    assert all(result.acked for result in results)


@pytest.mark.needs("java")
@pytest.mark.timeout(180)
def test_campaign_finds_no_violation(cluster: CampaignCluster, tmp_path: Path) -> None:
    play(cluster, tmp_path, [(workload, seed) for seed in SHORT_SEEDS for workload in WORKLOADS])


@pytest.mark.long
@pytest.mark.needs("java")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_campaign_finds_no_violation_in_many_seeds(cluster: CampaignCluster, tmp_path: Path, workload: str) -> None:
    play(cluster, tmp_path, [(workload, seed) for seed in LONG_SEEDS])
