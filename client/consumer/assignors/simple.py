"""The two assignors that look at nothing but names: range and round-robin.

They give the same answer as Kafka's for the same members, whoever is the leader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from minikafka.client.consumer.assignors.base import Assignment, Member, all_partitions
from minikafka.client.structs import TopicPartition


class RangeAssignor:
    """Topic by topic, a row of neighbouring partitions for each member: topics with equal keys stay together."""

    name = "range"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> None:
        """Nothing of the past counts."""

    def assign(self, members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment:
        assignment: Assignment = {member.member_id: [] for member in members}
        ordered = sorted(members, key=lambda member: member.order)
        for topic, count in sorted(partition_counts.items()):
            readers = [member for member in ordered if topic in member.subscription.topics]
            start = 0
            for place, reader in enumerate(readers):
                # The first ones take one more each where the division leaves a rest.
                stop = start + count // len(readers) + (place < count % len(readers))
                assignment[reader.member_id] += (TopicPartition(topic, number) for number in range(start, stop))
                start = stop
        return assignment


class RoundRobinAssignor:
    """All partitions in a row, dealt out one by one."""

    name = "roundrobin"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> None:
        """Nothing of the past counts."""

    def assign(self, members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment:
        assignment: Assignment = {member.member_id: [] for member in members}
        ordered = cycle(sorted(members, key=lambda member: member.order))
        for partition in all_partitions(members, partition_counts):
            # Somebody wants it, or it would not be in the list.
            reader = next(member for member in ordered if partition.topic in member.subscription.topics)
            assignment[reader.member_id].append(partition)
        return assignment
