"""DescribeCluster: who is there, by the address that the client can use."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.handlers.cluster import routes
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.cluster import DescribeClusterRequest
from tests.broker.handlers.recorded import agrees, names_of, play
from tests.broker.handlers.station import CLUSTER_ID, Station, station
from tests.protocol.recordings import cases


@pytest.fixture
async def broker() -> AsyncIterator[Station]:
    async with station(routes) as made:
        yield made


@pytest.mark.parametrize("name", names_of("describe-cluster"))
async def test_as_recorded(broker: Station, name: str) -> None:
    for step in cases()[name]["steps"]:
        _, shown = await play(broker, step)
        assert agrees(step["answer"], shown), shown


async def test_brokers_and_controller(broker: Station) -> None:
    broker.update_metadata(controller_id=3)
    answer = await broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=False), 1)
    assert (answer.cluster_id, answer.controller_id, answer.endpoint_type) == (CLUSTER_ID, 3, 1)
    assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [
        # Ourselves as we were dialled.
        (1, "dialled", 19092),
        (2, "broker-2", 9092),
        (3, "broker-3", 9093),
    ]


async def test_a_controller_out_of_reach_is_none(broker: Station) -> None:
    for controller_id in (9, None):
        broker.context.metadata.set_controller(controller_id)
        answer = await broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=False), 0)
        assert answer.controller_id == -1


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_other_endpoints(broker: Station, kind: int, code: ErrorCode) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True, endpoint_type=kind)
    answer = await broker.ask(request, 1)
    assert (answer.error_code, answer.endpoint_type, answer.cluster_id, answer.controller_id) == (code, 1, "", -1)
    assert (answer.brokers, answer.cluster_authorized_operations) == ([], -(1 << 31))
