"""A broker as a process: when it ends by itself."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from minikafka.broker.node import BrokerFault
from minikafka.broker.process import _until_told


class FakeBroker:
    """A broker with a disk, which cannot go on if it says so."""

    def __init__(self) -> None:
        self.context = SimpleNamespace(partitions=SimpleNamespace(log_dirs=SimpleNamespace(online=[object()])))
        self.fault: BrokerFault | None = None

    def check(self) -> None:
        if self.fault is not None:
            raise self.fault


async def test_a_fault_ends_the_process() -> None:
    broker: Any = FakeBroker()
    running = asyncio.ensure_future(_until_told(broker, asyncio.Event()))
    await asyncio.sleep(0)
    assert not running.done()
    broker.fault = BrokerFault("fetching ended")
    async with asyncio.timeout(30):
        with pytest.raises(BrokerFault):
            await running


async def test_it_ends_when_it_is_told_to() -> None:
    broker: Any = FakeBroker()
    told = asyncio.Event()
    running = asyncio.ensure_future(_until_told(broker, told))
    told.set()
    async with asyncio.timeout(30):
        await running
