"""The bundled client over the simulated network, in the time of the simulation."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from minikafka.client import Consumer, Producer, TopicPartition
from tests.schedules.stage import play
from tests.sim.campaign.leaks import tasks_left
from tests.sim.client import TOPIC
from tests.sim.cluster import SimCluster
from tests.sim.loop import Process

SERVERS = "broker-1:9092,broker-2:9092,broker-3:9092"


def test_client_delivers_across_a_killed_leader() -> None:
    found: list[bytes | None] = []

    async def produce_and_read(cluster: SimCluster) -> None:
        node = cluster.nodes[2]
        async with Producer(clock=node.clock, rng=Random(1), bootstrap_servers=SERVERS) as producer:
            await producer.send_and_wait(TOPIC, b"before")
            cluster.kill(1)
            await producer.send_and_wait(TOPIC, b"after")
        async with Consumer(
            TOPIC, clock=node.clock, rng=Random(2), bootstrap_servers=SERVERS, auto_offset_reset="earliest"
        ) as consumer:
            while len(found) < 2:
                found.append((await consumer.getone()).value)

    async def story() -> None:
        cluster = await SimCluster.start()
        await cluster.create_topic()
        await Process("user").spawn(produce_and_read(cluster), "client")
        assert cluster.state().leader != 1

    play(story)
    assert found == [b"before", b"after"]


def test_consumer_that_closes_while_its_leader_moves_leaves_no_task() -> None:
    """The first leader answers NOT_LEADER_OR_FOLLOWER, metadata names another, and the retry comes after the close."""
    left: list[str] = []

    async def read_until(cluster: SimCluster, seconds: float) -> None:
        options: dict[str, Any] = {"retry_backoff_ms": 200, "retry_backoff_max_ms": 200, "metadata_max_age_ms": 20}
        async with Consumer(
            clock=cluster.nodes[2].clock, rng=Random(1), bootstrap_servers=SERVERS, **options
        ) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0)])
            consumer.seek(TopicPartition(TOPIC, 0), 0)
            await asyncio.sleep(seconds)

    async def story() -> None:
        cluster = await SimCluster.start()
        await cluster.create_topic()
        process = Process("user")
        readers = [process.spawn(read_until(cluster, 1 + 0.02 * number), "read") for number in range(50)]
        await cluster.wait(1)
        await cluster.stop(1)
        await asyncio.wait(readers)
        await cluster.wait(5)
        left.extend(tasks_left(process))
        assert [reader.exception() for reader in readers] == [None] * len(readers)

    play(story)
    assert left == []
