"""Fencing of the control plane: the controller's epoch and the broker's epoch decide before anything else does."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from minikafka.broker.handlers import control
from minikafka.broker.network.dispatch import Call
from minikafka.broker.zookeeper.coord import Session, SessionState
from minikafka.broker.zookeeper.registration import Registration
from minikafka.broker.zookeeper.znodes import BrokerNode, Endpoint
from minikafka.protocol.control import LeaderAndIsrRequest, LiveBroker, StopReplicaRequest, UpdateMetadataRequest
from minikafka.protocol.errors import ErrorCode
from tests.broker.handlers.station import Station, station
from tests.sim.memory_coord import MemoryCoord


def _describe() -> BrokerNode:
    return BrokerNode((Endpoint("PLAINTEXT", "PLAINTEXT", "broker-1", 9092),), rack=None, timestamp_ms=1)


def _requests(broker_epoch: int, controller_epoch: int) -> Iterator[Any]:
    epochs: Any = {"controller_id": 2, "controller_epoch": controller_epoch, "broker_epoch": broker_epoch}
    yield LeaderAndIsrRequest(**epochs, partitions=[])
    yield StopReplicaRequest(**epochs, partitions=[])
    yield UpdateMetadataRequest(**epochs, brokers=[], partitions=[])


async def _answer(broker: Station, request: Any) -> ErrorCode:
    route = broker.dispatcher.routes[type(request).api_key]
    answer: Any = route.handler(Call(request, 0, None, broker.connection))
    if isinstance(answer, Awaitable):
        answer = await answer
    return ErrorCode(answer.error_code)


async def _must_all_get(broker: Station, error: ErrorCode, *, broker_epoch: int, controller_epoch: int = 5) -> None:
    answers = [await _answer(broker, each) for each in _requests(broker_epoch, controller_epoch)]
    assert answers == [error] * 3


async def test_control_requests_need_a_registration() -> None:
    async with station(control.routes) as broker:
        for broker_epoch in (-1, 0, 7):
            await _must_all_get(broker, ErrorCode.BROKER_ID_NOT_REGISTERED, broker_epoch=broker_epoch)
        assert broker.context.membership.controller_epoch == 0


async def test_control_requests_are_for_one_registration() -> None:
    async with station(control.routes) as broker:
        membership = broker.context.membership
        await membership.join(_describe)
        epoch = membership.broker_epoch
        for other in (-1, epoch - 1, epoch + 1):
            await _must_all_get(broker, ErrorCode.STALE_BROKER_EPOCH, broker_epoch=other)
        await _must_all_get(broker, ErrorCode.NONE, broker_epoch=epoch)


async def test_control_requests_of_an_older_controller_are_refused() -> None:
    async with station(control.routes) as broker:
        membership = broker.context.membership
        await membership.join(_describe)
        epoch = membership.broker_epoch
        await _must_all_get(broker, ErrorCode.NONE, broker_epoch=epoch, controller_epoch=5)
        brokers = dict(broker.context.metadata.broker_epochs)
        await _must_all_get(broker, ErrorCode.STALE_CONTROLLER_EPOCH, broker_epoch=epoch, controller_epoch=4)
        stale = UpdateMetadataRequest(
            controller_id=2,
            controller_epoch=4,
            broker_epoch=epoch,
            brokers=[LiveBroker(broker_id=9, broker_epoch=9, endpoints=[])],
            partitions=[],
        )
        assert await _answer(broker, stale) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert broker.context.metadata.broker_epochs == brokers


async def test_registration_of_a_lost_session_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer was read, and before it is acted upon the session is over: it is no registration any more."""
    register = Registration.register
    epochs = []

    async with station(control.routes) as broker:
        membership, coord = broker.context.membership, broker.context.coord
        assert isinstance(coord, MemoryCoord)

        async def register_and_lose(self: Registration, node: BrokerNode) -> int:
            epochs.append(await register(self, node))
            if len(epochs) == 1:
                coord.expire()
                coord.announce(Session(SessionState.LOST, coord.session.id))
                coord._session_id = 0
                coord.drop()
            return epochs[-1]

        monkeypatch.setattr(Registration, "register", register_and_lose)
        await membership.join(_describe)
        assert len(epochs) == 2 and epochs[0] < epochs[1]
        assert membership.broker_epoch == epochs[1]
        await _must_all_get(broker, ErrorCode.STALE_BROKER_EPOCH, broker_epoch=epochs[0])
