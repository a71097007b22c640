"""The queue of a controller: what ends it, and what concerns only who asked."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.broker.controller.events import Events
from minikafka.broker.statistics import ControllerStatistics
from minikafka.broker.zookeeper.coord import Closed, ConnectionLoss, CoordError, NoAuth, TooLarge
from minikafka.broker.zookeeper.election import ControllerFenced
from minikafka.broker.zookeeper.znodes import BadNode
from minikafka.protocol.errors import UnknownServerError


async def asked(events: Events, error: Exception) -> asyncio.Task[object]:
    """Somebody asks for something that ends in an error when its turn comes."""

    async def work() -> object:
        raise error

    asking = asyncio.ensure_future(events.ask(work))
    await asyncio.sleep(0)
    return asking


@pytest.mark.parametrize("error", [TooLarge("a lot"), BadNode("a mess"), NoAuth("forbidden")])
async def test_what_zookeeper_refuses_concerns_who_asked(error: CoordError) -> None:
    events = Events(ControllerStatistics())
    asking = await asked(events, error)
    await events.take()
    with pytest.raises(UnknownServerError, match=str(error)):
        await asking


async def test_a_fault_concerns_who_asked() -> None:
    events = Events(ControllerStatistics())
    asking = await asked(events, ValueError())
    await events.take()
    with pytest.raises(ValueError):
        await asking


@pytest.mark.parametrize("error", [ControllerFenced(), ConnectionLoss(), Closed()])
async def test_the_end_of_the_controllership_ends_it(error: CoordError) -> None:
    events = Events(ControllerStatistics())
    asking = await asked(events, error)
    with pytest.raises(type(error)):
        await events.take()
    asking.cancel()
