"""The bundled client over the simulated network, in the time of the simulation."""

from __future__ import annotations

from random import Random

from minikafka.client import Consumer, Producer
from tests.schedules.stage import play
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
