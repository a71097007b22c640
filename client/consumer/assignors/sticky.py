"""Sticky assignors: as even as can be, and within that, everybody keeps what they had.

`StickyAssignor` stops all members during a rebalance, as the older assignors do; each tells what it had before in its
user data. `CooperativeStickyAssignor` lets them go on: whoever has a partition keeps it until it has given it up, so
a partition that moves is assigned to nobody in one rebalance and to its new owner in a second one right after.

    user data of sticky              [topic, [partition]], generation i32
    user data of cooperative-sticky  generation i32; the partitions are in the subscription itself

The generation decides between two members who both claim a partition: one of them missed a rebalance.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from minikafka.client.consumer.assignors.balance import balanced
from minikafka.client.consumer.assignors.base import NO_GENERATION, Assignment, Member, Subscription, by_topic
from minikafka.client.structs import TopicPartition

_GENERATION: Final = struct.Struct(">i")
_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")


class Claim(NamedTuple):
    """What a member says it had."""

    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION


class StickyAssignor:
    """Even, and with as few moves as possible; everybody stops reading during a rebalance."""

    name = "sticky"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        return encode_claim(Claim(tuple(owned), generation_id)) if owned else None

    def assign(self, members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment:
        claims = {member.member_id: decode_claim(member.subscription.user_data) for member in members}
        return balanced(members, partition_counts, _undisputed(_claimants(claims)))


class CooperativeStickyAssignor:
    """Even, and with as few moves as possible; only what moves stops being read during a rebalance."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        return _GENERATION.pack(generation_id)

    def assign(self, members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment:
        claimants = _claimants({member.member_id: _cooperative_claim(member.subscription) for member in members})
        assignment = balanced(members, partition_counts, _undisputed(claimants))
        # Nobody gets what somebody else may still be reading; that one gives it up now, and the group meets again.
        return {
            member_id: [each for each in assigned if claimants.get(each, [member_id]) == [member_id]]
            for member_id, assigned in assignment.items()
        }


def _cooperative_claim(subscription: Subscription) -> Claim:
    generation_id, data = subscription.generation_id, subscription.user_data
    if generation_id == NO_GENERATION and data is not None and len(data) == _GENERATION.size:
        (generation_id,) = _GENERATION.unpack(data)
    elif generation_id == NO_GENERATION and data:
        # librdkafka says the same in the form of the other assignor.
        generation_id = decode_claim(data).generation_id
    return Claim(subscription.owned, generation_id)


def _claimants(claims: Mapping[str, Claim]) -> dict[TopicPartition, list[str]]:
    """Who says to have had a partition, in the latest generation in which somebody says so."""
    latest: dict[TopicPartition, tuple[int, list[str]]] = {}
    for member_id, claim in sorted(claims.items()):
        for partition in set(claim.owned):
            generation_id, claimants = latest.get(partition, (claim.generation_id, []))
            if claim.generation_id > generation_id:
                latest[partition] = claim.generation_id, [member_id]
            elif claim.generation_id == generation_id:
                latest[partition] = generation_id, [*claimants, member_id]
    return {partition: claimants for partition, (_, claimants) in latest.items()}


def _undisputed(claimants: Mapping[TopicPartition, list[str]]) -> dict[TopicPartition, str]:
    """Who had which partition. Two claims of the same generation cannot both be true, so neither counts."""
    return {partition: members[0] for partition, members in claimants.items() if len(members) == 1}


def encode_claim(claim: Claim) -> bytes:
    """The user data of the sticky assignor."""
    out = bytearray(_INT32.pack(len(topics := by_topic(claim.owned))))
    for topic, numbers in topics.items():
        name = topic.encode()
        out += _INT16.pack(len(name)) + name + _INT32.pack(len(numbers))
        out += b"".join(map(_INT32.pack, numbers))
    return bytes(out + _GENERATION.pack(claim.generation_id))


def decode_claim(data: bytes | None) -> Claim:
    """The claim in user data. The oldest form has no generation; bytes that are no claim at all count as none."""
    if not data:
        return Claim()
    try:
        owned, pos = _read_topics(data)
    except (struct.error, UnicodeDecodeError, ValueError):
        return Claim()
    left = len(data) - pos
    return Claim(tuple(owned), _GENERATION.unpack_from(data, pos)[0] if left >= _GENERATION.size else NO_GENERATION)


def _read_topics(data: bytes) -> tuple[Iterable[TopicPartition], int]:
    owned: list[TopicPartition] = []
    (topics,) = _INT32.unpack_from(data)
    pos = _INT32.size
    for _ in range(_possible(topics, len(data))):
        (size,) = _INT16.unpack_from(data, pos)
        start = pos + _INT16.size
        pos = start + _possible(size, len(data))
        topic = data[start:pos].decode()
        (count,) = _INT32.unpack_from(data, pos)
        numbers = struct.unpack_from(f">{_possible(count, len(data))}i", data, pos + _INT32.size)
        pos += _INT32.size * (count + 1)
        owned += (TopicPartition(topic, number) for number in numbers)
    return owned, pos


def _possible(count: int, limit: int) -> int:
    """A count out of another member's bytes, which cannot hold more than their number."""
    if not 0 <= count <= limit:
        raise ValueError(f"{count} of something in {limit} bytes")
    return count
