"""The arithmetic behind the sticky assignors: an even division that changes as little as possible.

Where all members want the same topics, everybody gets n // m partitions, n % m of them one more, and each keeps what it
had up to that number. Otherwise partitions are placed one at a time where there is least, and then moved from
members who have more to members who have at least two fewer, until no such move is left; each move makes the division
more even, so there is an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from minikafka.client.consumer.assignors.base import Assignment, Member, all_partitions
from minikafka.client.structs import TopicPartition


def balanced(
    members: Sequence[Member], partition_counts: Mapping[str, int], owners: Mapping[TopicPartition, str]
) -> Assignment:
    """Partitions for every member, given who had what."""
    ordered = sorted(members, key=lambda member: member.order)
    partitions = all_partitions(ordered, partition_counts)
    wanted = {member.member_id: frozenset(member.subscription.topics) for member in ordered}
    existing = frozenset(partitions)
    kept: Assignment = {member.member_id: [] for member in ordered}
    for partition, owner in sorted(owners.items()):
        if partition in existing and partition.topic in wanted.get(owner, ()):
            kept[owner].append(partition)
    taken = {partition for assigned in kept.values() for partition in assigned}
    free = [partition for partition in partitions if partition not in taken]
    if len({topics.intersection(partition_counts) for topics in wanted.values()}) <= 1:
        return _even(kept, free)
    return _fair(wanted, kept, free, owners)


def _even(kept: Assignment, free: list[TopicPartition]) -> Assignment:
    """For members who all want the same."""
    if not kept:
        return kept
    total = len(free) + sum(map(len, kept.values()))
    share, rest = divmod(total, len(kept))
    # Those who have most keep the larger shares, so that the fewest partitions move.
    for member_id in sorted(kept, key=lambda member_id: -len(kept[member_id])):
        larger = len(kept[member_id]) > share and rest > 0
        rest -= larger
        quota = share + larger
        free += kept[member_id][quota:]
        del kept[member_id][quota:]
    free.sort()
    hungry = [member_id for member_id in kept if len(kept[member_id]) < share]
    # Dealt in turn, so that the partitions of one topic are spread.
    while hungry:
        for member_id in hungry:
            kept[member_id].append(free.pop(0))
        hungry = [member_id for member_id in hungry if len(kept[member_id]) < share]
    for member_id in sorted(kept, key=lambda member_id: len(kept[member_id]))[: len(free)]:
        kept[member_id].append(free.pop(0))
    return {member_id: sorted(assigned) for member_id, assigned in kept.items()}


def _fair(
    wanted: Mapping[str, frozenset[str]],
    kept: Assignment,
    free: Iterable[TopicPartition],
    owners: Mapping[TopicPartition, str],
) -> Assignment:
    """For members who want different things."""
    readers = {
        topic: [each for each in wanted if topic in wanted[each]] for topics in wanted.values() for topic in topics
    }
    # What few can read is placed first; whoever can read much fills the gaps.
    for partition in sorted(free, key=lambda each: (len(readers[each.topic]), each)):
        least = min(readers[partition.topic], key=lambda each: len(kept[each]))
        kept[least].append(partition)
    assigned = {member_id: set(partitions) for member_id, partitions in kept.items()}
    while _moved(assigned, readers, owners):
        pass
    return {member_id: sorted(partitions) for member_id, partitions in assigned.items()}


def _moved(
    assigned: dict[str, set[TopicPartition]], readers: Mapping[str, Sequence[str]], owners: Mapping[TopicPartition, str]
) -> bool:
    """Make moves that even out, one for each member at most; False if there are none."""
    moved = False
    for giver in sorted(assigned, key=lambda each: -len(assigned[each])):
        # Rather what is new to the giver than what it had before.
        for partition in sorted(assigned[giver], key=lambda each: (owners.get(each) == giver, each)):
            taker = min(readers[partition.topic], key=lambda each: (len(assigned[each]), owners.get(partition) != each))
            if len(assigned[giver]) > len(assigned[taker]) + 1:
                assigned[giver].remove(partition)
                assigned[taker].add(partition)
                moved = True
                break
    return moved
