"""Trouble with ZooKeeper, as clients are told of it."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.broker.handlers.patience import Patience
from minikafka.broker.zookeeper.coord import Closed, CoordError, NoAuth, TooLarge
from minikafka.protocol.errors import (
    BrokerNotAvailableError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    RequestTimedOutError,
    UnknownServerError,
)
from tests.broker.handlers.station import station


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (TooLarge("much"), InvalidRequestError),
        (Closed("gone"), BrokerNotAvailableError),
        (NoAuth("no"), UnknownServerError),
        (InvalidTopicError("bad"), InvalidTopicError),
    ],
)
async def test_trouble(trouble: CoordError | KafkaError, told: type[KafkaError]) -> None:
    async def fail() -> None:
        raise trouble

    async with station(lambda _: []) as broker:
        with pytest.raises(told):
            await Patience(broker.context).ask(fail)


async def test_the_end_of_patience() -> None:
    async with station(lambda _: [], {"request.timeout.ms": "30"}) as broker:
        patience = Patience(broker.context)
        for _ in range(2):
            with pytest.raises(RequestTimedOutError):
                await patience.ask(asyncio.Event().wait)
