"""/health, /ready and /metrics of a broker in all its states."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from minikafka.broker.context import Context
from minikafka.broker.coordinators.groups.group import Group
from minikafka.broker.coordinators.groups.offsets import Commit, Offsets
from minikafka.broker.coordinators.groups.states import State
from minikafka.broker.gauges import read_gauges
from minikafka.broker.pages import Pages
from minikafka.broker.recent import Recent
from minikafka.broker.statistics import Statistics
from minikafka.broker.work import LoopWork
from minikafka.broker.zookeeper.coord import Session, SessionState


def partition(isr: int, replicas: int, min_isr: int, **more: Any) -> SimpleNamespace:
    log = SimpleNamespace(size_bytes=10, segments=[1, 2], log_start_offset=3, log_end_offset=4)
    leadership = SimpleNamespace(isr=range(isr)) if isr else None
    made = {"topic": "a", "index": 0, "leadership": leadership, "replicas": range(replicas), "min_isr": min_isr}
    return SimpleNamespace(**made, log=log, is_offline=False, **more)


def context(**changes: Any) -> Context:
    """As much of one as the pages look at."""
    parts: dict[str, Any] = {
        "broker_id": 7,
        "coord": SimpleNamespace(session=Session(SessionState.CONNECTED, 1)),
        "membership": SimpleNamespace(is_registered=True),
        "metadata": SimpleNamespace(is_known=True, brokers={}, topics={}),
        "partitions": SimpleNamespace(
            all={}, offline_count=0, log_dirs=SimpleNamespace(dirs=[SimpleNamespace(path="d", is_offline=False)])
        ),
    }
    return cast("Context", SimpleNamespace(**parts | changes))


@dataclass
class Broker:
    """Stands in for the broker."""

    context: Context | None = None
    followers: None = None
    is_controller: bool = False
    groups: Sequence[Group] = ()
    statistics: Statistics = field(default_factory=Statistics)


@pytest.fixture
async def work() -> AsyncIterator[LoopWork]:
    made = LoopWork()
    yield made
    await made.stop()


async def test_readiness(work: LoopWork) -> None:
    broker = Broker()
    pages = Pages(broker, Recent(), work)

    async def told() -> tuple[int, str]:
        answer = await pages.ready()
        content = json.loads(answer.body)
        return answer.status, content.get("reason", content["status"])

    assert await told() == (503, "starting")
    broker.context = context(membership=SimpleNamespace(is_registered=False))
    assert await told() == (503, "not registered in ZooKeeper")
    broker.context = context(metadata=SimpleNamespace(is_known=False))
    assert await told() == (503, "waiting for the controller")
    broker.context = context(coord=SimpleNamespace(session=Session(SessionState.LOST, 1)))
    assert await told() == (503, "the session with ZooKeeper is lost")
    # Leaders serve on while they are cut off from ZooKeeper.
    broker.context = context(coord=SimpleNamespace(session=Session(SessionState.SUSPENDED, 1)))
    assert await told() == (200, "ready")
    broker.context = context()
    assert await told() == (200, "ready")
    pages.is_stopping = True
    assert await told() == (503, "stopping")


async def test_health(work: LoopWork) -> None:
    broker = Broker()
    pages = Pages(broker, Recent(), work)

    async def told() -> tuple[int, list[str]]:
        answer = await pages.health()
        return answer.status, json.loads(answer.body)["reasons"]

    assert await told() == (200, [])
    broker.context = context()
    assert await told() == (200, [])
    dirs = [SimpleNamespace(path="/one", is_offline=False), SimpleNamespace(path="/two", is_offline=True)]
    broker.context = context(partitions=SimpleNamespace(log_dirs=SimpleNamespace(dirs=dirs)))
    broker.statistics.loop.lag_ms = 6000
    assert await told() == (503, ["the event loop was 6000 ms late", "log directory /two is offline"])


@pytest.mark.parametrize("is_started", [False, True])
async def test_metrics(work: LoopWork, is_started: bool) -> None:
    answer = await Pages(Broker(context() if is_started else None), Recent(), work).metrics()
    assert answer.status == 200
    assert answer.content_type.startswith("text/plain")
    assert b"kafka_server_replicamanager_partitioncount 0.0\n" in answer.body


def test_gauges_of_replicas() -> None:
    partitions = [
        partition(isr=3, replicas=3, min_isr=2),
        partition(isr=2, replicas=3, min_isr=2),
        partition(isr=1, replicas=3, min_isr=2),
        partition(isr=0, replicas=3, min_isr=2),
    ]
    dirs = SimpleNamespace(dirs=[SimpleNamespace(is_offline=True)])
    holder = SimpleNamespace(all=dict(enumerate(partitions)), offline_count=5, log_dirs=dirs)
    gauges = read_gauges(context(partitions=holder), is_controller=False)
    assert gauges.replicas == (4, 3, 2, 1, 1, 5)
    assert gauges.logs[0] == ("a", 0, 10, 2, 3, 4)
    assert gauges.offline_log_dirs == 1
    assert gauges.session == "connected"
    assert gauges.cluster == (0, 0, 0, 0, 0, 0)


def test_gauges_of_the_cluster_are_the_controllers() -> None:
    states = {
        0: SimpleNamespace(leader=1, replicas=[1, 2]),
        1: SimpleNamespace(leader=2, replicas=[1, 2]),
        2: SimpleNamespace(leader=-1, replicas=[1]),
    }
    metadata = SimpleNamespace(brokers={1: None, 2: None}, topics={"a": SimpleNamespace(partitions=states)})
    assert read_gauges(context(metadata=metadata), is_controller=True).cluster == (1, 2, 1, 3, 1, 2)


def test_groups() -> None:
    offsets = Offsets()
    offsets.put(("orders", 1), Commit(17, 0, "", 0), log_offset=0)
    # Not committed before the transaction is.
    offsets.put_pending(5, ("orders", 2), Commit(18, 0, "", 0), log_offset=1)
    # Committed for an earlier topic of the name.
    offsets.put(("payments", 0), Commit(19, 0, "", 0, topic_id=b"old"), log_offset=2)
    group = cast("Group", SimpleNamespace(group_id="g", state=State.STABLE, members=[1, 2], offsets=offsets))
    metadata = SimpleNamespace(topic_id={"payments": b"new"}.get)
    assert read_gauges(context(metadata=metadata), is_controller=False, groups=[group]).groups == [
        ("g", "Stable", 2, [("orders", 1, 17)])
    ]
