"""A client beside an attack that must not notice it: every record it sends comes back, in order, and nothing fails."""

from __future__ import annotations

import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

INTERVAL_SECONDS = 0.005
PATIENCE_SECONDS = 20.0
TOPIC_SECONDS_MAX = 30.0
INDEXED_BYTES = 5000
"""After so many a log begins to index what is written to it."""


def create_topics(servers: str, *names: str) -> None:
    """Topics with a partition each, in which all files are open that ever will be."""
    admin = AdminClient({"bootstrap.servers": servers})
    for done in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        done.result(TOPIC_SECONDS_MAX)
    producer = Producer({"bootstrap.servers": servers, "batch.num.messages": 1})
    for name in names:
        for _ in range(3):
            producer.produce(name, bytes(INDEXED_BYTES), partition=0)
    producer.flush(TOPIC_SECONDS_MAX)


class Canary:
    """Produces and consumes on a thread of its own, from `start` to `stop`."""

    def __init__(self, servers: str, topic: str) -> None:
        self.sent = 0
        self.seen = 0
        self.slowest_seconds = 0.0
        self.problems: list[str] = []
        self._topic = topic
        common: dict[str, Any] = {"bootstrap.servers": servers, "error_cb": self._on_error}
        self._producer = Producer({**common, "acks": "all", "linger.ms": 0, "retries": 0})
        self._consumer = Consumer({**common, "group.id": "canary", "enable.auto.commit": False})
        _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), TOPIC_SECONDS_MAX)
        self._consumer.assign([TopicPartition(topic, 0, end)])
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._sing, name="canary")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait for everything that is still under way."""
        self._is_stopping.set()
        self._thread.join()
        self._consumer.close()
        if self.seen != self.sent:
            self.problems.append(f"{self.sent} records were sent and {self.seen} came back")

    def _sing(self) -> None:
        while not self._is_stopping.wait(INTERVAL_SECONDS):
            self._send()
            self._receive(0)
        self._producer.flush(PATIENCE_SECONDS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.seen < self.sent and time.monotonic() < deadline:
            self._receive(0.1)

    def _send(self) -> None:
        started = time.monotonic()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started)
            if error is not None:
                self.problems.append(f"a record was not delivered: {error}")

        self._producer.produce(self._topic, b"%d" % self.sent, on_delivery=on_delivery)
        self.sent += 1
        self._producer.poll(0)

    def _receive(self, timeout: float) -> None:
        while (message := self._consumer.poll(timeout)) is not None:
            if message.error() is not None:
                self.problems.append(f"the consumer got {message.error()}")
            elif message.value() != b"%d" % self.seen:
                self.problems.append(f"record {self.seen} came back as {message.value()!r}")
            self.seen += 1

    def _on_error(self, error: KafkaError) -> None:
        self.problems.append(f"the client reports {error}")
