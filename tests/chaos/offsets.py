"""Offsets of groups and ends of partitions as one broker gives them, whether it is the one to ask or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from tests.chaos.coordinators.wire import GROUP, Address, Place, Wire, check, insist

NOTHING = -1
_LATEST = -1
_COMMIT_VERSION = 7
_FETCH_VERSION = 5
_LIST_VERSION = 6
_INSIST_SECONDS = 60.0


def coordinator(wire: Wire, group: str) -> tuple[int, Address]:
    return insist(lambda: wire.coordinator(GROUP, group), _INSIST_SECONDS)


def commit(wire: Wire, address: Address, group: str, offsets: Mapping[Place, int]) -> None:
    """Without a member; KafkaError if one of them is refused."""
    topics = [
        OffsetCommitRequestTopic(
            name=place.topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=place.partition, committed_offset=offset, committed_metadata=""
                )
            ],
        )
        for place, offset in offsets.items()
    ]
    response = wire.ask(address, OffsetCommitRequest(group_id=group, topics=topics), _COMMIT_VERSION)
    for topic in response.topics:
        for partition in topic.partitions:
            check(partition.error_code)


def fetch(wire: Wire, address: Address, group: str, places: Sequence[Place]) -> dict[Place, int]:
    """What a group has committed, NOTHING where it has not."""
    topics = [OffsetFetchRequestTopic(name=place.topic, partition_indexes=[place.partition]) for place in places]
    response = wire.ask(address, OffsetFetchRequest(group_id=group, topics=topics), _FETCH_VERSION)
    check(response.error_code)
    found = {}
    for topic in response.topics:
        for partition in topic.partitions:
            check(partition.error_code)
            found[Place(topic.name, partition.partition_index)] = partition.committed_offset
    return found


def end(wire: Wire, address: Address, place: Place) -> int:
    """Up to where a broker lets consumers read."""
    asked = ListOffsetsPartition(partition_index=place.partition, timestamp=_LATEST)
    topics = [ListOffsetsTopic(name=place.topic, partitions=[asked])]
    response = wire.ask(address, ListOffsetsRequest(replica_id=-1, topics=topics), _LIST_VERSION)
    found = response.topics[0].partitions[0]
    check(found.error_code)
    return int(found.offset)
