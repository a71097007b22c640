"""What the client is tried on: real brokers, topics named after the test, and librdkafka to see what they hold."""

from __future__ import annotations

import pytest

from tests.compat.clients.confluent import Confluent, ConfluentAdmin
from tests.compat.clients.topics import Topics, named_after
from tests.compat.running import Cluster


@pytest.fixture
def bootstrap(up_cluster: Cluster) -> str:
    return up_cluster.bootstrap


@pytest.fixture
def confluent(up_cluster: Cluster) -> Confluent:
    """An independent reader and writer."""
    return Confluent(up_cluster.bootstrap)


@pytest.fixture(scope="session")
def keeper(up_cluster: Cluster) -> ConfluentAdmin:
    """The one who prepares topics."""
    return ConfluentAdmin(up_cluster.bootstrap)


@pytest.fixture
def topics(keeper: ConfluentAdmin, up_cluster: Cluster, request: pytest.FixtureRequest) -> Topics:
    return Topics(keeper, up_cluster, named_after(request.node.name))


@pytest.fixture
def topic(topics: Topics) -> str:
    """A topic of one partition with three replicas."""
    return topics.make()
