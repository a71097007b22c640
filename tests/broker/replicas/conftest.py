"""Work of its own for every test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from minikafka.broker.work import LoopWork


@pytest.fixture
async def work() -> AsyncIterator[LoopWork]:
    made = LoopWork()
    yield made
    await made.stop()
