"""One Spark session and one broker for all tests that can share them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.compat.running import Cluster, Up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.running import Topics


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    process = Up(
        tmp_path_factory.mktemp("broker"),
        1,
        "replica.high.watermark.checkpoint.interval.ms=200",
        "log.retention.check.interval.ms=500",
        "log.cleaner.backoff.ms=500",
        "offsets.topic.num.partitions=2",
        "transaction.state.log.num.partitions=2",
    )
    try:
        yield process.wait_until_ready()
    finally:
        code = process.stop()
    assert code == 0, process.output
    assert not process.complaints(), process.output


@pytest.fixture(scope="session")
def topics(broker: Cluster) -> Topics:
    from tests.spark.running import Topics

    return Topics(broker.bootstrap)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from tests.spark.running import make_session

    folder = tmp_path_factory.mktemp("spark")
    # Spark puts things into the current folder unless told otherwise.
    session = make_session("tests", {"spark.sql.warehouse.dir": str(folder), "spark.local.dir": str(folder)})
    yield session
    session.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own."""
    name = f"{request.path.stem}-{request.node.name}".replace("test_", "")
    return re.sub(r"[^a-zA-Z0-9._-]+", "_", name)[:80]


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
