"""What admins do to a cluster that works: move replicas from broker to broker, make topics and delete them."""

from __future__ import annotations

import random
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from tests.chaos.cluster import Cluster
from tests.chaos.links import HOST
from tests.chaos.waiting import pause, wait_until

REPLICAS = 3
_ASK_SECONDS = 30.0
_TELL_SECONDS = 60.0
_GONE_SECONDS = 30.0
_ENOUGH = 1000
_READ_SECONDS = 2.0


def create_topic(cluster: Cluster, topic: str, partitions: int) -> None:
    """As soon as enough brokers are known, and wait until all its replicas are there."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def is_made() -> bool:
        try:
            admin.create_topics([NewTopic(topic, partitions, REPLICAS)])[topic].result(_TELL_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    wait_until(is_made, _TELL_SECONDS, f"{topic} can be made")
    cluster.wait_until_whole(topic)


def assign_topic(cluster: Cluster, topic: str, replicas: list[int]) -> None:
    """Make a topic of one partition on these brokers, which are asked for it."""
    admin = _admin_of(cluster, replicas)
    new = NewTopic(topic, 1, replica_assignment=[replicas])

    def is_made() -> bool:
        try:
            admin.create_topics([new])[topic].result(_TELL_SECONDS)
        except KafkaException as error:
            # Until everybody has heard of the deletion.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    wait_until(is_made, _TELL_SECONDS, f"{topic} can be made")
    cluster.wait_until_whole(topic)


def order_deletion(cluster: Cluster, topic: str, broker_ids: list[int]) -> None:
    """Have a topic deleted by asking these brokers, and wait until ZooKeeper knows nothing of it."""
    admin = _admin_of(cluster, broker_ids)
    admin.delete_topics([topic])[topic].result(_TELL_SECONDS)
    wait_until(lambda: not cluster.view.partitions(topic), _TELL_SECONDS, f"{topic} is deleted")


def _admin_of(cluster: Cluster, broker_ids: list[int]) -> AdminClient:
    servers = ",".join(f"{HOST}:{cluster.broker(broker_id).port}" for broker_id in broker_ids)
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def delete_topic(cluster: Cluster, topic: str) -> None:
    """And wait until nothing of it is left, not even files."""
    order_deletion(cluster, topic, [broker.id for broker in cluster.brokers])

    def is_gone() -> bool:
        return not any(list(broker.log_dir.glob(f"{topic}-*")) for broker in cluster.brokers)

    wait_until(is_gone, _GONE_SECONDS, f"the files of {topic} are gone")


def move_replicas(cluster: Cluster, topic: str, rng: random.Random, factor: int = REPLICAS) -> None:
    """Have every partition moved to so many brokers by chance; returns when that is ordered, not when it is done."""
    brokers = [broker.id for broker in cluster.brokers]
    wanted = {
        TopicPartition(topic, partition): rng.sample(brokers, factor) for partition in cluster.view.partitions(topic)
    }
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","), request_timeout_ms=30_000)
    try:
        admin.alter_partition_reassignments(wanted)
    finally:
        admin.close()


class Stubborn(threading.Thread):
    """Somebody who writes numbers to a topic, whether it is there or not, and remembers when which was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        super().__init__(name="stubborn", daemon=True)
        self.acked: dict[int, float] = {}
        self._topic = topic
        self._told = threading.Event()
        given = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0}
        # Soon given up, so that it keeps trying with new ones.
        self._producer = Producer({**given, "message.timeout.ms": 2000, "topic.metadata.refresh.fast.interval.ms": 50})

    def run(self) -> None:
        number = 0
        while not self._told.is_set():
            number += 1
            try:
                self._producer.produce(self._topic, str(number).encode(), on_delivery=self._delivered)
            except (BufferError, KafkaException):
                # The topic is not there.
                pause(0.05)
            self._producer.poll(0.005)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and isinstance(value, bytes):
            self.acked[int(value)] = time.monotonic()

    def wait_for_ack(self, since: float) -> None:
        wait_until(
            lambda: max(list(self.acked.values()), default=0.0) > since, _TELL_SECONDS, "a new topic is written to"
        )

    def stop(self) -> None:
        self._told.set()
        self.join()
        self._producer.flush(_ASK_SECONDS)


def churn_topic(cluster: Cluster, topic: str) -> None:
    """Make a topic, delete it, make it again and delete it again, while somebody writes to it all the time.

    What was acknowledged before the new one was asked for is gone with the old one, and must not be in the new one.
    """
    writer = Stubborn(cluster, topic)
    writer.start()
    try:
        create_topic(cluster, topic, REPLICAS)
        writer.wait_for_ack(0.0)
        delete_topic(cluster, topic)
        began = time.monotonic()
        create_topic(cluster, topic, REPLICAS)
        writer.wait_for_ack(began)
        ghosts = [number for number in _values(cluster, topic) if writer.acked.get(number, began) < began]
        assert not ghosts, f"a new topic holds what was in the old one: {ghosts[:10]}"
        delete_topic(cluster, topic)
    finally:
        writer.stop()


def _values(cluster: Cluster, topic: str) -> list[int]:
    """What a topic begins with; ghosts would come first."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "ghosts", "log_level": 0})
    try:
        consumer.assign([Place(topic, partition, 0) for partition in range(REPLICAS)])
        messages = consumer.consume(_ENOUGH, _READ_SECONDS)
        return [int(value) for message in messages if isinstance(value := message.value(), bytes)]
    finally:
        consumer.close()
