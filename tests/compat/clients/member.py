"""A member of a group as a process of its own, so that it can be killed: `python -m tests.compat.clients.member ...`.

It prints what happens to it, one JSON object a line: `{"assigned": [0, 2], "time": 1.5}` are all partitions it has from
then on, by a clock that all processes of a machine share, `{"read": [partition, offset, value]}` a record. What it has
read is committed before it reads on. SIGTERM has it leave.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

SESSION_MS = 6_000
HEARTBEAT_MS = 500
POLL_S = 0.1
COOPERATIVE = "cooperative-sticky"
GAVE_UP = 3

# kafka-python 3.0.12 loops for ever, and sends no heartbeats, if the time of a poll is up while it waits to be told its
# partitions and its metadata changes in that moment.
LONG_POLL_S = 2.0


class Ended:
    """Whether it is to leave."""

    def __init__(self) -> None:
        self._event = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self._event.set())

    def __bool__(self) -> bool:
        return self._event.is_set()


def tell(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Owned:
    """What it has. It is told of a loss before the group is, and of a gain after the group."""

    def __init__(self) -> None:
        self._partitions: set[int] = set()

    def gain(self, partitions: Iterable[Any]) -> None:
        self._partitions |= {each.partition for each in partitions}
        self._tell()

    def lose(self, partitions: Iterable[Any]) -> None:
        self._partitions -= {each.partition for each in partitions}
        self._tell()

    def lose_all(self) -> None:
        self._partitions.clear()
        self._tell()

    def _tell(self) -> None:
        tell(assigned=sorted(self._partitions), time=time.monotonic())


def tell_read(record: Any) -> None:
    tell(read=[record.partition, record.offset, (record.value or b"").decode()])


def run_confluent(args: argparse.Namespace, ended: Ended) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException

    config: dict[str, Any] = {
        "bootstrap.servers": args.bootstrap,
        "group.id": args.group,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "partition.assignment.strategy": args.assignor,
    }
    if args.instance:
        config["group.instance.id"] = args.instance
    consumer, owned = Consumer(config), Owned()
    consumer.subscribe(
        [args.topic],
        on_assign=lambda _, partitions: owned.gain(partitions),
        on_revoke=lambda _, partitions: owned.lose(partitions),
    )
    while not ended:
        message = consumer.poll(POLL_S)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError._FATAL:
            # Closing would have to wait for what does not come any more.
            owned.lose_all()
            os._exit(GAVE_UP)
        if message is not None and error is None:
            tell(read=[message.partition(), message.offset(), (message.value() or b"").decode()])
            try:
                consumer.commit(message=message, asynchronous=False)
            except KafkaException:
                if not args.stubborn:
                    raise
    consumer.close()


def run_kafka_python(args: argparse.Namespace, ended: Ended) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener(ConsumerRebalanceListener, Owned):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            self.lose(revoked)

        def on_partitions_lost(self, lost: Any) -> None:
            self.lose(lost)

        def on_partitions_assigned(self, assigned: Any) -> None:
            self.gain(assigned)

    consumer = KafkaConsumer(
        bootstrap_servers=args.bootstrap.split(","),
        group_id=args.group,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[
            CooperativeStickyAssignor if args.assignor == COOPERATIVE else RangePartitionAssignor
        ],
        **({"group_instance_id": args.instance} if args.instance else {}),
    )
    consumer.subscribe([args.topic], listener=Listener())
    while not ended:
        records = [each for some in consumer.poll(LONG_POLL_S * 1000).values() for each in some]
        for record in records:
            tell_read(record)
        if records:
            consumer.commit()
    consumer.close()


async def run_aiokafka(args: argparse.Namespace, ended: Ended) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener, Owned):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            self.lose(revoked)

        def on_partitions_assigned(self, assigned: Any) -> None:
            self.gain(assigned)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=args.bootstrap,
        group_id=args.group,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        group_instance_id=args.instance,
    )
    consumer.subscribe([args.topic], listener=Listener())
    await consumer.start()
    while not ended:
        found = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        records = [each for some in found.values() for each in some]
        for record in records:
            tell_read(record)
        if records:
            await consumer.commit()
    await consumer.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("client", choices=["confluent", "kafka-python", "aiokafka"])
    parser.add_argument("bootstrap")
    parser.add_argument("group")
    parser.add_argument("topic")
    parser.add_argument("--instance")
    parser.add_argument("--assignor", default="range")
    parser.add_argument("--stubborn", action="store_true", help="go on when a commit is refused; confluent only")
    args, ended = parser.parse_args(), Ended()
    if args.client == "confluent":
        run_confluent(args, ended)
    elif args.client == "kafka-python":
        run_kafka_python(args, ended)
    else:
        asyncio.run(run_aiokafka(args, ended))


if __name__ == "__main__":
    main()
