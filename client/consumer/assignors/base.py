"""What an assignor is given and what it returns, and the bytes in which members of a group exchange both.

The bytes are those of Kafka's own consumers: a group may have members of ours, of Java and of librdkafka, and any of
them may be the leader, who assigns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from minikafka.client.structs import TopicPartition
from minikafka.protocol.messages.consumer_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
)

NO_GENERATION: Final = -1

_SUBSCRIPTION_VERSION: Final = 3
_ASSIGNMENT_VERSION: Final = 0
"""All versions look the same, and every reader knows the first."""

Assignment: TypeAlias = dict[str, list[TopicPartition]]


class Subscription(NamedTuple):
    """What a member says when it joins."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


class Member(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    subscription: Subscription
    instance_id: str | None = None

    @property
    def order(self) -> tuple[bool, str]:
        """Members in an order that outlives restarts where it can: static ones first, by their own names."""
        return (True, self.member_id) if self.instance_id is None else (False, self.instance_id)


class Assignor(Protocol):
    """One way to divide partitions among the members of a group. Has no state: what it needs is in the arguments."""

    @property
    def name(self) -> str: ...

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep reading, during a rebalance, what they do not have to give up."""

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """What a member with these partitions, assigned in this generation, tells the leader."""

    def assign(self, members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment:
        """Partitions for every member; topics without partitions are not in `partition_counts`."""


def encode_subscription(subscription: Subscription) -> bytes:
    return ConsumerProtocolSubscription(
        topics=list(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            OwnedPartitions(topic=topic, partitions=n) for topic, n in by_topic(subscription.owned).items()
        ],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    ).dump(_SUBSCRIPTION_VERSION)


def decode_subscription(data: bytes | bytearray) -> Subscription:
    """DecodeError if the bytes are no subscription."""
    read = ConsumerProtocolSubscription.parse(data)
    owned = tuple(TopicPartition(each.topic, number) for each in read.owned_partitions for number in each.partitions)
    user_data = None if read.user_data is None else bytes(read.user_data)
    return Subscription(tuple(read.topics), user_data, owned, read.generation_id, read.rack_id)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    assigned = [AssignedPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions).items()]
    return ConsumerProtocolAssignment(assigned_partitions=assigned).dump(_ASSIGNMENT_VERSION)


def decode_assignment(data: bytes | bytearray) -> list[TopicPartition]:
    """The partitions; no bytes at all, as a leader may send to a member it has nothing for, are none."""
    if not data:
        return []
    read = ConsumerProtocolAssignment.parse(data)
    return [TopicPartition(each.topic, number) for each in read.assigned_partitions for number in each.partitions]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partition numbers of each topic, both in order."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return topics


def all_partitions(members: Iterable[Member], partition_counts: Mapping[str, int]) -> list[TopicPartition]:
    """Every partition that some member wants, in order."""
    wanted = {topic for member in members for topic in member.subscription.topics}
    return [TopicPartition(topic, n) for topic in sorted(wanted) for n in range(partition_counts.get(topic, 0))]
