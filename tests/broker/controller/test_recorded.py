"""Requests about topics that a real Kafka was asked, asked of our handlers with a real controller behind them."""

from __future__ import annotations

import pytest

from tests.broker.controller.fakes import running
from tests.broker.zookeeper.worlds import MemoryWorld
from tests.compat.replay.cluster import Cluster
from tests.compat.replay.playing import play_all
from tests.compat.replay.recording import Case, all_cases

# As those brokers were whose answers were recorded.
SETTINGS = {"min.insync.replicas": "2", "default.replication.factor": "1", "num.partitions": "1"}

FAMILIES = ("create-topic", "delete-topic", "create-partitions", "reassignment-errors", "list-reassignments")


def cases() -> list[Case]:
    return [each for each in all_cases() if each.name.startswith(FAMILIES)]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
async def test_answers_are_the_recorded_ones(case: Case) -> None:
    async with MemoryWorld() as world, running(world, 3, SETTINGS) as cluster:
        addresses = {broker_id: ("127.0.0.1", each.port) for broker_id, each in cluster.brokers.items()}
        outcomes = await play_all([case], Cluster(addresses))
    assert not outcomes[case.name].trouble, f"\n{outcomes[case.name].trouble}"
