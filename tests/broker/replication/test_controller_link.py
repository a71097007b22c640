"""The way to the controller: one connection, however many ask."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.broker.live_config import LiveConfig
from minikafka.broker.metadata import Metadata
from minikafka.broker.network.net import TcpNet
from minikafka.broker.network.peer import Peer
from minikafka.broker.replication.controller_link import ControllerLink
from minikafka.protocol.control import ControlledShutdownRequest, ControlledShutdownResponse, Endpoint, LiveBroker
from tests.broker.config.recorded import config_of


class FakePeer:
    """A connection that answers everything."""

    is_open = True

    async def ask_control(self, *_: object) -> ControlledShutdownResponse:
        return ControlledShutdownResponse()

    def close(self) -> None:
        self.is_open = False


async def test_two_who_ask_at_once_share_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[FakePeer] = []

    async def connect(*_: object, **__: Any) -> FakePeer:
        await asyncio.sleep(0)
        made.append(FakePeer())
        return made[-1]

    monkeypatch.setattr(Peer, "connect", connect)
    metadata = Metadata()
    endpoint = Endpoint(listener="PLAINTEXT", security_protocol="PLAINTEXT", host="broker-2", port=9092)
    metadata.brokers = {2: LiveBroker(broker_id=2, broker_epoch=1, endpoints=[endpoint])}
    metadata.set_controller(2)
    link = ControllerLink(1, TcpNet(), LiveConfig(config_of()), metadata)
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=1)
    await asyncio.gather(*(link.ask(request, ControlledShutdownResponse) for _ in range(2)))
    assert [each.is_open for each in made] == [True]
