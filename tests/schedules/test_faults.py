"""Schedules about faults of our own, and nodes that somebody has damaged: what ends a broker, and what must not.

L is the leader, F and G follow. Broker C has no replica: it is the controller.
"""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.broker.config_watch import ConfigWatch
from minikafka.broker.controller.task import ControllerTask
from minikafka.broker.coordinators.groups.coordinator import GroupCoordinator
from minikafka.broker.coordinators.transactions.coordinator import TransactionCoordinator
from minikafka.broker.membership import Membership
from minikafka.broker.node import BrokerFault
from minikafka.broker.replication.fetcher import Fetcher
from minikafka.broker.replication.isr import IsrProposals
from minikafka.broker.zookeeper.coord import Set
from minikafka.broker.zookeeper.dir_failures import DirFailures
from minikafka.broker.zookeeper.znodes import CONTROLLER
from tests.schedules.stage import must, play
from tests.sim.cluster import SimCluster

L, F, G, C = 1, 2, 3, 4

VITAL: list[Any] = [
    (ConfigWatch, "run"),
    (ControllerTask, "run"),
    (DirFailures, "run"),
    (Fetcher, "run"),
    (GroupCoordinator, "run"),
    (IsrProposals, "run"),
    (IsrProposals, "watch_lag"),
    (Membership, "run"),
    (TransactionCoordinator, "run_timeouts"),
    (TransactionCoordinator, "run_expiry"),
]


@pytest.mark.parametrize(("part", "endless"), VITAL)
def test_a_broker_ends_with_what_it_cannot_do_without(
    part: type, endless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fault(*_: object) -> None:
        raise ValueError("a fault")

    async def story() -> None:
        cluster = await SimCluster.start(2)
        monkeypatch.setattr(part, endless, fault)
        with pytest.raises(BrokerFault, match="a fault"):
            await cluster.stop(L)
            await cluster.boot(L)
            await cluster.client.create_topic(2, [(2, L)], {})
            await cluster.wait(1)
            cluster.nodes[L].broker.check()
        cluster.nodes[2].broker.check()

    play(story)


async def controller_that_makes_no_sense() -> None:
    """Somebody writes something into the node of the controller. Nobody can tell who it is, and no broker ends for
    that. When the node is removed, somebody is elected.
    """
    cluster = await SimCluster.start(4)
    await cluster.create_topic()
    cluster.zookeeper.write(cluster.zookeeper.open_session(lambda: None), Set(CONTROLLER, b"{"))
    await cluster.wait(5)
    for each in cluster.nodes.values():
        each.broker.check()
    await cluster.client.produce(L, b"m1")
    cluster.depose_controller()
    await cluster.wait(5)
    must(cluster.controller_id is not None, "nobody is elected")
    cluster.kill(L)
    await cluster.until_leads(F)


def test_controller_that_makes_no_sense() -> None:
    play(controller_that_makes_no_sense)
