"""What the controller knows: live brokers, topics, and of every partition its replicas and who leads them.

It is what stands in ZooKeeper, as far as it has been read or written: a partition gets a new state here when the write
of it is known to have been done, and not before. What brokers are told is read from here, so they are told nothing
that another controller could not find as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from minikafka.broker.controller.leader_election import Standing
from minikafka.broker.features import NOTHING_FINALIZED
from minikafka.broker.zookeeper.topic_nodes import NO_LEADER, Assignment, StateNode, TopicNode
from minikafka.broker.zookeeper.znodes import BrokerNode
from minikafka.protocol.control import Endpoint, FeatureLevel, LiveBroker, PartitionState

Name: TypeAlias = tuple[str, int]
"""A partition: its topic and its index."""


class Broker(NamedTuple):
    """A broker that is registered. Its epoch tells it from the same one before a restart."""

    broker_id: int
    epoch: int
    node: BrokerNode

    @property
    def wire(self) -> LiveBroker:
        endpoints = [
            Endpoint(listener=each.listener, security_protocol=each.protocol, host=each.host, port=each.port)
            for each in self.node.endpoints
        ]
        return LiveBroker(
            broker_id=self.broker_id,
            broker_epoch=self.epoch,
            endpoints=endpoints,
            rack=self.node.rack,
            host=self.node.host,
            features=[
                FeatureLevel(name=name, level=each.get("max_version", 0)) for name, each in self.node.features.items()
            ],
        )


@dataclass(slots=True, eq=False)
class Topic:
    """A topic. `version` is that of its node, for conditional writes."""

    name: str
    topic_id: bytes
    version: int
    partitions: dict[int, Partition] = field(default_factory=dict)
    is_deleted: bool = False
    """Its deletion was asked for: it is not shown any more, and nothing is decided about it but its end."""

    @property
    def node(self) -> TopicNode:
        return TopicNode(self.topic_id, {index: each.assignment for index, each in self.partitions.items()})

    def adopt(self, node: TopicNode, version: int) -> list[Partition]:
        """Take over a version of the node; the partitions that are new.

        Always both: with the version of a node that has partitions unknown here, the next write would remove them.
        """
        self.version = version
        new = [Partition(self, index, plan) for index, plan in node.partitions.items() if index not in self.partitions]
        self.partitions |= {partition.index: partition for partition in new}
        return new


@dataclass(slots=True, eq=False)
class Partition:
    """A partition. It has no state until one of its replicas was alive for the first time."""

    topic: Topic
    index: int
    assignment: Assignment
    state: StateNode | None = None
    version: int = -1
    """That of the node with the state, called the partition epoch."""
    zxid: int = -1
    """The transaction that wrote the state: a broker that registered later is not the one that it speaks of."""

    @property
    def name(self) -> Name:
        return self.topic.name, self.index

    @property
    def replicas(self) -> tuple[int, ...]:
        return self.assignment.replicas

    @property
    def leader(self) -> int:
        return NO_LEADER if self.state is None else self.state.leader


class Cluster:
    """See the module's description."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, Topic] = {}
        # Topics that are there, and whose nodes make no sense.
        self.damaged: set[str] = set()
        self.shutting_down: set[int] = set()
        # Replicas in log directories that failed, by broker.
        self.broken: dict[int, set[Name]] = {}
        self.features = NOTHING_FINALIZED
        self.min_isr: Callable[[str], int] = lambda topic: 1
        """The `min.insync.replicas` of a topic."""

    # -------------------------------------------------------------------------------------------------- topics

    def put_topic(self, name: str, node: TopicNode, version: int) -> list[Partition]:
        """Take over what a topic's node says; the partitions that are new."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(name, node.topic_id, version)
        return topic.adopt(node, version)

    def kept_topics(self) -> list[str]:
        """Topics that exist without all their replicas being given a role: what they have on disk is still theirs."""
        unsettled = (
            each.name
            for each in self.topics.values()
            if each.is_deleted or any(partition.state is None for partition in each.partitions.values())
        )
        return [*unsettled, *self.damaged]

    def partition(self, name: Name) -> Partition | None:
        topic = self.topics.get(name[0])
        return None if topic is None else topic.partitions.get(name[1])

    def partitions(self) -> Iterator[Partition]:
        """All of them, but for topics that are being deleted."""
        for topic in self.topics.values():
            if not topic.is_deleted:
                yield from topic.partitions.values()

    def partitions_on(self, broker_id: int) -> Iterator[Partition]:
        return (each for each in self.partitions() if broker_id in each.replicas)

    # ------------------------------------------------------------------------------------------------- brokers

    def is_online(self, name: Name, broker_id: int) -> bool:
        """Whether a broker can work with its replica of a partition."""
        return broker_id in self.brokers and name not in self.broken.get(broker_id, ())

    def standing(self, partition: Partition, broker_id: int) -> Standing:
        """What became of a replica since the state of its partition was decided.

        Where the state does not say for which broker that was, it can only be one that was there before the state.
        """
        if not self.is_online(partition.name, broker_id):
            return Standing.AWAY
        broker = self.brokers[broker_id]
        known = {} if partition.state is None else partition.state.broker_epochs
        if broker_id not in known:
            return Standing.SAME if broker.epoch <= partition.zxid else Standing.KEPT
        if known[broker_id] == broker.epoch:
            return Standing.SAME
        return Standing.KEPT if broker.node.has_kept(known[broker_id]) else Standing.LOST

    def completed(self, partition: Partition, state: StateNode, assignment: Assignment | None = None) -> StateNode:
        """A state to be written: with the eligible leader replicas, and the brokers that it is decided for.

        Those are as this controller knows them. If one has been restarted and this controller has not seen it yet, the
        next one can tell (KIP-903). Whoever is known to have lost something is not eligible any more.
        """
        before = partition.state or state
        replicas = (assignment or partition.assignment).replicas
        lost = {each for each in replicas if self.standing(partition, each) is Standing.LOST}
        elr: tuple[int, ...] = ()
        if len(state.isr) < min(self.min_isr(partition.topic.name), len(replicas)) and not state.is_recovering:
            left = (each for each in (*before.isr, *before.elr) if each not in state.isr and each not in lost)
            elr = tuple(dict.fromkeys(each for each in left if each in replicas))
        epochs = {each: epoch for each, epoch in before.broker_epochs.items() if each in (*state.isr, *elr)}
        for each in (*state.isr, *elr):
            if self.is_online(partition.name, each) and (each == state.leader or each not in lost):
                epochs[each] = self.brokers[each].epoch
        is_led = state.leader != NO_LEADER
        last_leader = NO_LEADER if is_led else before.last_leader if before.leader == NO_LEADER else before.leader
        return state._replace(broker_epochs=epochs, elr=elr, last_leader=last_leader)

    def may_lead(self, name: Name, broker_id: int) -> bool:
        return broker_id not in self.shutting_down and self.is_online(name, broker_id)

    def forget_broker(self, broker_id: int) -> None:
        """It is gone, and with it whatever was special about it."""
        self.brokers.pop(broker_id, None)
        self.shutting_down.discard(broker_id)
        self.broken.pop(broker_id, None)

    # ------------------------------------------------------------------------------------------------ the wire

    def wire_state(self, partition: Partition, *, is_new: bool = False) -> PartitionState:
        """What brokers are told of a partition that has a state."""
        state = partition.state
        assert state is not None
        return PartitionState(
            topic=partition.topic.name,
            topic_id=partition.topic.topic_id,
            partition=partition.index,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            replicas=list(partition.replicas),
            partition_epoch=partition.version,
            controller_epoch=state.controller_epoch,
            adding_replicas=list(partition.assignment.adding),
            removing_replicas=list(partition.assignment.removing),
            offline_replicas=[each for each in partition.replicas if not self.is_online(partition.name, each)],
            is_new=is_new,
            is_recovering=state.is_recovering,
            unclean_epoch=state.unclean_epoch,
            eligible_replicas=list(state.elr),
        )

    def wire_brokers(self) -> list[LiveBroker]:
        return [each.wire for each in self.brokers.values()]
