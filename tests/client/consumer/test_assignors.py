"""Assignors: what they promise for any group, and the same bytes and answers as other clients'."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyAssignorUserDataV1
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.consumer.assignors import ASSIGNORS, find_assignors
from minikafka.client.consumer.assignors.base import (
    Assignment,
    Assignor,
    Member,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from minikafka.client.consumer.assignors.sticky import Claim, decode_claim, encode_claim
from minikafka.client.errors import ConfigError
from minikafka.client.structs import TopicPartition

TOPICS = ("a", "b", "c", "d")

topic_sets = st.sets(st.sampled_from(TOPICS)).map(lambda topics: tuple(sorted(topics)))
partition_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12))
groups = st.dictionaries(st.sampled_from([f"m{i}" for i in range(8)]), topic_sets, min_size=1)
sticky_names = st.sampled_from(["sticky", "cooperative-sticky"])


def join(assignor: Assignor, topics: dict[str, tuple[str, ...]], owned: Assignment, generation: int) -> list[Member]:
    """Members as they would come to a rebalance after having been assigned `owned`."""
    return [
        Member(name, Subscription(wanted, assignor.user_data(had := owned.get(name, []), generation), tuple(had)))
        for name, wanted in topics.items()
    ]


def settle(
    assignor: Assignor,
    topics: dict[str, tuple[str, ...]],
    counts: dict[str, int],
    owned: Assignment,
    generation: int = 1,
) -> Assignment:
    """Rebalance until nothing moves any more, as a cooperative group does."""
    for round_number in range(generation, generation + 3):
        assigned = assignor.assign(join(assignor, topics, owned, round_number), counts)
        if assigned == owned:
            return assigned
        owned = assigned
        if not assignor.is_cooperative:
            return owned
    raise AssertionError(f"still moving: {owned}")


def check_valid(topics: dict[str, tuple[str, ...]], counts: dict[str, int], assigned: Assignment) -> None:
    given_out = [partition for partitions in assigned.values() for partition in partitions]
    wanted = {TopicPartition(t, n) for member in topics.values() for t in member for n in range(counts.get(t, 0))}
    assert len(given_out) == len(set(given_out))
    assert {*given_out} == wanted
    assert assigned.keys() == topics.keys()
    assert all(partition.topic in topics[member] for member in topics for partition in assigned[member])


def check_fair(topics: dict[str, tuple[str, ...]], assigned: Assignment) -> None:
    """No partition could go to somebody who has at least two fewer than its owner."""
    for partitions in assigned.values():
        for partition in partitions:
            readers = [member for member in topics if partition.topic in topics[member]]
            assert len(partitions) <= min(len(assigned[reader]) for reader in readers) + 1


@given(st.sampled_from([*ASSIGNORS]), groups, partition_counts)
def test_every_partition_goes_to_one_member_who_wants_it(
    name: str, topics: dict[str, tuple[str, ...]], counts: dict[str, int]
) -> None:
    check_valid(topics, counts, ASSIGNORS[name].assign(join(ASSIGNORS[name], topics, {}, -1), counts))


@given(sticky_names, groups, partition_counts, st.randoms(use_true_random=False))
def test_sticky_is_fair_whatever_was_before(
    name: str, topics: dict[str, tuple[str, ...]], counts: dict[str, int], rng: random.Random
) -> None:
    before: Assignment = {}
    for topic in TOPICS:
        for number in range(12):
            before.setdefault(rng.choice([*topics, "gone"]), []).append(TopicPartition(topic, number))
    assigned = settle(ASSIGNORS[name], topics, counts, before)
    check_valid(topics, counts, assigned)
    check_fair(topics, assigned)


@given(sticky_names, st.integers(1, 8), partition_counts.filter(bool), st.sampled_from(["join", "leave", "same"]))
def test_sticky_moves_no_more_than_it_must(name: str, size: int, counts: dict[str, int], change: str) -> None:
    everything = tuple(counts)
    topics = {f"m{i}": everything for i in range(size)}
    before = settle(ASSIGNORS[name], topics, counts, {})
    if change == "join":
        topics["z"] = everything
    elif change == "leave" and size > 1:
        del topics["m0"]
    after = settle(ASSIGNORS[name], topics, counts, before, 5)
    share, rest = divmod(sum(counts.values()), len(topics))
    kept = sum(len({*before.get(member, ())} & {*after[member]}) for member in topics)
    # All that fits: the larger shares go to whoever has most.
    had = sorted((len(before.get(member, ())) for member in topics), reverse=True)
    assert kept == sum(min(count, share + (place < rest)) for place, count in enumerate(had))


@given(groups, partition_counts, groups)
def test_a_cooperative_partition_is_free_before_it_moves(
    before: dict[str, tuple[str, ...]], counts: dict[str, int], after: dict[str, tuple[str, ...]]
) -> None:
    assignor = ASSIGNORS["cooperative-sticky"]
    owned = settle(assignor, before, counts, {})
    members = join(assignor, after, owned, 5)
    assigned = assignor.assign(members, counts)
    holder = {partition: member.member_id for member in members for partition in member.subscription.owned}
    for member_id, partitions in assigned.items():
        assert all(holder.get(partition, member_id) == member_id for partition in partitions)
    check_valid(after, counts, settle(assignor, after, counts, assigned, 6))


def test_a_claim_from_an_older_generation_does_not_count() -> None:
    partitions = [TopicPartition("a", number) for number in range(2)]
    for name in ("sticky", "cooperative-sticky"):
        assignor = ASSIGNORS[name]
        late = Subscription(("a",), assignor.user_data(partitions, 3), tuple(partitions))
        now = Subscription(("a",), assignor.user_data(partitions[:1], 4), tuple(partitions[:1]))
        assigned = assignor.assign([Member("late", late), Member("now", now)], {"a": 2})
        assert partitions[0] in assigned["now"]
        assert assigned["late"] == partitions[1:]


def test_two_claims_of_one_generation_give_it_to_nobody_yet() -> None:
    assignor, partition = ASSIGNORS["cooperative-sticky"], TopicPartition("a", 0)
    both = Subscription(("a",), None, (partition,), 3)
    assert assignor.assign([Member("x", both), Member("y", both)], {"a": 1}) == {"x": [], "y": []}


def test_static_members_come_first_by_their_own_names() -> None:
    wanted = Subscription(("a",))
    members = [Member("1", wanted), Member("3", wanted, "second"), Member("2", wanted, "zweite")]
    assigned = ASSIGNORS["range"].assign(members, {"a": 3})
    assert [partition.partition for each in ("3", "2", "1") for partition in assigned[each]] == [0, 1, 2]


def _aiokafka_cluster(counts: dict[str, int]) -> ClusterMetadata:
    cluster = ClusterMetadata()
    cluster.partitions_for_topic = lambda topic: {*range(counts[topic])} if topic in counts else None
    return cluster


@given(groups, partition_counts)
def test_same_answer_as_other_clients(topics: dict[str, tuple[str, ...]], counts: dict[str, int]) -> None:
    for ours, theirs in (("range", RangePartitionAssignor), ("roundrobin", RoundRobinPartitionAssignor)):
        metadata = {member: theirs.metadata(set(wanted)) for member, wanted in topics.items()}
        expected = theirs.assign(_aiokafka_cluster(counts), metadata)
        assigned = ASSIGNORS[ours].assign(join(ASSIGNORS[ours], topics, {}, -1), counts)
        assert {name: sorted(partitions) for name, partitions in assigned.items()} == {
            name: sorted(TopicPartition(topic, number) for topic, numbers in each.assignment for number in numbers)
            for name, each in expected.items()
        }


partitions_of_any = st.lists(
    st.builds(TopicPartition, st.text(max_size=20).filter(lambda t: t.isprintable()), st.integers(0, 2**31 - 1)),
    unique=True,
).map(sorted)


@given(partitions_of_any, st.integers(-1, 2**31 - 1))
def test_claims_read_and_written_as_other_clients_do(owned: Sequence[TopicPartition], generation: int) -> None:
    data = encode_claim(Claim(tuple(owned), generation))
    theirs = StickyAssignorUserDataV1.decode(data)
    assert theirs.generation == generation
    assert [(topic, n) for topic, numbers in theirs.previous_assignment for n in numbers] == [*owned]
    assert decode_claim(data) == Claim(tuple(owned), generation)
    assert decode_claim(data[:-4]) == Claim(tuple(owned), -1)


@given(st.binary(max_size=60))
def test_user_data_of_no_kind_is_no_claim(data: bytes) -> None:
    assert isinstance(decode_claim(data), Claim)


@given(topic_sets, st.none() | st.binary(max_size=9), partitions_of_any, st.integers(-1, 9), st.none() | st.just("r1"))
def test_subscriptions_survive_the_wire(
    topics: tuple[str, ...], data: bytes | None, owned: list[TopicPartition], generation: int, rack: str | None
) -> None:
    subscription = Subscription(topics, data, tuple(owned), generation, rack)
    encoded = encode_subscription(subscription)
    assert decode_subscription(encoded) == subscription
    theirs = ConsumerProtocolMemberMetadata.decode(encoded)
    assert tuple(theirs.subscription) == topics
    assert decode_assignment(encode_assignment(owned)) == owned
    theirs = ConsumerProtocolMemberAssignment.decode(encode_assignment(owned))
    assert [(topic, n) for topic, numbers in theirs.assignment for n in numbers] == owned


def test_an_empty_assignment_is_none() -> None:
    assert decode_assignment(b"") == []


def test_assignors_are_found_by_name_class_and_object() -> None:
    found = find_assignors(["range", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"])
    assert [assignor.name for assignor in found] == ["range", "cooperative-sticky"]
    assert find_assignors("roundrobin, sticky")[1] is ASSIGNORS["sticky"]
    assert find_assignors([type(ASSIGNORS["sticky"]), ASSIGNORS["range"]])[0].name == "sticky"
    for wrong in ("nearest", [], ["range", "range"]):
        with pytest.raises(ConfigError):
            find_assignors(wrong)
