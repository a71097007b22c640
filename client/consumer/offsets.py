"""Asking leaders about offsets: where a log begins and ends, what was when, and where an epoch ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

from minikafka.client.cluster import Cluster
from minikafka.client.consumer.config import Isolation
from minikafka.client.structs import OffsetAndTimestamp, TopicPartition
from minikafka.protocol.errors import KafkaError, LeaderNotAvailableError, UnknownTopicOrPartitionError, error_for
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_CONSUMER: Final = -1
_NO_EPOCH: Final = -1

TOPIC_WAIT_MS: Final = 10_000
"""How long a topic may take to appear, for example since asking for it has it created."""

_Q = TypeVar("_Q")
_A = TypeVar("_A")


class EpochEnd(NamedTuple):
    """The latest epoch up to the one that was asked for, and the offset after its last record; -1 if there is none."""

    epoch: int
    end_offset: int


Ask: TypeAlias = Callable[[int, Mapping[TopicPartition, _Q]], Awaitable[dict[TopicPartition, "_A | KafkaError"]]]


async def ask_leaders(
    cluster: Cluster, questions: Mapping[TopicPartition, _Q], ask: Ask[_Q, _A]
) -> dict[TopicPartition, _A | KafkaError]:
    """Ask the leader of each partition once; whatever went wrong is the answer of the partitions concerned."""
    answers: dict[TopicPartition, _A | KafkaError] = {}
    by_node: dict[int, dict[TopicPartition, _Q]] = {}
    for tp, question in questions.items():
        leader = cluster.leader(*tp)
        if leader is None:
            answers[tp] = _no_leader(cluster, tp)
        else:
            by_node.setdefault(leader, {})[tp] = question
    found = await asyncio.gather(*(ask(*each) for each in by_node.items()), return_exceptions=True)
    for asked, result in zip(by_node.values(), found, strict=True):
        if isinstance(result, KafkaError):
            answers.update(dict.fromkeys(asked, result))
        elif isinstance(result, BaseException):
            raise result
        else:
            answers.update(result)
    return answers


def _no_leader(cluster: Cluster, tp: TopicPartition) -> KafkaError:
    topic = cluster.metadata.topics.get(tp.topic)
    if topic is not None and not topic.error_code and tp.partition not in topic.partitions:
        return UnknownTopicOrPartitionError(f"topic {tp.topic!r} has no partition {tp.partition}")
    if topic is not None and topic.error is not None:
        return topic.error
    return LeaderNotAvailableError(f"{tp.topic}-{tp.partition} has no leader at the moment")


async def ask_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
    """The first offset at or after each time, asked once; an offset of -1 if there is none."""

    async def ask(
        node_id: int, asked: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for tp, timestamp in asked.items():
            epoch = cluster.leader_epoch(*tp)
            topics.setdefault(tp.topic, []).append(
                ListOffsetsPartition(partition_index=tp.partition, current_leader_epoch=epoch, timestamp=timestamp)
            )
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()],
        )
        answer: ListOffsetsResponse = await cluster.request(node_id, request, min_version=1)
        return {
            TopicPartition(topic.name, each.partition_index): _error(topic.name, each.partition_index, each.error_code)
            or OffsetAndTimestamp(each.offset, each.timestamp, each.leader_epoch)
            for topic in answer.topics
            for each in topic.partitions
        }

    return await ask_leaders(cluster, timestamps, ask)


async def ask_epoch_ends(
    cluster: Cluster, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd | KafkaError]:
    """Where epochs end in the logs of the leaders, asked once."""

    async def ask(node_id: int, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd | KafkaError]:
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        for tp, epoch in asked.items():
            current = cluster.leader_epoch(*tp)
            topics.setdefault(tp.topic, []).append(
                OffsetForLeaderPartition(partition=tp.partition, current_leader_epoch=current, leader_epoch=epoch)
            )
        request = OffsetForLeaderEpochRequest(
            replica_id=_CONSUMER,
            topics=[OffsetForLeaderTopic(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
        )
        answer: OffsetForLeaderEpochResponse = await cluster.request(node_id, request, min_version=2)
        return {
            TopicPartition(topic.topic, each.partition): _error(topic.topic, each.partition, each.error_code)
            or EpochEnd(each.leader_epoch, each.end_offset)
            for topic in answer.topics
            for each in topic.partitions
        }

    return await ask_leaders(cluster, epochs, ask)


def _error(topic: str, partition: int, code: int) -> KafkaError | None:
    return error_for(code, f"{topic}-{partition}") if code else None


async def find_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The same for a program that waits: asked again until every leader has answered, or the time is over."""
    if not timestamps:
        return {}
    timeout_ms = min(TOPIC_WAIT_MS, cluster.config.default_api_timeout_ms)
    topics = {tp.topic for tp in timestamps}
    with cluster.hold_topics(topics):
        await cluster.wait_metadata(topics, timeout_ms=timeout_ms, keep=False)
        return await _find_offsets(cluster, timestamps, isolation)


async def _find_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, OffsetAndTimestamp]:
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    for tp in timestamps:
        # Partitions are never taken away, so one that is missing will not come by waiting.
        error = _no_leader(cluster, tp) if cluster.leader(*tp) is None else None
        if isinstance(error, UnknownTopicOrPartitionError):
            raise error

    async def attempt() -> dict[TopicPartition, OffsetAndTimestamp]:
        left = {tp: timestamp for tp, timestamp in timestamps.items() if tp not in found}
        failure: KafkaError | None = None
        for tp, answer in (await ask_offsets(cluster, left, isolation)).items():
            if not isinstance(answer, KafkaError):
                found[tp] = answer
            elif failure is None or failure.retriable:
                failure = answer
        if failure is not None:
            raise failure
        return found

    return await cluster.retry(attempt)
