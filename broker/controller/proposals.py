"""What leaders propose about their ISR, and whether it may be: pure rules.

The order of the checks is Kafka's, and it matters. A leader that is ahead of the controller is told that this is not
the controller. What holds already is no error, even if the proposal was made before: the answer to it may have been
lost. Only then is it compared with the state it was made for.

A replica may be in the ISR only as the broker that the leader has seen: one that has restarted since may have lost its
last records.
"""

from __future__ import annotations

from minikafka.broker.controller.state import Cluster, Partition
from minikafka.broker.zookeeper.topic_nodes import StateNode
from minikafka.protocol.control import AlteredPartition, ProposedPartition
from minikafka.protocol.errors import (
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    KafkaError,
    NotControllerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)


def decide(cluster: Cluster, broker_id: int, proposed: ProposedPartition, controller_epoch: int) -> StateNode | None:
    """The state to write, None if it holds already; the error to answer with if it may not be."""
    partition = find(cluster, proposed)
    state = partition.state
    if state is None:
        raise UnknownTopicOrPartitionError
    if proposed.leader_epoch > state.leader_epoch:
        raise NotControllerError
    if proposed.leader_epoch < state.leader_epoch:
        raise FencedLeaderEpochError
    if broker_id != state.leader:
        raise InvalidRequestError(f"broker {broker_id} does not lead this partition")
    isr = tuple(each.broker_id for each in proposed.isr)
    wanted = state._replace(isr=isr, controller_epoch=controller_epoch, is_recovering=proposed.is_recovering)
    if _is_same(wanted, state) and proposed.partition_epoch <= partition.version:
        return None
    if proposed.partition_epoch > partition.version:
        raise NotControllerError
    if proposed.partition_epoch < partition.version:
        raise InvalidUpdateVersionError
    _check_isr(cluster, partition, wanted, proposed)
    return wanted


def find(cluster: Cluster, proposed: ProposedPartition) -> Partition:
    topic = cluster.topics.get(proposed.topic)
    if topic is None or topic.is_deleted or proposed.partition not in topic.partitions:
        raise UnknownTopicOrPartitionError
    if topic.topic_id != proposed.topic_id:
        raise UnknownTopicIdError
    return topic.partitions[proposed.partition]


def _is_same(wanted: StateNode, state: StateNode) -> bool:
    return set(wanted.isr) == set(state.isr) and wanted.is_recovering == state.is_recovering


def _check_isr(cluster: Cluster, partition: Partition, wanted: StateNode, proposed: ProposedPartition) -> None:
    state = partition.state
    assert state is not None
    if len(set(wanted.isr)) < len(wanted.isr) or wanted.leader not in wanted.isr:
        raise InvalidRequestError("an ISR has its leader in it, and nobody twice")
    if not set(wanted.isr) <= set(partition.replicas):
        raise InvalidRequestError("an ISR has replicas of the partition in it only")
    if wanted.is_recovering and (len(wanted.isr) > 1 or not state.is_recovering):
        raise InvalidRequestError("a leader that recovers is alone in the ISR, and was elected so")
    for member in proposed.isr:
        broker = cluster.brokers.get(member.broker_id)
        may_join = member.broker_id in state.isr or cluster.may_lead(partition.name, member.broker_id)
        if broker is None or broker.epoch != member.broker_epoch or not may_join:
            raise IneligibleReplicaError(f"broker {member.broker_id} is gone, leaving, or was restarted")


def answer(proposed: ProposedPartition, partition: Partition) -> AlteredPartition:
    """What holds now."""
    state = partition.state
    assert state is not None
    return AlteredPartition(
        topic=proposed.topic,
        partition=proposed.partition,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=partition.version,
        is_recovering=state.is_recovering,
        eligible_replicas=list(state.elr),
    )


def refusal(proposed: ProposedPartition, error: KafkaError) -> AlteredPartition:
    return AlteredPartition(topic=proposed.topic, partition=proposed.partition, error_code=int(error.code))
