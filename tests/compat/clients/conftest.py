"""Every client in turn, and topics to try them on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.compat.clients.aio import Aiokafka, AiokafkaAdmin
from tests.compat.clients.confluent import Confluent, ConfluentAdmin
from tests.compat.clients.kafka_python import KafkaPython, KafkaPythonAdmin
from tests.compat.clients.kcat import Kcat
from tests.compat.clients.model import Admin, Client
from tests.compat.clients.topics import Topics, named_after
from tests.compat.clients.transacting_pairs import PAIRS, Pair
from tests.compat.running import Cluster

CLIENTS: dict[str, Callable[[str], Client]] = {
    "confluent": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "kcat": Kcat,
}
MARKED = [pytest.param(name, marks=pytest.mark.needs("kcat")) if name == "kcat" else name for name in CLIENTS]

ADMINS: Mapping[str, Callable[[str], ConfluentAdmin | KafkaPythonAdmin | AiokafkaAdmin]] = {
    "confluent": ConfluentAdmin,
    "kafka-python": KafkaPythonAdmin,
    "aiokafka": AiokafkaAdmin,
}


@pytest.fixture(params=MARKED)
def client(request: pytest.FixtureRequest, up_cluster: Cluster) -> Client:
    return CLIENTS[request.param](up_cluster.bootstrap)


@pytest.fixture(params=[*ADMINS])
def admin(request: pytest.FixtureRequest, up_cluster: Cluster) -> Iterator[Admin]:
    made = ADMINS[request.param](up_cluster.bootstrap)
    yield made
    made.close()


@pytest.fixture(params=[*PAIRS])
def pair(request: pytest.FixtureRequest, up_cluster: Cluster) -> Iterator[Pair]:
    with ExitStack() as opened:
        yield PAIRS[request.param](up_cluster.bootstrap, opened)


@pytest.fixture
def confluent(up_cluster: Cluster) -> Confluent:
    return Confluent(up_cluster.bootstrap)


@pytest.fixture(scope="session")
def keeper(up_cluster: Cluster) -> ConfluentAdmin:
    """The one who prepares topics for tests that are about something else."""
    return ConfluentAdmin(up_cluster.bootstrap)


@pytest.fixture
def topics(keeper: ConfluentAdmin, up_cluster: Cluster, request: pytest.FixtureRequest) -> Topics:
    return Topics(keeper, up_cluster, named_after(request.node.name))
