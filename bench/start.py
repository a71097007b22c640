"""`make bench-start`: `minikafka up` from the command to "ready" and to the first message through; memory when idle.

Ready is when DIR/cluster.json is there. The first message goes to a topic that its producer makes the cluster create,
and counts when a consumer has it. Every round starts from an empty folder; the first one on a machine takes longer,
since Java keeps the classes of ZooKeeper for the next.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.cluster import Running, memory_bytes, running

GOAL_SECONDS = {1: 1.5, 3: 3.0}
GOAL_IDLE_BYTES = 60e6
IDLE_SECONDS = 3.0
MESSAGE_SECONDS_MAX = 30.0
TOPIC = "first"


class Start(NamedTuple):
    """One start: seconds from the command, and the memory of each broker when nothing has happened for a while."""

    ready_seconds: float
    message_seconds: float
    idle_bytes: list[int]


def start_once(brokers: int) -> Start:
    with running(brokers) as cluster:
        message_seconds = first_message(cluster)
        time.sleep(IDLE_SECONDS)
        idle = [memory_bytes(broker.pid) for broker in cluster.brokers]
        return Start(cluster.start_seconds, cluster.start_seconds + message_seconds, idle)


def first_message(cluster: Running) -> float:
    """Seconds until a message has gone in and come out."""
    began = time.perf_counter()
    producer = Producer({"bootstrap.servers": cluster.servers, "linger.ms": 0})
    producer.produce(TOPIC, b"hello", partition=0)
    if producer.flush(MESSAGE_SECONDS_MAX):
        raise SystemExit("the first message was not acknowledged")
    consumer = Consumer({"bootstrap.servers": cluster.servers, "group.id": "start", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    message = consumer.poll(MESSAGE_SECONDS_MAX)
    took = time.perf_counter() - began
    consumer.close()
    if message is None or message.value() != b"hello":
        raise SystemExit("the first message did not come back")
    return took


def print_row(brokers: int, starts: list[Start]) -> bool:
    ready = statistics.median(start.ready_seconds for start in starts)
    message = statistics.median(start.message_seconds for start in starts)
    idle = max(size for start in starts for size in start.idle_bytes)
    goal = GOAL_SECONDS.get(brokers, float("inf"))
    is_reached = ready <= goal and idle <= GOAL_IDLE_BYTES
    each = " ".join(f"{start.ready_seconds:.2f}" for start in starts)
    print(
        f"{brokers:>7}{ready:>12.2f}{goal:>8.1f}{message:>18.2f}{idle / 1e6:>20.1f}   {each}"
        f"{'' if is_reached else '   missed'}",
        flush=True,
    )
    return is_reached


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.start")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--brokers", default="1,3")
    options = parser.parse_args()
    # What is installed is compiled; without this it would be compiled at every start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(f"{'brokers':>7}{'ready, s':>12}{'goal':>8}{'first message, s':>18}{'idle, MB a broker':>20}   each round")
    start_once(1)
    reached = []
    for brokers in map(int, options.brokers.split(",")):
        reached.append(print_row(brokers, [start_once(brokers) for _ in range(options.rounds)]))
    raise SystemExit(0 if all(reached) else 1)


if __name__ == "__main__":
    main()
