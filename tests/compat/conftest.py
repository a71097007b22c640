"""The cluster that clients and tools are tried on.

MINIKAFKA_TEST_CLUSTER names the cluster.json of a running one, which is then used instead and left running. With
that of an Apache Kafka the tests themselves are put to the test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.running import Cluster, Up, read_cluster


@pytest.fixture(scope="session")
def up_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers. They have to end well and without a complaint, whatever was done to them."""
    given = os.environ.get("MINIKAFKA_TEST_CLUSTER")
    if given is not None:
        yield read_cluster(Path(given))
        return
    process = Up(tmp_path_factory.mktemp("up"), 3)
    try:
        yield process.wait_until_ready()
    finally:
        code = process.stop()
    assert code == 0, process.output
    assert not process.complaints(), process.output
