"""The catalog of a cluster: partitions by its metadata, offsets by asking their leaders."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from minikafka.client.cluster import Cluster
from minikafka.client.config import ClientConfig
from minikafka.client.consumer.config import Isolation
from minikafka.client.consumer.offsets import ask_offsets
from minikafka.client.errors import ConnectionFailed
from minikafka.client.structs import OffsetAndTimestamp, TopicPartition
from minikafka.protocol.errors import KafkaError, UnknownTopicOrPartitionError
from minikafka.protocol.schema import ZERO_UUID
from minikafka.spark_jobs.link import Link
from minikafka.spark_jobs.offsets import TopicIds
from minikafka.spark_jobs.options import EARLIEST, LATEST, ReaderConfig, Selection, SourceOptions

_T = TypeVar("_T")

MISSING_MS: Final = 3_000
"""How long a topic is waited for that brokers do not know: one that was just created is not known to all at once."""

_LOOK_MS: Final = 1_000
"""How often the driver of a stream looks which topics there are: one may be deleted and created again meanwhile."""


class BrokerCatalog:
    """See `catalog.Catalog`. Partitions that have disappeared are left out of the answers."""

    def __init__(self, link: Link[ReaderConfig], options: SourceOptions) -> None:
        self._link = link
        self._selection = options.selection
        self._isolation = Isolation.READ_COMMITTED if options.config.reads_committed else Isolation.READ_UNCOMMITTED
        self._retries = options.offset_retries
        self._retry_interval_ms = options.offset_retry_interval_ms
        # Topics that were waited for in vain, and are not waited for again; the next look finds them if they are back.
        self._missing: set[str] = set()
        self._looked_ms = 0

    def partitions(self, *, missing_ok: bool = False) -> tuple[TopicPartition, ...]:
        selection = self._selection
        if missing_ok:
            self._retried(lambda: self._link.run(self._look))
        if selection.pattern:
            return self._retried(lambda: self._matching(selection.pattern))
        topics = [*selection.topics] or sorted({tp.topic for tp in selection.partitions})
        return self._retried(lambda: self._existing(topics, selection, missing_ok))

    async def _look(self, cluster: Cluster) -> None:
        now_ms = cluster.clock.monotonic_ms()
        if now_ms - self._looked_ms >= _LOOK_MS:
            cluster.want_topics(self._missing)
            await cluster.retry(cluster.refresh)
            self._looked_ms = now_ms

    def topic_ids(self) -> TopicIds:
        topics = self._link.cluster().metadata.topics.values()
        return {topic.name: topic.topic_id for topic in topics if topic.topic_id != ZERO_UUID and not topic.error_code}

    def _matching(self, pattern: str) -> tuple[TopicPartition, ...]:
        async def ask(cluster: Cluster) -> None:
            if not self._asks_for_all:
                cluster.want_all_topics()
                await cluster.refresh()
                self._asks_for_all = True

        self._link.run(ask)
        topics = self._link.cluster().metadata.topics
        wanted = re.compile(pattern)
        # Those in which brokers keep their own state have to be asked for by name.
        found = [name for name, topic in topics.items() if wanted.fullmatch(name) and not topic.is_internal]
        return self._all_of(found)

    _asks_for_all = False

    def _existing(self, topics: list[str], selection: Selection, missing_ok: bool) -> tuple[TopicPartition, ...]:
        for topic in topics:
            self._wait_topic(topic, missing_ok)
        there = self._all_of(topics)
        if not selection.partitions:
            return there
        gone = sorted({*selection.partitions} - {*there})
        if gone and not missing_ok:
            names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in gone)
            raise UnknownTopicOrPartitionError(f"assign names partitions that do not exist: {names}")
        return tuple(tp for tp in selection.partitions if tp not in gone)

    def _wait_topic(self, topic: str, missing_ok: bool) -> None:
        if topic in self._missing and missing_ok:
            if self._link.cluster().partitions(topic) is not None:
                self._missing.remove(topic)
            return
        try:
            self._link.run(lambda cluster: cluster.wait_metadata([topic], timeout_ms=MISSING_MS))
        except UnknownTopicOrPartitionError:
            if not missing_ok:
                raise UnknownTopicOrPartitionError(f"topic {topic!r} does not exist") from None
            self._missing.add(topic)

    def _all_of(self, topics: Iterable[str]) -> tuple[TopicPartition, ...]:
        cluster = self._link.cluster()
        return tuple(TopicPartition(name, each) for name in sorted(topics) for each in cluster.partitions(name) or ())

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: found.offset for tp, found in self._ask(dict.fromkeys(partitions, EARLIEST)).items()}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: found.offset for tp, found in self._ask(dict.fromkeys(partitions, LATEST)).items()}

    def at_time(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found = self._ask(timestamps_ms)
        return {tp: None if each.offset < 0 else each.offset for tp, each in found.items()}

    def _ask(self, questions: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        if not questions:
            return {}
        return self._retried(lambda: self._link.run(lambda cluster: find_existing(cluster, questions, self._isolation)))

    def _retried(self, attempt: Callable[[], _T]) -> _T:
        """Try again when no broker can be reached, as often as the options say."""
        for left in range(self._retries, -1, -1):
            try:
                return attempt()
            except ConnectionFailed:
                if not left:
                    raise
                time.sleep(self._retry_interval_ms / 1000)
        raise AssertionError("the last attempt returns or raises")


async def find_existing(
    cluster: Cluster, questions: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Offsets of all partitions that exist, asked for until every leader has answered."""
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    gone: set[TopicPartition] = set()
    started_ms = cluster.clock.monotonic_ms()

    async def attempt() -> dict[TopicPartition, OffsetAndTimestamp]:
        left = {tp: question for tp, question in questions.items() if tp not in found and tp not in gone}
        failure: KafkaError | None = None
        for tp, answer in (await ask_offsets(cluster, left, isolation)).items():
            if not isinstance(answer, KafkaError):
                found[tp] = answer
            elif _is_gone(answer) and cluster.clock.monotonic_ms() - started_ms >= MISSING_MS:
                gone.add(tp)
            elif failure is None or failure.retriable:
                failure = answer
        if failure is not None:
            raise failure
        return found

    return await cluster.retry(attempt, timeout_ms=timeout_for(cluster.config))


def timeout_for(config: ClientConfig) -> int:
    """How long is asked: at least as long as it takes to know that a topic is gone."""
    return max(config.default_api_timeout_ms, MISSING_MS + 1_000)


def _is_gone(error: KafkaError) -> bool:
    return isinstance(error, UnknownTopicOrPartitionError)
