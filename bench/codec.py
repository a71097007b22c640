"""`make bench-codec`: our message codec and record code against others', on the same bytes.

Before anything is timed, both sides must agree on every byte.
"""

import platform
from collections.abc import Callable
from functools import partial
from typing import Any

import kafka
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer

from bench import records
from bench.timing import Row, print_table, race
from minikafka.protocol.message import Message
from minikafka.protocol.messages import fetch, metadata, produce

BATCH = bytes(range(256)) * 64  # 16 KiB, which no side looks into


def produce_request() -> Message:
    partition = produce.PartitionProduceData(index=3, records=BATCH)
    topic = produce.TopicProduceData(name="orders.v1", partition_data=[partition])
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response() -> Message:
    partition = produce.PartitionProduceResponse(index=3, base_offset=123_456, log_start_offset=0)
    topic = produce.TopicProduceResponse(name="orders.v1", partition_responses=[partition])
    return produce.ProduceResponse(responses=[topic])


def fetch_request(count: int) -> Message:
    partitions = [
        fetch.FetchPartition(partition=i, current_leader_epoch=4, fetch_offset=1000 + i, partition_max_bytes=1 << 20)
        for i in range(count)
    ]
    topic = fetch.FetchTopic(topic="orders.v1", partitions=partitions)
    return fetch.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=[topic])


def fetch_response(count: int) -> Message:
    partitions = [
        fetch.FetchablePartitionResponse(
            partition_index=i, high_watermark=99_999, last_stable_offset=99_999, log_start_offset=0, records=BATCH
        )
        for i in range(count)
    ]
    topic = fetch.FetchableTopicResponse(topic="orders.v1", partitions=partitions)
    return fetch.FetchResponse(responses=[topic])


def metadata_response(count: int) -> Message:
    partitions = [
        metadata.MetadataResponsePartition(
            partition_index=i, leader_id=i % 3, leader_epoch=4, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]
        )
        for i in range(count)
    ]
    topic = metadata.MetadataResponseTopic(
        name="orders.v1", topic_id=bytes(range(16)), is_internal=False, partitions=partitions
    )
    brokers = [metadata.MetadataResponseBroker(node_id=i, host=f"broker-{i}.local", port=9092) for i in range(3)]
    return metadata.MetadataResponse(brokers=brokers, cluster_id="a-cluster-of-ours-0001", topics=[topic])


def contests() -> list[tuple[str, Message, Any, int]]:
    return [
        ("Produce request v9, 16 KiB", produce_request(), kafka.protocol.producer.ProduceRequest, 9),
        ("Produce response v9", produce_response(), kafka.protocol.producer.ProduceResponse, 9),
        ("Fetch request v12, 1 partition", fetch_request(1), kafka.protocol.consumer.FetchRequest, 12),
        ("Fetch request v12, 10 partitions", fetch_request(10), kafka.protocol.consumer.FetchRequest, 12),
        ("Fetch response v12, 1 x 16 KiB", fetch_response(1), kafka.protocol.consumer.FetchResponse, 12),
        ("Fetch response v12, 10 x 16 KiB", fetch_response(10), kafka.protocol.consumer.FetchResponse, 12),
        ("Metadata response v12, 100 partitions", metadata_response(100), kafka.protocol.metadata.MetadataResponse, 12),
    ]


def message_rows() -> tuple[list[Row], list[Row]]:
    decode_rows, encode_rows = [], []
    for name, message, rival, version in contests():
        wire = b"".join(message.encode(version))
        theirs = rival.decode(wire, version=version)
        theirs._header = None
        encode_theirs: Callable[[], object] = partial(theirs.encode, version=version)
        if bytes(encode_theirs()) != wire:  # type: ignore[call-overload]
            raise SystemExit(f"{name}: the two codecs disagree, nothing to compare")
        decode_rows.append(
            race(
                name,
                {
                    "minikafka": partial(type(message).decode, wire, version),
                    "kafka-python": partial(rival.decode, wire, version=version),
                },
            )
        )
        encode_rows.append(race(name, {"minikafka": partial(message.encode, version), "kafka-python": encode_theirs}))
    return decode_rows, encode_rows


def main() -> None:
    print(f"Python {platform.python_version()}, kafka-python {kafka.__version__}; best of 30 alternating rounds\n")
    decode_rows, encode_rows = message_rows()
    print_table("decode", decode_rows, ["kafka-python"])
    print()
    print_table("encode", encode_rows, ["kafka-python"])
    print()
    print_table("records", records.rows(), ["kafka-python", "aiokafka"])


if __name__ == "__main__":
    main()
