"""FindCoordinator before there are coordinators."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.handlers import groups
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.groups import FindCoordinatorRequest
from tests.broker.handlers.station import Station, station


@pytest.fixture
async def broker() -> AsyncIterator[Station]:
    async with station(groups.routes) as made:
        yield made


@pytest.mark.parametrize("version", range(7))
async def test_nobody_coordinates(broker: Station, version: int) -> None:
    """A retriable answer, for one key or for each of many."""
    answer = await broker.ask(FindCoordinatorRequest(key="a", coordinator_keys=["a", "b"]), version)
    found = [answer] if version < 4 else answer.coordinators
    assert [one.error_code for one in found] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * (1 if version < 4 else 2)
    assert {(one.node_id, one.host, one.port) for one in found} == {(-1, "", -1)}
    if version >= 4:
        assert [one.key for one in found] == ["a", "b"]
