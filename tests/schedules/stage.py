"""What all schedules have in common: playing them, and what must hold at their end.

A `Violation` is what a schedule is about: something acknowledged is gone, or replicas differ. Whatever else goes wrong
on the way is a plain AssertionError: a mutant that only fails so has not been caught.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from minikafka.broker.network.peer import PeerGone
from minikafka.protocol.errors import KafkaError
from tests.sim.cluster import SimCluster
from tests.sim.loop import SimLoop

Story = Callable[[], Coroutine[Any, Any, None]]
Mutation = Callable[[pytest.MonkeyPatch], None]


class Violation(AssertionError):
    """A promise was broken."""


class Faults(logging.Handler):
    """Remembers what was logged with a traceback: that is never part of a schedule."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(self.format(record))


def play(story: Story) -> None:
    """Run a schedule to its end."""
    loop, faults = SimLoop(), Faults()
    logger = logging.getLogger("minikafka")
    logger.addHandler(faults)
    try:
        loop.run(story())
    finally:
        logger.removeHandler(faults)
    found = [*loop.faults, *faults.found]
    assert not found, "\n".join(found)


def must_fail(story: Story, mutation: Mutation) -> None:
    """Run a schedule with a rule switched off, and see it end badly."""
    with pytest.MonkeyPatch.context() as patch:
        mutation(patch)
        with pytest.raises(Violation):
            play(story)


# ------------------------------------------------------------------------------------------------- acting


class Attempt:
    """A request that may take long; what comes of it is looked at later."""

    def __init__(self, asked: Coroutine[Any, Any, int]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._ask(asked))
        self.offset: int | None = None
        self.error: KafkaError | PeerGone | None = None

    async def _ask(self, asked: Coroutine[Any, Any, int]) -> None:
        try:
            self.offset = await asked
        except (KafkaError, PeerGone) as error:
            self.error = error

    @property
    def is_acked(self) -> bool:
        return self.offset is not None

    @property
    def is_over(self) -> bool:
        return self._task.done()


# ------------------------------------------------------------------------------------------------ promises


def must_hold(cluster: SimCluster, broker_id: int, *acked: bytes) -> None:
    """A leader has everything that was acknowledged."""
    missing = [each for each in acked if each not in cluster.values(broker_id)]
    if missing:
        raise Violation(f"broker {broker_id} has {cluster.values(broker_id)}, lost are {missing}")


async def must_agree(cluster: SimCluster, *broker_ids: int) -> None:
    """Replicas come to have the same records, written in the same epochs."""
    first, *others = broker_ids
    for _ in range(50):
        if all(cluster.log(each) == cluster.log(first) for each in others):
            return
        await cluster.wait(0.1)
    raise Violation(f"replicas differ for good: { {each: cluster.log(each) for each in broker_ids} }")


def must(holds: object, promise: str) -> None:
    if not holds:
        raise Violation(promise)
