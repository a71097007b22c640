"""What a transaction is asked for by, and in which versions: those of one transaction go together (KIP-890).

With transaction version 2 a batch, or an offset, brings its partition into the transaction, and the answer to the end
has the identity for the next one. Those versions are not sent in transactions that began before the cluster had agreed
on it, nor are others once it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from minikafka.client.producer.sequences import Identity
from minikafka.client.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from minikafka.protocol.message import Request
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

VERSION_2: Final = 2

# AddPartitionsToTxn has later versions for brokers among themselves.
_MAX_VERSIONS: Final[Mapping[type[Request], int]] = {AddPartitionsToTxnRequest: 3}
_MAX_VERSIONS_BEFORE_2: Final[Mapping[type[Request], int]] = {
    **_MAX_VERSIONS,
    ProduceRequest: 11,
    EndTxnRequest: 4,
    TxnOffsetCommitRequest: 4,
}


def max_version(request: type[Request], transaction_version: int) -> int | None:
    """The highest version of a request in a transaction; None if all are fine."""
    return (_MAX_VERSIONS if transaction_version >= VERSION_2 else _MAX_VERSIONS_BEFORE_2).get(request)


def add_partitions(
    transactional_id: str, identity: Identity, places: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in topics.items()],
    )


def commit_offsets(
    transactional_id: str,
    identity: Identity,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: ConsumerGroupMetadata,
) -> TxnOffsetCommitRequest:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        commit = TxnOffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            committed_metadata=offset.metadata,
        )
        topics.setdefault(topic, []).append(commit)
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=commits) for name, commits in topics.items()],
    )
