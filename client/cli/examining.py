"""Looking at a cluster for `doctor`: every broker by a connection of its own, so that one that is lost hides none."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping

from minikafka.client.admin import Admin, ConfigResource, LogDirDescription, NewTopic, TopicDescription
from minikafka.client.cli.judging import INTERNAL_TOPICS, MIN_ISR_KEY, Clock, Facts, View
from minikafka.client.cli.running import Session
from minikafka.client.config import Address, ClientConfig, make_ssl_context
from minikafka.client.handshake import open_connection
from minikafka.client.producer import Producer, ProducerConfig
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse


async def look_at(address: Address, config: ClientConfig) -> View:
    """The cluster as the broker at this address tells of it; raises what keeps it from telling."""
    connection = await open_connection(address, config, make_ssl_context(config), None)
    try:
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        answer: MetadataResponse = await connection.request(request)
    finally:
        connection.close()
        await connection.wait_closed()
    brokers = {each.node_id: Address(each.host, each.port) for each in answer.brokers}
    return View(answer.cluster_id, answer.controller_id, dict(sorted(brokers.items())))


async def examine(session: Session, admin: Admin, view: View, writes: bool) -> Facts:
    """All that can be seen; `writes` allows for a topic that is made for a moment."""
    views = await asyncio.gather(*(_try(address, admin.config) for address in view.brokers.values()))
    reached = dict(zip(view.brokers, views, strict=True))
    there = [node_id for node_id, seen in reached.items() if isinstance(seen, View)]
    topics = [*(await admin.describe_topics(raise_errors=False)).done.values()]
    configs = await _configs(admin, there)
    all_there = len(there) == len(view.brokers) and view.controller_id in there
    return Facts(
        view,
        topics,
        reached,
        configs,
        await _min_isr(admin, topics) if view.controller_id in there else {},
        await _log_dirs(admin, there),
        await _clocks(session, admin, there) if writes and all_there else {},
    )


async def _try(address: Address, config: ClientConfig) -> View | KafkaError:
    try:
        return await look_at(address, config)
    except KafkaError as error:
        return error


async def _configs(admin: Admin, there: list[int]) -> Mapping[str, str | None]:
    """What the internal topics are to be like, by the first broker that tells."""
    keys = [key for key, _ in INTERNAL_TOPICS.values()]
    for node_id in there:
        resource = ConfigResource.broker(node_id)
        found = (await admin.describe_configs([resource], names=keys, raise_errors=False)).done
        if resource in found:
            return {key: entry.value for key, entry in found[resource].items()}
    return {}


async def _min_isr(admin: Admin, topics: list[TopicDescription]) -> dict[str, int]:
    """How many replicas must be in sync, of the topics that lack some."""
    lacking = [each.name for each in topics if any(it.is_under_replicated for it in each.partitions)]
    resources = map(ConfigResource.topic, lacking)
    found = (await admin.describe_configs(resources, names=[MIN_ISR_KEY], raise_errors=False)).done
    return {resource.name: int(configs[MIN_ISR_KEY].value or 0) for resource, configs in found.items()}


async def _log_dirs(admin: Admin, there: list[int]) -> Mapping[int, tuple[LogDirDescription, ...] | KafkaError]:
    # Of no partition: sizes of thousands of replicas are not asked for.
    results = await admin.describe_log_dirs(there, partitions=[], raise_errors=False)
    return {**results.done, **results.errors}


async def _clocks(session: Session, admin: Admin, there: list[int]) -> Mapping[int, Clock | KafkaError]:
    """The brokers' clocks: each stamps a record in a partition of its own, and answers with the time it wrote."""
    topic = f"minikafka-doctor-{uuid.uuid4().hex[:12]}"
    new = NewTopic(
        topic,
        replica_assignments={index: [node_id] for index, node_id in enumerate(there)},
        topic_configs={"message.timestamp.type": "LogAppendTime", MIN_ISR_KEY: "1"},
    )
    try:
        await admin.create_topics([new])
    except KafkaError as error:
        return dict.fromkeys(there, error)
    try:
        async with Producer(config=session.config(ProducerConfig, acks="1")) as producer:
            return {node_id: await _clock(producer, topic, index) for index, node_id in enumerate(there)}
    except KafkaError as error:
        return dict.fromkeys(there, error)
    finally:
        await admin.delete_topics([topic])


async def _clock(producer: Producer, topic: str, partition: int) -> Clock | KafkaError:
    try:
        # The first one opens the connection, and takes its time for that.
        await producer.send_and_wait(topic, b"", partition=partition)
        before_ms = time.time() * 1000
        written = await producer.send_and_wait(topic, b"", partition=partition)
        after_ms = time.time() * 1000
    except KafkaError as error:
        return error
    # It has written somewhere in between, and tells whole milliseconds.
    return Clock(written.timestamp - (before_ms + after_ms) / 2, (after_ms - before_ms) / 2 + 1)
