"""Topics that are read without a group: which are away for the moment, and which are gone.

One answer without a topic means little: a broker that has just started knows of none. So its partitions keep their
positions. A topic is *gone* when it has been away for long.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from minikafka.client.consumer.offsets import TOPIC_WAIT_MS
from minikafka.client.metadata import Metadata
from minikafka.protocol.errors import KafkaError, UnknownTopicOrPartitionError


class Seen(NamedTuple):
    """What an answer shows of topics that were known before it."""

    away: frozenset[str]
    gone: dict[str, KafkaError]
    """What the brokers say of topics that are away for long; each is in one answer only."""


class TopicWatch:
    """See the module's description."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._away_since_ms: dict[str, int] = {}
        self._gone: set[str] = set()

    def look(self, metadata: Metadata, topics: Collection[str], now_ms: int) -> Seen:
        """Take note of an answer."""
        errors = {topic: error for topic in topics if (error := _error_of(metadata, topic)) is not None}
        away = {topic: error for topic, error in errors.items() if topic in self._known}
        for topic in {*topics} - errors.keys():
            self._away_since_ms.pop(topic, None)
            self._gone.discard(topic)
        for topic in away:
            self._away_since_ms.setdefault(topic, now_ms)
        gone = {topic: error for topic, error in away.items() if self._is_newly_gone(topic, now_ms)}
        self._gone.update(gone)
        self._known.update({*topics} - errors.keys())
        return Seen(frozenset(away), gone)

    def is_gone(self, topic: str) -> bool:
        return topic in self._gone

    def _is_newly_gone(self, topic: str, now_ms: int) -> bool:
        return topic not in self._gone and now_ms - self._away_since_ms[topic] >= TOPIC_WAIT_MS


def _error_of(metadata: Metadata, topic: str) -> KafkaError | None:
    found = metadata.topics.get(topic)
    return UnknownTopicOrPartitionError(f"topic {topic!r}") if found is None else found.error
