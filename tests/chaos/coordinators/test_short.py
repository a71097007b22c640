"""The short form of the rows of groups and transactions: one cluster, some faults of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.coordinators import group_faults, group_row, transaction_faults, transaction_row
from tests.chaos.report import FAULTS_MIN

COMMITTED_MIN = 100
SEED = 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = group_row.SETTINGS | transaction_row.SETTINGS
    with Cluster(tmp_path_factory.mktemp("coordinators") / "cluster", settings=settings) as made:
        yield made


@pytest.mark.needs("java")
@pytest.mark.timeout(240)
def test_transactions_are_whole(cluster: Cluster) -> None:
    result = transaction_row.disturb(cluster, transaction_faults.short_faults(), seed=SEED)
    assert result.is_clean, "\n".join(result.findings())
    assert result.committed >= COMMITTED_MIN
    assert result.faults >= FAULTS_MIN
    assert result.offsets_compared > 0


@pytest.mark.needs("java")
@pytest.mark.timeout(240)
def test_groups_have_one_owner_for_everything(cluster: Cluster) -> None:
    result = group_row.disturb(cluster, group_faults.short_faults(), seed=SEED)
    assert result.is_clean, "\n".join(result.findings())
    assert result.committed >= COMMITTED_MIN
    assert result.faults >= FAULTS_MIN
