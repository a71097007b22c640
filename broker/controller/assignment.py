"""Which brokers get the replicas of new partitions: Kafka's round-robin, so that its tools find what they expect.

The first replicas go round all brokers, beginning at one drawn by lot. The others follow at a distance that grows with
every round, so that the partitions of a dead broker are led by many others. With racks, brokers are lined up so that
neighbours are of different racks, and no rack gets a second replica while another has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, zip_longest
from random import Random

from minikafka.protocol.errors import InvalidPartitionsError, InvalidReplicationFactorError

Racks = Mapping[int, str | None]
"""The live brokers, and where they stand."""


def assign(racks: Racks, partitions: int, replication_factor: int, rng: Random) -> dict[int, tuple[int, ...]]:
    """The replicas of every partition of a new topic."""
    check_counts(racks, partitions, replication_factor)
    start, shift = rng.randrange(len(racks)), rng.randrange(len(racks))
    return dict(enumerate(_placed(racks, 0, partitions, replication_factor, start, shift)))


def assign_more(racks: Racks, first: int, partitions: int, like: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """The replicas of partitions that are added from index `first` on, where partition 0 has the replicas `like`."""
    check_counts(racks, partitions, len(like))
    brokers = sorted(racks)
    start = next((at for at, each in enumerate(brokers) if each >= like[0]), 0)
    return dict(enumerate(_placed(racks, first, partitions, len(like), start, start), first))


def check_counts(racks: Racks, partitions: int, replication_factor: int) -> None:
    if partitions <= 0:
        raise InvalidPartitionsError("Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise InvalidReplicationFactorError("Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        raise InvalidReplicationFactorError(
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}."
        )


def _placed(
    racks: Racks, first: int, partitions: int, replication_factor: int, start: int, shift: int
) -> Iterator[tuple[int, ...]]:
    # Some brokers without a rack would make the rule mean nothing.
    is_rack_aware = None not in racks.values()
    brokers = _lined_up(racks) if is_rack_aware else sorted(racks)
    rack_count = len(set(racks.values())) if is_rack_aware else 0
    for index in range(first, first + partitions):
        if index and index % len(brokers) == 0:
            shift += 1
        at = (index + start) % len(brokers)
        if is_rack_aware:
            yield _across_racks(racks, brokers, at, shift * rack_count, replication_factor, rack_count)
        else:
            followers = (brokers[_position(at, shift, each, len(brokers))] for each in range(replication_factor - 1))
            yield brokers[at], *followers


def _across_racks(
    racks: Racks, brokers: Sequence[int], at: int, shift: int, replication_factor: int, rack_count: int
) -> tuple[int, ...]:
    replicas, used = [brokers[at]], {racks[brokers[at]]}
    for distance in count():
        if len(replicas) == replication_factor:
            break
        broker = brokers[_position(at, shift, distance, len(brokers))]
        if broker not in replicas and (racks[broker] not in used or len(used) == rack_count):
            replicas.append(broker)
            used.add(racks[broker])
    return tuple(replicas)


def _position(at: int, shift: int, distance: int, brokers: int) -> int:
    """Where a follower of the broker at this position goes; never there again."""
    return (at + 1 + (shift + distance) % (brokers - 1)) % brokers


def _lined_up(racks: Racks) -> list[int]:
    """One broker of each rack in turn, until none is left."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack, key=str)))
    return [broker for each in rounds for broker in each if broker is not None]
