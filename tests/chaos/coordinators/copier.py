"""Reads, processes and writes, exactly once, with librdkafka: `python -m tests.chaos.coordinators.copier ...`.

A process of its own, so that it can be killed and stopped. SIGTERM has it end. Whatever its producer cannot recover
from ends it as a kill would, and another one is started in its place.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

GROUP = "copier"
TRANSACTIONAL_ID = "copier"
SESSION_MS = 6_000
TIMEOUT_MS = 5_000

_RECORDS_MAX = 30
_WAIT_SECONDS = 0.1
_CALL_SECONDS = 10.0

_COMMON: dict[str, Any] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "topic.metadata.refresh.interval.ms": 500,
    "socket.timeout.ms": 5_000,
    "log_level": 0,
}


def make_consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            **_COMMON,
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "fetch.wait.max.ms": 50,
        }
    )


def make_producer(bootstrap: str) -> Producer:
    return Producer(
        {
            **_COMMON,
            "bootstrap.servers": bootstrap,
            "transactional.id": TRANSACTIONAL_ID,
            "transaction.timeout.ms": TIMEOUT_MS,
            "linger.ms": 0,
        }
    )


class Copier:
    """See the module's description."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._consumer = make_consumer(bootstrap)
        self._producer = make_producer(bootstrap)
        self._source = source
        self._target = target

    def run(self, told: threading.Event) -> None:
        self._insist(self._producer.init_transactions)
        self._consumer.subscribe([self._source])
        while not told.is_set():
            records = [each for each in self._consumer.consume(_RECORDS_MAX, _WAIT_SECONDS) if each.error() is None]
            if records:
                self._copy(records)
        self._consumer.close()

    def _copy(self, records: list[Message]) -> None:
        try:
            self._producer.begin_transaction()
            for record in records:
                self._producer.produce(self._target, record.value(), partition=record.partition() or 0)
            metadata = self._consumer.consumer_group_metadata()
            offsets = self._consumer.position(self._consumer.assignment())
            self._insist(self._producer.send_offsets_to_transaction, offsets, metadata)
            self._insist(self._producer.commit_transaction)
        except KafkaException as exception:
            if exception.args[0].fatal():
                raise
            self._insist(self._producer.abort_transaction)
            self._rewind()

    def _insist(self, call: Any, *arguments: Any) -> None:
        """Again, as long as librdkafka says that this helps."""
        while True:
            try:
                call(*arguments, _CALL_SECONDS)
                return
            except KafkaException as exception:
                if not exception.args[0].retriable():
                    raise

    def _rewind(self) -> None:
        """To where the last transaction that was committed has ended."""
        assigned = self._consumer.assignment()
        while True:
            try:
                found = self._consumer.committed(assigned, timeout=_CALL_SECONDS)
                break
            except KafkaException:
                continue
        for place in found:
            offset = place.offset if place.offset >= 0 else OFFSET_BEGINNING
            self._consumer.seek(TopicPartition(place.topic, place.partition, offset))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("source")
    parser.add_argument("target")
    options = parser.parse_args()
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    try:
        Copier(options.bootstrap, options.source, options.target).run(told)
    except KafkaException as exception:
        sys.stderr.write(f"{exception}\n")
        sys.stderr.flush()
        # Without the waits of what is still open.
        signal.raise_signal(signal.SIGKILL)


if __name__ == "__main__":
    main()
