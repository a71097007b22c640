"""A client of the stack that knows librdkafka only: it runs on the host as well as in a container of the network.

    traffic.py --bootstrap-servers HOST:PORT --topic T produce --first 0 --count 1000 [--seconds 20]
    traffic.py --bootstrap-servers HOST:PORT --topic T consume --count 1000

Records are numbers. All that is produced has to be acknowledged by all replicas in sync; what is consumed has to be
every number from 0 on exactly once, and those of a partition in the order in which they were sent.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 6
REPLICAS = 3
WAIT_SECONDS = 60


def create(bootstrap: str, topic: str) -> None:
    """The topic, unless it is there already."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.create_topics([NewTopic(topic, PARTITIONS, REPLICAS)])[topic].result(WAIT_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def produce(bootstrap: str, topic: str, first: int, count: int, seconds: float) -> None:
    """Send numbers, spread over some time, and wait until each is acknowledged."""
    failures: list[str] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5})
    began = time.monotonic()
    for number in range(count):
        producer.produce(topic, str(first + number), str((first + number) % 100), on_delivery=on_delivery)
        early_seconds = began + seconds * number / count - time.monotonic()
        producer.poll(max(0.0, early_seconds))
    left = producer.flush(2 * WAIT_SECONDS)
    if left or failures:
        sys.exit(f"{left} records were not acknowledged, {len(failures)} failed: {failures[:3]}")
    print(f"{count} records acknowledged in {time.monotonic() - began:.1f} s")


def consume(bootstrap: str, topic: str, count: int) -> None:
    """Read the topic from its beginning to its end, and compare."""
    began = time.monotonic()
    found: Counter[int] = Counter()
    disorder = 0
    for messages in read_all(bootstrap, topic):
        numbers = [int(message.value() or b"") for message in messages]
        found.update(numbers)
        disorder += sum(later < earlier for earlier, later in pairwise(numbers))
    lost, doubled = sum(number not in found for number in range(count)), sum(found.values()) - len(found)
    strange = sum(number >= count for number in found)
    if lost or doubled or strange or disorder:
        sys.exit(f"{lost} records are lost, {doubled} doubled, {strange} nobody's, {disorder} out of order")
    print(f"{count} records read in {time.monotonic() - began:.1f} s: none lost, none twice, all in order")


def read_all(bootstrap: str, topic: str) -> Iterator[list[Message]]:
    """All that is in a topic by now, partition by partition."""
    options = {"group.id": "traffic", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **options})
    for partition in consumer.list_topics(topic, WAIT_SECONDS).topics[topic].partitions:
        consumer.assign([TopicPartition(topic, partition, 0)])
        yield read_to_end(consumer)
    consumer.close()


def read_to_end(consumer: Consumer) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        for message in consumer.consume(10_000, 0.2):
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                return messages
            else:
                raise KafkaException(error)
    sys.exit(f"after {WAIT_SECONDS} s a partition has given {len(messages)} records and no end")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("what", choices=["produce", "consume"])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.0)
    options = parser.parse_args()
    if options.what == "produce":
        create(options.bootstrap_servers, options.topic)
        produce(options.bootstrap_servers, options.topic, options.first, options.count, options.seconds)
    else:
        consume(options.bootstrap_servers, options.topic, options.count)


if __name__ == "__main__":
    main()
