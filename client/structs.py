"""Small values that producer, consumer and admin have in common. Names and fields are aiokafka's."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """What a group commits for a partition: the next offset to read, and a note of the group's own."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    """The epoch of the last record before the offset, by which a truncated log is noticed; -1 if not known."""


class OffsetAndTimestamp(NamedTuple):
    """The first offset at or after a time, and the time of its record."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's place in its group, for a producer that commits offsets inside a transaction."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
