"""What a program wants to read: topics, a pattern, or partitions that it names itself. One of the three at a time."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable
from enum import Enum, auto

from minikafka.client.errors import IllegalState
from minikafka.client.metadata import Metadata
from minikafka.client.structs import TopicPartition


class ConsumerRebalanceListener:
    """What a program wants to be told when partitions come and go. Methods may be coroutines; all may be left out."""

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are about to go to others; nothing more is read from them. A last chance to commit."""

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are new here; nothing has been read from them yet. The place to `seek`."""

    def on_partitions_lost(self, lost: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions may belong to others already, so there is nothing to commit."""
        return self.on_partitions_revoked(lost)


class Kind(Enum):
    """Who decides on the partitions."""

    NONE = auto()
    TOPICS = auto()
    PATTERN = auto()
    PARTITIONS = auto()


class Subscription:
    """See the module's description."""

    def __init__(self) -> None:
        self.kind = Kind.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.partitions: frozenset[TopicPartition] = frozenset()
        self.listener: ConsumerRebalanceListener | None = None

    @property
    def is_automatic(self) -> bool:
        """Whether partitions follow from topics."""
        return self.kind in (Kind.TOPICS, Kind.PATTERN)

    @property
    def named_topics(self) -> frozenset[str]:
        """The topics that the program has named, alone or with a partition."""
        if self.kind is Kind.PARTITIONS:
            return frozenset(tp.topic for tp in self.partitions)
        return self.topics if self.kind is Kind.TOPICS else frozenset()

    def subscribe(
        self, topics: Iterable[str], pattern: str | re.Pattern[str] | None, listener: ConsumerRebalanceListener | None
    ) -> None:
        if isinstance(topics, str):
            raise TypeError("topics must be a list of names, not one text")
        names = frozenset(topics)
        if not all(names):
            raise ValueError("a topic has no name")
        if bool(names) == (pattern is not None):
            raise TypeError("subscribe needs either topics or a pattern")
        compiled = _compiled(pattern)
        self._require_not(Kind.PARTITIONS, "partitions were assigned by hand; unsubscribe first")
        self.kind = Kind.PATTERN if compiled is not None else Kind.TOPICS
        self.topics, self.pattern, self.listener = names, compiled, listener

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        given = frozenset(TopicPartition(*partition) for partition in partitions)
        for kind in (Kind.TOPICS, Kind.PATTERN):
            self._require_not(kind, "topics are subscribed; unsubscribe first")
        self.kind, self.partitions = Kind.PARTITIONS, given

    def clear(self) -> None:
        self.kind, self.pattern, self.listener = Kind.NONE, None, None
        self.topics, self.partitions = frozenset(), frozenset()

    def _require_not(self, kind: Kind, why: str) -> None:
        if self.kind is kind:
            raise IllegalState(why)

    def match(self, metadata: Metadata, exclude_internal: bool) -> bool:
        """Have the topics follow the pattern; whether that changed them."""
        if self.pattern is None:
            return False
        matching = frozenset(
            topic.name
            for topic in metadata.topics.values()
            if self.pattern.match(topic.name) and not topic.error_code and not (topic.is_internal and exclude_internal)
        )
        changed = matching != self.topics
        self.topics = matching
        return changed


def _compiled(pattern: str | re.Pattern[str] | None) -> re.Pattern[str] | None:
    if not isinstance(pattern, str):
        return pattern
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no pattern: {error}") from None
