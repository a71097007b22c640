"""One seed, from its start to its result."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import NamedTuple

from minikafka.broker.zookeeper.topic_nodes import state_path
from minikafka.client import KafkaError
from tests.schedules.stage import Faults
from tests.sim.campaign import anomalies
from tests.sim.campaign.admin import Operators
from tests.sim.campaign.judge import judge_groups, judge_records, judge_transactions
from tests.sim.campaign.leaks import leaks
from tests.sim.campaign.load import Load, T, X
from tests.sim.campaign.load_groups import Groups
from tests.sim.campaign.load_transactions import Transactions
from tests.sim.campaign.losses import Losses
from tests.sim.campaign.observer import Observer
from tests.sim.campaign.plan import STORM_SECONDS, Plan
from tests.sim.campaign.replicas import partitions, replicas_of, unsettled
from tests.sim.campaign.settings import CHURNED, REPLICAS, WEAK, settings_of
from tests.sim.client import SimClient
from tests.sim.cluster import NotSo, SimCluster
from tests.sim.loop import SimLoop

CALM_SECONDS = 90.0
_GARBAGE_THRESHOLD = 50_000


class Result(NamedTuple):
    """What came of a seed."""

    seed: int
    violations: list[str]
    trace: int
    counts: dict[str, int]
    faults: dict[str, int]
    permitted: dict[str, int]
    """Why records might have been lost, and how often."""
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
    thresholds = gc.get_threshold()
    # A run makes little garbage with cycles, and looking for it takes a tenth of the time.
    gc.set_threshold(_GARBAGE_THRESHOLD, *thresholds[1:])
    try:
        if plan.shuffles:
            loop.shuffle = Random(plan.seed)
        loop.run(run.play())
    except Exception as error:
        run.violations.append(f"raised: {error!r}")
    finally:
        gc.set_threshold(*thresholds)
        logger.removeHandler(raised)
    violations = [*run.violations, *(f"traceback: {text}" for text in (*loop.faults, *raised.found))]
    counts = {**run.counts, "steps": loop.steps}
    seconds = time.process_time() - began
    return Result(plan.seed, violations, loop.trace, counts, run.faults, run.permitted, seconds, run.storm_seconds)


class _Run:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.violations: list[str] = []
        self.counts: dict[str, int] = {}
        self.faults: dict[str, int] = {}
        self.permitted: dict[str, int] = {}
        self.storm_seconds = 0.0

    async def play(self) -> None:
        plan = self.plan
        cluster = await SimCluster.start(3, settings_of(plan), plan.seed)
        await _create_topics(cluster)
        latency, mean = Random(plan.seed), plan.latency_seconds
        cluster.seconds = lambda: min(20 * mean, latency.expovariate(1 / mean))
        losses = Losses(
            plan.durability, lambda broker_id: _is_in_sync(cluster, broker_id), asyncio.get_running_loop().time
        )
        observer = Observer(cluster, lambda: losses.permit("unclean election"))
        load = Load(plan, cluster)
        transactions, groups = Transactions(load), Groups(load)
        for clients in (load, transactions, groups):
            clients.start()
        watching = cluster.background(observer.run())
        injector = Operators(cluster, plan, losses)
        await self._inject(injector)
        load.is_storm = False
        await self._settle(cluster, injector, load, transactions)
        watching.cancel()
        self.violations += observer.violations
        with suppress(TimeoutError):
            self.violations += await leaks(cluster, load.processes)
        self.violations += [f"fault: {text}" for text in cluster.faults]
        self.violations += judge_records(load.records, losses.permitted)
        self.violations += judge_transactions(transactions.events, losses.permitted)
        self.violations += judge_groups(groups.events, losses.permitted)
        self.violations += [f"stale-generation: {text}" for text in groups.accepted]
        self.counts = {**load.counts, **observer.counts, "write_cycles": anomalies.write_cycles(transactions.events)}
        self.faults, self.permitted = dict(injector.counts), dict(losses.reasons)

    async def _inject(self, injector: Operators) -> None:
        now: Callable[[], float] = asyncio.get_running_loop().time
        began = now()
        for fault in self.plan.faults:
            await asyncio.sleep(began + fault.at - now())
            injector.inject(fault)
        await asyncio.sleep(began + STORM_SECONDS - now())
        # By the sum of its sleeps, which rounding leaves a little short.
        self.storm_seconds = round(now() - began, 6)

    async def _settle(self, cluster: SimCluster, injector: Operators, load: Load, transactions: Transactions) -> None:
        """Wait until the faults are over and everything is as it must be."""
        with suppress(NotSo):
            await cluster.until(lambda: injector.is_calm, CALM_SECONDS)
        cluster.network.heal_all()
        deadline = asyncio.get_running_loop().time() + CALM_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.5)
            if all(worker.done() for worker in load.workers) and not unsettled(cluster):
                break
        for worker in load.workers:
            if not worker.done():
                self.violations.append(f"no-progress: {worker.get_name()}")
            elif worker.exception():
                self.violations.append(f"raised: {worker.get_name()}: {worker.exception()!r}")
        self.violations += unsettled(cluster)
        try:
            async with asyncio.timeout(CALM_SECONDS):
                await load.read_to_end(T, load.records, "read_uncommitted")
                await load.read_to_end(X, transactions.events, "read_committed")
                for name in transactions.names:
                    await transactions.stable_offset(name, Random(self.plan.seed))
        except (KafkaError, TimeoutError) as error:
            self.violations.append(f"no-progress: reading everything in the end: {error!r}")


async def _create_topics(cluster: SimCluster) -> None:
    client = SimClient(cluster.network, "setup")
    controller_id = cluster.controller_id
    assert controller_id is not None
    await cluster.create_topic(REPLICAS)
    for topic, configs in ((X, {}), ("w", WEAK), (CHURNED, {})):
        await client.create_topic(controller_id, REPLICAS if topic == X else REPLICAS[:1], configs, topic)


def _is_in_sync(cluster: SimCluster, broker_id: int) -> bool:
    """Whether a broker is in every ISR again, by a decision that was made after it registered."""
    node = cluster.nodes[broker_id]
    context = node.broker.context if node.is_running else None
    if context is None or not context.membership.is_registered:
        return False
    for topic, index, state in partitions(cluster):
        replicas, _ = replicas_of(cluster, topic, index)
        is_newer = cluster.zookeeper.nodes[state_path(topic, index)].mzxid > context.membership.broker_epoch
        if broker_id in replicas and (broker_id not in state.isr or not is_newer):
            return False
    return True
