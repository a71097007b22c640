"""The cluster that is asked: three brokers, configured as those were whose answers were recorded."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.compat.replay.cluster import Cluster
from tests.compat.replay.needs import REPLICAS_MAX
from tests.compat.replay.playing import Outcome, play_all
from tests.compat.replay.recording import Case
from tests.compat.running import Up

SETTINGS: Final = (
    "min.insync.replicas=2",
    "group.initial.rebalance.delay.ms=0",
    "default.replication.factor=1",
    "num.partitions=1",
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=2",
)


@pytest.fixture(scope="session")
def recorded_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running one if MINIKAFKA_TEST_CLUSTER names its cluster.json; it needs these settings then."""
    given = os.environ.get("MINIKAFKA_TEST_CLUSTER")
    if given is not None:
        yield Cluster.read(Path(given), REPLICAS_MAX)
        return
    process = Up(tmp_path_factory.mktemp("replay"), 3, *SETTINGS)
    try:
        process.wait_until_ready()
        yield Cluster.read(process.data / "cluster.json", REPLICAS_MAX)
    finally:
        code = process.stop()
    assert code == 0, process.output
    assert not process.complaints(), process.output


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest, recorded_cluster: Cluster) -> dict[str, Outcome]:
    """How the cases went that this run has tests for: played all at once, since most of them wait most of the time."""
    items = [item for item in request.session.items if item.get_closest_marker("skip") is None]
    asked = [item.callspec.params.get("asked") for item in items if hasattr(item, "callspec")]
    return asyncio.run(play_all([case for case in asked if isinstance(case, Case)], recorded_cluster))
