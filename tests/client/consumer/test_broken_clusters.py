"""Brokers that are killed, stopped and paused while records are read: nothing is lost, nothing is read twice."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from minikafka.client.producer import Producer
from tests.broker.eventually import eventually
from tests.chaos.cluster import Broker, Cluster
from tests.client.consumer.groups import Reader, Witness, all_found, reader, wait_settled
from tests.client.consumer.reading import open_consumer
from tests.compat.clients.confluent import ConfluentAdmin

PARTITIONS = 3
WAIT_S = 50.0


def in_rack_of_its_own(broker: Broker) -> None:
    write = broker.write_properties

    def write_with_rack(settings: Mapping[str, str], zookeeper: str, advertised_peer_port: int) -> None:
        write({**settings, "broker.rack": f"rack-{broker.id}"}, zookeeper, advertised_peer_port)

    broker.write_properties = write_with_rack  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Consumers that say where they are may read from the nearest replica."""
    settings = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    prepared = Cluster(tmp_path_factory.mktemp("broken"), settings=settings)
    for broker in prepared.brokers:
        in_rack_of_its_own(broker)
    with prepared as made:
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
    """Writes to all partitions, and knows up to where."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self.rounds = 0

    async def run(self) -> None:
        while True:
            sent = [await self._producer.send(self._topic, b"x", partition=number) for number in range(PARTITIONS)]
            await asyncio.gather(*sent)
            self.rounds += 1


@asynccontextmanager
async def loaded(cluster: Cluster, topic: str) -> AsyncIterator[Load]:
    async with Producer(bootstrap_servers=cluster.bootstrap, request_timeout_ms=2000) as producer:
        load = Load(producer, topic)
        writing = asyncio.create_task(load.run())
        try:
            yield load
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await producer.flush()


def lose(broker: Broker, how: str) -> None:
    if how == "kill":
        broker.kill()
    elif how == "stop":
        broker.stop()
    else:
        broker.signal(signal.SIGSTOP)


def bring_back(cluster: Cluster, broker: Broker, epoch: int) -> None:
    if broker.pid:
        broker.signal(signal.SIGCONT)
    else:
        broker.start()
    cluster.wait_until_back(broker.id, epoch)


async def wait_for_more(load: Load, readers: list[Reader]) -> None:
    """Until what is written from now on has been read, on every partition."""
    goal = load.rounds + 20

    def is_read() -> bool:
        found = all_found(readers)
        return load.rounds >= goal and all((number, goal) in found for number in range(PARTITIONS))

    await eventually(is_read, WAIT_S)


async def check(load: Load, readers: list[Reader]) -> None:
    """Everything was read once, by each reader in order."""
    await eventually(lambda: len(all_found(readers)) >= load.rounds * PARTITIONS, WAIT_S)
    found = all_found(readers)
    lost = [(n, offset) for n in range(PARTITIONS) for offset in range(load.rounds) if (n, offset) not in found]
    assert lost == []
    assert [where for where, times in found.items() if times > 1] == []
    for each in readers:
        for number in range(PARTITIONS):
            offsets = [offset for partition, offset in each.order if partition == number]
            assert offsets == sorted(offsets)


@asynccontextmanager
async def lone_reader(cluster: Cluster, topic: str, **options: str) -> AsyncIterator[Reader]:
    async with open_consumer(cluster.bootstrap, topic, request_timeout_ms=2000, **options) as consumer:
        made = Reader(consumer, Witness())
        reading = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


@pytest.mark.parametrize("how", ["kill", "stop", "pause"])
async def test_a_leader_is_lost_and_comes_back(cluster: Cluster, topic: str, how: str) -> None:
    broker = cluster.brokers[1]
    epoch = cluster.epoch(broker.id)
    async with lone_reader(cluster, topic) as alone:
        async with loaded(cluster, topic) as load:
            await wait_for_more(load, [alone])
            await asyncio.to_thread(lose, broker, how)
            await wait_for_more(load, [alone])
            await asyncio.to_thread(bring_back, cluster, broker, epoch)
            await wait_for_more(load, [alone])
        await check(load, [alone])
    await asyncio.to_thread(cluster.wait_until_whole, topic)


@pytest.mark.timeout(120)
async def test_a_group_while_every_broker_is_restarted_in_turn(cluster: Cluster, topic: str) -> None:
    """One of them is the group's coordinator at a time. Both members stay, and nothing is read twice."""
    options = {"request_timeout_ms": 3000, "auto_commit_interval_ms": 200, "session_timeout_ms": 30_000}
    async with AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(reader(cluster.bootstrap, topic, **options)) for _ in range(2)]
        await wait_settled(readers, PARTITIONS)
        async with loaded(cluster, topic) as load:
            await wait_for_more(load, readers)
            for broker in cluster.brokers:
                epoch = cluster.epoch(broker.id)
                await asyncio.to_thread(lose, broker, "stop")
                await wait_for_more(load, readers)
                await asyncio.to_thread(bring_back, cluster, broker, epoch)
                await asyncio.to_thread(cluster.wait_until_whole, topic)
                await wait_for_more(load, readers)
        await check(load, readers)


async def test_a_member_comes_while_a_broker_is_dead(cluster: Cluster, topic: str) -> None:
    broker = cluster.brokers[2]
    epoch = cluster.epoch(broker.id)
    options = {"request_timeout_ms": 2000, "session_timeout_ms": 20_000}
    async with AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(reader(cluster.bootstrap, topic, **options))]
        async with loaded(cluster, topic) as load:
            await wait_for_more(load, readers)
            await asyncio.to_thread(broker.kill)
            readers.append(await stack.enter_async_context(reader(cluster.bootstrap, topic, **options)))
            await wait_settled(readers, PARTITIONS)
            await wait_for_more(load, readers)
            await asyncio.to_thread(bring_back, cluster, broker, epoch)
            await wait_for_more(load, readers)
        await check(load, readers)
    await asyncio.to_thread(cluster.wait_until_whole, topic)


async def test_the_nearest_replica_is_read_while_it_lives(cluster: Cluster, topic: str) -> None:
    near = cluster.brokers[2]
    epoch = cluster.epoch(near.id)
    async with lone_reader(cluster, topic, client_rack="rack-3") as alone:
        async with loaded(cluster, topic) as load:
            await wait_for_more(load, [alone])
            await eventually(lambda: fetched_from(alone) == {near.id})
            await asyncio.to_thread(near.kill)
            await wait_for_more(load, [alone])
            assert near.id not in fetched_from(alone)
            await asyncio.to_thread(bring_back, cluster, near, epoch)
            await wait_for_more(load, [alone])
        await check(load, [alone])
    await asyncio.to_thread(cluster.wait_until_whole, topic)


def fetched_from(reader: Reader) -> set[int]:
    """The brokers that are asked now."""
    core = reader.consumer._core
    assert core is not None
    return {node for state in core.assigned if (node := core.fetcher.node_of(state)) is not None}
