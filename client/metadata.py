"""The cluster as the last answers describe it: an immutable snapshot, and how a new answer changes it.

A broker may answer with what it knew a moment ago. The leader of a partition is therefore only replaced by one of the
same or a later epoch, unless the topic has been deleted and made anew, which its id shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from minikafka.client.config import Address
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.schema import ZERO_UUID

NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker of the cluster."""

    node_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition; `leader` is -1 while there is none, the epoch -1 if the broker does not tell."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic; with an error it has no partitions, or only those that were known before."""

    name: str
    topic_id: bytes = ZERO_UUID
    partitions: Mapping[int, Partition] = field(default_factory=lambda: MappingProxyType({}))
    is_internal: bool = False
    error_code: int = 0
    authorized_operations: int = -(1 << 31)

    @property
    def error(self) -> KafkaError | None:
        return error_for(self.error_code, f"topic {self.name!r}") if self.error_code else None


@dataclass(frozen=True, slots=True)
class Metadata:
    """All of it. Topics that were never asked for are not in it."""

    brokers: Mapping[int, Broker] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, Topic] = field(default_factory=lambda: MappingProxyType({}))
    controller_id: int = NO_LEADER
    cluster_id: str | None = None

    def partition(self, topic: str, index: int) -> Partition | None:
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(index)

    def merge(self, answer: MetadataResponse, asked: Iterable[str] | None) -> Metadata:
        """This snapshot with an answer taken in; `asked` are the topics it was about, None for all there are."""
        topics = dict(self.topics) if asked is not None else {}
        for found in answer.topics:
            if found.name is not None:
                topics[found.name] = _merge_topic(self.topics.get(found.name), found)
        brokers = {
            each.node_id: Broker(each.node_id, Address(each.host, each.port), each.rack) for each in answer.brokers
        }
        # A broker that is still starting may know of nobody yet; what was known is the better guess.
        return Metadata(
            MappingProxyType(brokers) if brokers else self.brokers,
            MappingProxyType(topics),
            answer.controller_id,
            answer.cluster_id if answer.cluster_id is not None else self.cluster_id,
        )

    def without(self, topics: Iterable[str]) -> Metadata:
        gone = {*topics}
        kept = {name: topic for name, topic in self.topics.items() if name not in gone}
        return replace(self, topics=MappingProxyType(kept))

    def with_broker(self, node_id: int, address: Address) -> Metadata:
        """With a broker of which something else than Metadata has told."""
        known = self.brokers.get(node_id)
        if known is not None and known.address == address:
            return self
        brokers = {**self.brokers, node_id: Broker(node_id, address)}
        return replace(self, brokers=MappingProxyType(brokers))


def _merge_topic(old: Topic | None, new: MetadataResponseTopic) -> Topic:
    assert new.name is not None
    if new.error_code:
        # Without partitions: whoever wants to send or fetch has to wait until the topic is there (again).
        return Topic(new.name, new.topic_id, error_code=new.error_code)
    is_same = old is not None and (old.topic_id == new.topic_id or ZERO_UUID in (old.topic_id, new.topic_id))
    known: Mapping[int, Partition] = old.partitions if old is not None and is_same else {}
    partitions = {
        each.partition_index: _merge_partition(known.get(each.partition_index), each) for each in new.partitions
    }
    return Topic(
        new.name,
        new.topic_id,
        MappingProxyType(dict(sorted(partitions.items()))),
        new.is_internal,
        authorized_operations=new.topic_authorized_operations,
    )


def _merge_partition(old: Partition | None, new: MetadataResponsePartition) -> Partition:
    # An epoch of -1 is an answer without epochs, which cannot be compared.
    if old is not None and 0 <= new.leader_epoch < old.leader_epoch:
        return old
    return Partition(
        new.partition_index,
        new.leader_id,
        new.leader_epoch,
        tuple(new.replica_nodes),
        tuple(new.isr_nodes),
        tuple(new.offline_replicas),
        new.error_code,
    )
