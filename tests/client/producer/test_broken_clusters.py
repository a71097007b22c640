"""Brokers that are killed, stopped and paused while records are sent: nothing is lost or doubled, order is kept."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from minikafka.client.producer import Delivery, Producer
from tests.broker.eventually import eventually
from tests.chaos.cluster import Broker, Cluster
from tests.compat.clients.confluent import Confluent, ConfluentAdmin
from tests.compat.clients.model import Reading

PARTITIONS = 3
START_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("broken")) as made:
        yield made
        assert [*made.complaints()] == []


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Each broker leads a partition of it."""
    name = f"broken-{uuid.uuid4().hex[:8]}"
    ConfluentAdmin(cluster.bootstrap).create_topic(name, {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.wait_until_whole(name)
    return name


class Load:
    """Sends numbers to all partitions, some at a time, and remembers what became of them."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self.deliveries: list[Delivery] = []

    async def run(self) -> None:
        number = 0
        while True:
            for partition in range(PARTITIONS):
                self.deliveries.append(await self._producer.send(self._topic, b"%d" % number, partition=partition))
            number += 1
            if number % 10 == 0:
                await asyncio.sleep(0.002)

    async def wait_for_more(self) -> None:
        """Until what is sent from now on has been acknowledged, on every partition."""
        last = len(self.deliveries) + 10 * PARTITIONS
        await eventually(lambda: len(self.deliveries) > last + PARTITIONS, START_S)
        for delivery in self.deliveries[last : last + PARTITIONS]:
            await asyncio.wait_for(delivery, START_S)


@asynccontextmanager
async def loaded(cluster: Cluster, topic: str, options: dict[str, int]) -> AsyncIterator[Load]:
    async with Producer(bootstrap_servers=cluster.bootstrap, **options) as producer:  # type: ignore[arg-type]
        load = Load(producer, topic)
        sending = asyncio.create_task(load.run())
        try:
            await load.wait_for_more()
            yield load
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


def check(cluster: Cluster, topic: str, load: Load) -> None:
    """Every record was acknowledged, at the place where it is found, and is there once and in order."""
    rounds = -(-len(load.deliveries) // PARTITIONS)
    for partition in range(PARTITIONS):
        sent = load.deliveries[partition::PARTITIONS]
        found = [*Confluent(cluster.bootstrap).read(topic, len(sent), Reading(partitions=[partition]))]
        assert [received.value for received in found] == [b"%d" % number for number in range(rounds)][: len(sent)]
        told = [(delivery.result().offset, received.offset) for delivery, received in zip(sent, found, strict=True)]
        assert [pair for pair in told if pair[0] not in (pair[1], -1)] == []


Trouble = Callable[[Cluster, Broker], None]


def kill(cluster: Cluster, broker: Broker) -> None:
    broker.kill()


def stop(cluster: Cluster, broker: Broker) -> None:
    broker.stop()


def pause(cluster: Cluster, broker: Broker) -> None:
    broker.signal(signal.SIGSTOP)


def restart(cluster: Cluster, broker: Broker, epoch: int) -> None:
    if broker.pid:
        broker.signal(signal.SIGCONT)
    else:
        broker.start()
    cluster.wait_until_back(broker.id, epoch)


@pytest.mark.parametrize("trouble", [kill, stop, pause])
async def test_a_leader_is_lost_and_comes_back(cluster: Cluster, topic: str, trouble: Trouble) -> None:
    broker = cluster.brokers[0]
    epoch = cluster.epoch(broker.id)
    async with loaded(cluster, topic, {"request_timeout_ms": 1_500, "max_batch_size": 2_000}) as load:
        await asyncio.to_thread(trouble, cluster, broker)
        await load.wait_for_more()
        await asyncio.to_thread(restart, cluster, broker, epoch)
        await load.wait_for_more()
    await asyncio.to_thread(check, cluster, topic, load)
    await asyncio.to_thread(cluster.wait_until_whole, topic)


async def test_every_broker_is_stopped_in_turn(cluster: Cluster, topic: str) -> None:
    async with loaded(cluster, topic, {"request_timeout_ms": 5_000}) as load:
        for broker in cluster.brokers:
            epoch = cluster.epoch(broker.id)
            await asyncio.to_thread(stop, cluster, broker)
            await load.wait_for_more()
            await asyncio.to_thread(restart, cluster, broker, epoch)
            await asyncio.to_thread(cluster.wait_until_whole, topic)
        await load.wait_for_more()
    await asyncio.to_thread(check, cluster, topic, load)
