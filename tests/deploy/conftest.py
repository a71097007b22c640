"""Two brokers that have done a little of everything, so that all they can tell is there to be asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.running import Cluster, Up

TOPIC = "orders"
GROUP = "billing"
RECORDS = 100


@pytest.fixture(scope="session")
def busy_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    up = Up(tmp_path_factory.mktemp("busy"), 2)
    try:
        cluster = up.wait_until_ready()
        use(cluster.bootstrap)
        yield cluster
    finally:
        up.stop()


def use(bootstrap: str, topic: str = TOPIC) -> None:
    """Produce to a new topic, consume in a group, and be refused once."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 2)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(30) == 0
    options = {"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
    consumer = Consumer(options)
    consumer.subscribe([topic])
    assert len(consumer.consume(RECORDS, 30)) == RECORDS
    consumer.commit(asynchronous=False)
    consumer.close()
    refused = Consumer({**options, "group.id": "refused", "auto.offset.reset": "error"})
    refused.assign([TopicPartition(topic, 0, 10 * RECORDS)])
    with pytest.raises(KafkaException) as caught:
        raise_first(refused)
    assert caught.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET
    refused.close()


def raise_first(consumer: Consumer) -> None:
    """Raise the error that comes instead of a record."""
    (message,) = consumer.consume(1, 30)
    error = message.error()
    assert error is not None
    raise KafkaException(error)
