"""One seed, from its start to its result."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from minikafka.client import KafkaError
from tests.chaos import checker
from tests.chaos.coordinators import transactions
from tests.schedules.stage import Faults
from tests.sim.campaign.admin import CHURNED, Operators
from tests.sim.campaign.load import Load
from tests.sim.campaign.losses import PowerLog, history_after, violations
from tests.sim.campaign.observer import Observer
from tests.sim.campaign.plan import STORM_SECONDS, Plan
from tests.sim.campaign.replicas import partition_at, partitions, unsettled
from tests.sim.client import SimClient
from tests.sim.cluster import NotSo, SimCluster
from tests.sim.loop import SimLoop

CALM_SECONDS = 90.0

_SETTINGS = {
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "1500",
    "replica.socket.timeout.ms": "2000",
    "replica.fetch.wait.max.ms": "500",
    "controller.socket.timeout.ms": "2000",
    "request.timeout.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.segment.bytes": "16384",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "3000",
    "log.retention.check.interval.ms": "3000",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    "offsets.commit.timeout.ms": "2000",
    "group.initial.rebalance.delay.ms": "100",
    "broker.rack": "r{id}",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
_REPLICAS = ((1, 2, 3), (2, 3, 1))
_WEAK = {"segment.bytes": "4000", "retention.bytes": "12000"}


class Result(NamedTuple):
    """What came of a seed."""

    seed: int
    violations: list[str]
    trace: int
    counts: dict[str, int]
    faults: dict[str, int]
    permits_loss: bool
    cpu_seconds: float
    storm_seconds: float
    """How long faults were injected, in virtual time; 0 if the run ended before they were over."""

    @property
    def counted(self) -> bool:
        """Whether enough has happened for the seed to count."""
        is_busy = self.counts.get("acked", 0) >= 100 and self.counts.get("committed", 0) >= 1
        return is_busy and self.storm_seconds >= STORM_SECONDS and sum(self.faults.values()) > 0


def play(plan: Plan) -> Result:
    """Run a plan to its end. What is raised on the way is a violation too."""
    loop, raised = SimLoop(), Faults()
    run = _Run(plan)
    began = time.process_time()
    logger = logging.getLogger("minikafka")
    logger.addHandler(raised)
    try:
        if plan.shuffles:
            loop.shuffle = Random(plan.seed)
        loop.run(run.play())
    except Exception as error:
        run.violations.append(f"raised: {error!r}")
    finally:
        logger.removeHandler(raised)
    found = [*run.violations, *(f"traceback: {each}" for each in (*loop.faults, *raised.found))]
    counts = {**run.counts, "steps": loop.steps}
    seconds = time.process_time() - began
    return Result(plan.seed, found, loop.trace, counts, run.faults, run.permits_loss, seconds, run.storm_seconds)


class _Run:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.violations: list[str] = []
        self.counts: dict[str, int] = {}
        self.faults: dict[str, int] = {}
        self.permits_loss = False
        self.storm_seconds = 0.0

    async def play(self) -> None:
        plan = self.plan
        cluster = await SimCluster.start(3, {**_SETTINGS, "minikafka.durability": plan.durability}, plan.seed)
        await self._create_topics(cluster)
        latency = Random(plan.seed)
        mean = plan.latency_seconds
        cluster.seconds = lambda: min(20 * mean, latency.expovariate(1 / mean))
        now = asyncio.get_running_loop().time
        power = PowerLog(plan.durability, lambda broker_id: _is_in_sync(cluster, broker_id), now)
        injector, load, observer = (
            Operators(cluster, plan, power),
            Load(plan.seed, is_full=plan.is_full),
            Observer(cluster),
        )
        watching = cluster.background(observer.run())
        load.start()
        began = now()
        for fault in plan.faults:
            await asyncio.sleep(began + fault.at - now())
            injector.inject(fault)
        await asyncio.sleep(began + STORM_SECONDS - now())
        # By the sum of its sleeps, which rounding leaves a little short.
        self.storm_seconds = round(now() - began, 6)
        load.is_storm = injector.is_storm = False
        await self._settle(cluster, injector, load)
        watching.cancel()
        self.counts = {**load.counts, **observer.counts}
        self.faults = dict(injector.counts)
        self.permits_loss = power.permits_loss
        self._judge(load, observer, cluster, power)

    async def _create_topics(self, cluster: SimCluster) -> None:
        await cluster.create_topic(_REPLICAS)
        client = SimClient(cluster.network, "setup")
        controller_id = cluster.controller_id
        assert controller_id is not None
        for topic, configs in (("x", {}), ("w", _WEAK), (CHURNED, {})):
            replicas = _REPLICAS if topic == "x" else _REPLICAS[:1]
            await client.create_topic(controller_id, replicas, configs, topic)

    async def _settle(self, cluster: SimCluster, injector: Operators, load: Load) -> None:
        """Wait until the faults are over and everything is as it must be."""
        with suppress(NotSo):
            await cluster.until(lambda: not injector.ailing, CALM_SECONDS)
        cluster.network.heal_all()
        deadline = asyncio.get_running_loop().time() + CALM_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.5)
            if all(each.done() for each in load.workers) and not unsettled(cluster):
                break
        self.violations += [f"no-progress: {each.get_name()}" for each in load.workers if not each.done()]
        self.violations += [
            f"raised: {each.get_name()}: {each.exception()!r}"
            for each in load.workers
            if each.done() and each.exception()
        ]
        self.violations += unsettled(cluster)
        names = ("txn-0", "txn-1") if self.plan.is_full else ("txn-0",)
        try:
            async with asyncio.timeout(CALM_SECONDS):
                await load.read_all(names)
        except (KafkaError, TimeoutError) as error:
            self.violations.append(f"no-progress: reading everything in the end: {error!r}")

    def _judge(self, load: Load, observer: Observer, cluster: SimCluster, power: PowerLog) -> None:
        records = checker.check(load.records)
        txns = transactions.check(load.transactions, transactions.Bounds(hung_seconds=1e9))
        found: list[Any] = [*records.anomalies, *txns.anomalies]
        anomalies = [(each.kind, f"{each.partition} {each.text}") for each in found]
        anomalies += [("stale-offset", each) for each in load.stale]
        self.violations += violations(anomalies, permits_loss=self.permits_loss)
        if power.overlapped_at is not None:
            later = checker.check(history_after(load.records, power.overlapped_at)).anomalies
            self.violations += [f"{each.kind}: {each.partition} {each.text}" for each in later]
        self.violations += observer.reigns.violations
        self.violations += [f"fault: {each}" for each in cluster.faults]


def _is_in_sync(cluster: SimCluster, broker_id: int) -> bool:
    """Whether a broker is in every ISR again, by a decision that was made after it registered."""
    node = cluster.nodes[broker_id]
    context = node.broker.context if node.is_running else None
    if context is None or not context.membership.is_registered:
        return False
    for topic, index, state in partitions(cluster):
        here = partition_at(cluster, broker_id, topic, index)
        path = f"/brokers/topics/{topic}/partitions/{index}/state"
        is_newer = cluster.zookeeper.nodes[path].mzxid > context.membership.broker_epoch
        if here is not None and (broker_id not in state.isr or not is_newer):
            return False
    return True
