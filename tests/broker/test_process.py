"""A broker as a process: when it ends by itself."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from minikafka.broker.node import BrokerFault
from minikafka.broker.process import _stop_on_signals, _until_told


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


@pytest.fixture
def hang_up() -> Iterator[None]:
    """What SIGHUP does here is as before when the test is over."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hang_up")
async def test_hang_up_of_the_terminal_is_a_stop_in_good_order() -> None:
    signal.signal(signal.SIGHUP, lambda *_: pytest.fail("nobody handles it"))
    told = _stop_on_signals()
    async with asyncio.timeout(30):
        os.kill(os.getpid(), signal.SIGHUP)
        await told.wait()
        # A second one does not insist.
        os.kill(os.getpid(), signal.SIGHUP)
        for _ in range(4):
            await asyncio.sleep(0)
    _forget_signals()


@pytest.mark.usefixtures("hang_up")
async def test_hang_up_stays_ignored_under_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _stop_on_signals()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    _forget_signals()


def _forget_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(number)
