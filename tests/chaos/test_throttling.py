"""A replica that is added to a partition with a throttle, on real brokers: it takes its time, and nobody else does."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from tests.chaos.cluster import Cluster
from tests.chaos.waiting import pause, wait_until

RATE = 1_000_000
RECORD_BYTES = 50_000
RECORDS = 100
SECONDS = RECORD_BYTES * RECORDS / RATE
SLOW_SECONDS = 60.0
STEP_SECONDS = 0.02
THROTTLED = {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}
RATES = {f"{side}.replication.throttled.rate": str(RATE) for side in ("leader", "follower")}


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    # A fetch that brings much more than a throttle allows at once makes a second of little meaning.
    settings = {"replica.fetch.max.bytes": str(2 * RECORD_BYTES), "log.segment.bytes": str(1 << 20)}
    with Cluster(tmp_path_factory.mktemp("throttling") / "cluster", settings=settings) as made:
        yield made


def set_rates(admin: AdminClient, cluster: Cluster) -> None:
    for broker in cluster.brokers:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in RATES.items()
        ]
        resource = ConfigResource(ResourceType.BROKER, str(broker.id), incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(30)


class Steady:
    """A producer that waits for every record, and notes how long."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
        )
        self._topic = topic

    def send(self, value: bytes) -> float:
        began = time.monotonic()
        self._producer.produce(self._topic, value, partition=0)
        assert self._producer.flush(SLOW_SECONDS) == 0
        return time.monotonic() - began


@pytest.mark.needs("java")
def test_a_new_replica_catches_up_at_the_rate_and_those_in_sync_at_once(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    topics = [NewTopic(name, 1, replica_assignment=[[1, 2]], config=THROTTLED) for name in ("moved", "steady")]
    for made in admin.create_topics(topics).values():
        made.result(30)
    large, steady = Steady(cluster, "moved"), Steady(cluster, "steady")
    for _ in range(RECORDS):
        large.send(bytes(RECORD_BYTES))
    set_rates(admin, cluster)
    other = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","), request_timeout_ms=30_000)
    try:
        began = time.monotonic()
        other.alter_partition_reassignments({TopicPartition("moved", 0): [1, 2, 3]})
    finally:
        other.close()
    waits: list[float] = []

    def has_caught_up() -> bool:
        waits.append(steady.send(b"small"))
        pause(STEP_SECONDS)
        return 3 in cluster.view.partitions("moved")[0].isr

    wait_until(has_caught_up, SLOW_SECONDS, "the new replica is in sync")
    took = time.monotonic() - began
    assert took >= 0.9 * SECONDS
    # Were it held back as well, it would take as long as the rest of what is above the rate.
    assert statistics.median(waits) < 0.1
    assert len(waits) > SECONDS / STEP_SECONDS / 4
