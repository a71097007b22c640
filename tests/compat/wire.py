"""One request at a time over a plain socket, to see what no client shows: the batches as a broker stores them."""

from __future__ import annotations

import socket
from typing import Any

from minikafka.protocol.message import Request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.pipeline import Pipeline
from minikafka.protocol.records import BatchView, read_batches
from tests.compat.running import Broker

LIMIT_S = 15.0
FETCH_VERSION = 11
METADATA_VERSION = 9


def ask(broker: Broker, request: Request, version: int) -> Any:
    """The answer to a request, over a connection of its own."""
    pipeline = Pipeline[None]("wire")
    with socket.create_connection((broker.host, broker.port), LIMIT_S) as connection:
        connection.sendall(b"".join(pipeline.send(request, version, None)))
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4), "big")
            return pipeline.receive(stream.read(size))[1]


def stored(leader: Broker, topic: str, partition: int = 0) -> list[BatchView]:
    """The batches at the beginning of a partition, as many as one answer holds."""
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 24)
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    answer = ask(leader, FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), FETCH_VERSION)
    found = answer.responses[0].partitions[0]
    assert found.error_code == 0
    return read_batches(bytes(found.records or b""))


def led_partitions(broker: Broker, topic: str) -> int:
    """How many partitions of a topic have a leader, as far as this broker knows."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = ask(broker, request, METADATA_VERSION).topics
    return sum(partition.leader_id >= 0 for partition in found.partitions)
