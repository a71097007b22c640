"""A leader that loses power and is back before its session expires, while the controller changes: nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from minikafka.broker.zookeeper.znodes import CONTROLLER
from minikafka.protocol.records import read_batches
from tests.chaos.cluster import Broker, Cluster
from tests.chaos.moving import create_topic
from tests.chaos.waiting import wait_until

TOPIC = "t"
RECORDS = 20
SESSION = {"zookeeper.session.timeout.ms": "12000"}


def _cut_last_batch(broker: Broker) -> None:
    """What a loss of power leaves of a file that was not synced."""
    path = max(Path(broker.log_dir, f"{TOPIC}-0").glob("*.log"))
    with path.open("r+b") as file:
        batches = list(read_batches(file.read()))
        file.truncate(sum(batch.size for batch in batches[:-1]))


def _produce(cluster: Cluster) -> list[bytes]:
    acked: list[bytes] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None
        acked.append(bytes(message.value() or b""))

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"m%d" % number, partition=0, on_delivery=on_delivery)
        producer.flush(10)
    return acked


def _consume(cluster: Cluster) -> list[bytes]:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    seen: list[bytes] = []

    def has_all() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            seen.append(bytes(message.value() or b""))
        return len(seen) >= RECORDS

    try:
        wait_until(has_all, 20, f"all records are there: {seen}")
    finally:
        consumer.close()
    return seen


@pytest.mark.needs("java")
@pytest.mark.timeout(180)
def test_leader_restarted_within_its_session_loses_nothing(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", settings=SESSION) as cluster:
        create_topic(cluster, TOPIC, 1)
        leader = cluster.broker(cluster.view.partitions(TOPIC)[0].leader)
        epoch = cluster.epoch(leader.id)
        acked = _produce(cluster)
        leader.kill()
        _cut_last_batch(leader)
        leader.start()
        output: list[str] = []

        def is_waiting() -> bool:
            output.extend(leader.read_output())
            return any("waiting for it to go" in line for line in output)

        wait_until(is_waiting, 10, "the leader waits for its last session to expire")
        cluster.view._client.delete(CONTROLLER)
        cluster.wait_until_back(leader.id, epoch)
        cluster.wait_until_whole(TOPIC)
        assert _consume(cluster) == acked
        assert len(acked) == RECORDS
