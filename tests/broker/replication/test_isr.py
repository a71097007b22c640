"""Proposals for the ISR: which answers of the controller count."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from minikafka.broker.replicas.leadership import Leadership
from minikafka.broker.replication.isr import IsrProposals
from minikafka.broker.statistics import Statistics
from minikafka.protocol.control import AlteredPartition, AlterPartitionRequest, AlterPartitionResponse

EPOCH = 3


class FakePartition:
    """What proposals need of a partition."""

    topic, index, name, topic_id = "t", 0, ("t", 0), bytes(16)

    def __init__(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self.partition_epoch = -1

    def settle_isr(self, leadership: Leadership) -> None:
        self.partition_epoch = leadership.partition_epoch


class Link:
    """A controller whose answer is about an ISR and a partition epoch; before it comes, the leader hears of others."""

    def __init__(self, leadership: Leadership, partition_epoch: int) -> None:
        self._leadership = leadership
        self._partition_epoch = partition_epoch
        self.answered = asyncio.Event()

    async def ask(self, request: AlterPartitionRequest, answer: object) -> AlterPartitionResponse:
        if self.answered.is_set():
            await asyncio.Event().wait()
        self._leadership.update((1, 2), (1,), 6, 0)
        self._leadership.propose((1, 2))
        self.answered.set()
        altered = AlteredPartition(
            topic="t", partition=0, leader=1, leader_epoch=EPOCH, isr=[1, 2], partition_epoch=self._partition_epoch
        )
        return AlterPartitionResponse(partitions=[altered])


@pytest.mark.parametrize(("partition_epoch", "isr", "proposed"), [(5, (1,), (1, 2)), (7, (1, 2), None)])
async def test_answer_counts_if_it_is_newer_than_what_the_leader_knows(
    partition_epoch: int, isr: tuple[int, ...], proposed: tuple[int, ...] | None
) -> None:
    """The controller's own word may overtake its answer, and the leader propose again before the answer comes."""
    leadership = Leadership(1, EPOCH, 0)
    leadership.update((1, 2), (1,), 4, 0)
    leadership.propose((1, 2))
    partition: Any = FakePartition(leadership)
    context: Any = SimpleNamespace(
        broker_id=1,
        membership=SimpleNamespace(broker_epoch=8),
        metadata=SimpleNamespace(broker_epochs={2: 9}),
        partitions=SimpleNamespace(statistics=Statistics()),
    )
    link: Any = Link(leadership, partition_epoch)
    proposals = IsrProposals(context, link)
    proposals.add(partition)
    running = asyncio.ensure_future(proposals.run())
    await link.answered.wait()
    await asyncio.sleep(0)
    assert (leadership.isr, leadership.proposed) == (isr, proposed)
    assert partition.partition_epoch == (-1 if proposed else partition_epoch)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
