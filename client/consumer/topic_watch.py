"""Topics that are read without a group: which are away, which have come back as others of the same name.

One answer without a topic means little: a broker that has just started knows of none. So its partitions keep their
positions. A topic is *gone* when it has been away for long, and *renewed* when its id has changed: its records are
others then, and so are its offsets.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from minikafka.client.consumer.offsets import TOPIC_WAIT_MS
from minikafka.client.metadata import Metadata
from minikafka.protocol.errors import KafkaError, UnknownTopicOrPartitionError
from minikafka.protocol.schema import ZERO_UUID


class Seen(NamedTuple):
    """What an answer shows of topics that were known before it."""

    away: frozenset[str]
    renewed: frozenset[str]
    gone: dict[str, KafkaError]
    """What the brokers say of topics that are away for long; each is in one answer only."""


class TopicWatch:
    """See the module's description."""

    def __init__(self) -> None:
        self._ids: dict[str, bytes] = {}
        self._away_since_ms: dict[str, int] = {}
        self._gone: set[str] = set()

    def look(self, metadata: Metadata, topics: Collection[str], now_ms: int) -> Seen:
        """Take note of an answer."""
        known = [topic for topic in topics if topic in self._ids]
        errors = {topic: error for topic in topics if (error := _error_of(metadata, topic)) is not None}
        away = {topic: errors[topic] for topic in known if topic in errors}
        for topic in {*topics} - errors.keys():
            self._away_since_ms.pop(topic, None)
            self._gone.discard(topic)
        for topic in away:
            self._away_since_ms.setdefault(topic, now_ms)
        gone = {topic: error for topic, error in away.items() if self._is_newly_gone(topic, now_ms)}
        self._gone.update(gone)
        renewed = [topic for topic in known if topic not in away and self._is_renewed(metadata, topic)]
        self._ids.update((topic, metadata.topics[topic].topic_id) for topic in topics if topic not in errors)
        return Seen(frozenset(away), frozenset(renewed), gone)

    def is_gone(self, topic: str) -> bool:
        return topic in self._gone

    def _is_newly_gone(self, topic: str, now_ms: int) -> bool:
        return topic not in self._gone and now_ms - self._away_since_ms[topic] >= TOPIC_WAIT_MS

    def _is_renewed(self, metadata: Metadata, topic: str) -> bool:
        before, now = self._ids[topic], metadata.topics[topic].topic_id
        # Old brokers tell no ids.
        return before != now and ZERO_UUID not in (before, now)


def _error_of(metadata: Metadata, topic: str) -> KafkaError | None:
    found = metadata.topics.get(topic)
    return UnknownTopicOrPartitionError(f"topic {topic!r}") if found is None else found.error
