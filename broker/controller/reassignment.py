"""Moving replicas to other brokers.

While it is under way, the replicas of a partition are the old and the new ones together, and which of them come and
which go stands in the topic's node. When all that are to stay are in sync, the leader moves to one of them if it has
to, those that go leave the ISR and are told to delete their logs, and last of all the node is written: until then it is
the only record of them, and whoever is the controller next finishes from there.

A reassignment can be replaced by another one, or be cancelled, which is one to the replicas that there were before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from minikafka.broker.controller import leader_election as election
from minikafka.broker.controller.channels import Channels
from minikafka.broker.controller.leaders import Leaders
from minikafka.broker.controller.state import Cluster, Name, Partition, Topic
from minikafka.broker.controller.writer import Writer
from minikafka.broker.zookeeper.coord import NoNode, Set, TooLarge
from minikafka.broker.zookeeper.topic_nodes import Assignment, StateNode, TopicNode, topic_path
from minikafka.broker.zookeeper.znodes import BadNode
from minikafka.protocol.errors import (
    InvalidReplicaAssignmentError,
    KafkaError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)

log: Final = logging.getLogger(__name__)


def reassigned(now: Assignment, target: Sequence[int]) -> Assignment:
    """The assignment with which moving to these replicas begins, whatever was under way before."""
    origin = origin_of(now)
    replicas = tuple(dict.fromkeys([*target, *origin]))
    return Assignment(
        replicas,
        adding=tuple(each for each in replicas if each not in origin),
        removing=tuple(each for each in replicas if each not in target),
    )


def origin_of(assignment: Assignment) -> tuple[int, ...]:
    """The replicas that there were before anything was moved."""
    return tuple(each for each in assignment.replicas if each not in assignment.adding)


class Reassignments:
    """See the module's description."""

    def __init__(self, cluster: Cluster, writer: Writer, channels: Channels, leaders: Leaders) -> None:
        self._cluster = cluster
        self._writer = writer
        self._channels = channels
        self._leaders = leaders
        self._epoch = writer.held.epoch

    def under_way(self) -> list[Partition]:
        return [each for each in self._cluster.partitions() if each.assignment.is_reassigned]

    # ----------------------------------------------------------------------------------------------- beginning

    async def begin(self, wanted: Mapping[Name, Sequence[int] | None]) -> dict[Name, KafkaError]:
        """Move partitions to these replicas, or for None back to where they were; those that cannot be."""
        errors: dict[Name, KafkaError] = {}
        plans: dict[Partition, Assignment] = {}
        for name, target in wanted.items():
            try:
                partition = self._find(name)
                plans[partition] = self._planned(partition, target)
            except KafkaError as error:
                errors[name] = error
        for topic in {each.topic: None for each in plans}:
            mine = {each: plan for each, plan in plans.items() if each.topic is topic}
            dropped = {each: set(each.replicas) - set(plan.replicas) for each, plan in mine.items()}
            try:
                if not await self._write(topic, mine):
                    raise UnknownTopicOrPartitionError
            except KafkaError as error:
                errors |= {each.name: error for each in mine}
            else:
                await self._start(mine, dropped)
        await self.go_on()
        return errors

    def _find(self, name: Name) -> Partition:
        partition = self._cluster.partition(name)
        if partition is None or partition.topic.is_deleted or partition.state is None:
            raise UnknownTopicOrPartitionError("The partition does not exist.")
        return partition

    def _planned(self, partition: Partition, target: Sequence[int] | None) -> Assignment:
        if target is None:
            if not partition.assignment.is_reassigned:
                raise NoReassignmentInProgressError
            target = origin_of(partition.assignment)
        _check_replicas(target)
        plan = reassigned(partition.assignment, target)
        if any(not self._cluster.may_lead(partition.name, each) for each in plan.adding):
            raise InvalidReplicaAssignmentError("Replica assignment has brokers that are not alive.")
        assert partition.state is not None
        if not set(partition.state.isr) & set(plan.replicas):
            raise InvalidReplicaAssignmentError("No replica in sync would be left.")
        return plan

    async def _start(self, plans: Mapping[Partition, Assignment], dropped: Mapping[Partition, set[int]]) -> None:
        """Tell new replicas to follow, and those of an earlier plan that are not wanted any more to go."""
        log.info("moving %s", {each.name: (plan.adding, plan.removing) for each, plan in plans.items()})

        def rule(partition: Partition, state: StateNode) -> StateNode | None:
            # Always with a new epoch, so that the leader hears of the new replicas before it proposes anything.
            may_lead = partial(self._cluster.may_lead, partition.name)
            return election.moved(partition.assignment.replicas, state, may_lead, self._epoch)

        await self._leaders.change(plans, rule)
        self._leaders.tell(list(plans))
        for partition in plans:
            for broker_id in partition.assignment.adding:
                self._channels.tell_roles_to(broker_id, [partition], is_new=True)
        for partition, broker_ids in dropped.items():
            for broker_id in broker_ids:
                self._channels.stop_replicas(broker_id, [partition], delete=True)

    # ----------------------------------------------------------------------------------------------- finishing

    async def go_on(self) -> None:
        """Finish those of which all replicas that are to stay are in sync."""
        ready = [each for each in self.under_way() if self._is_ready(each)]
        if ready:
            await self._finish(ready)

    def _is_ready(self, partition: Partition) -> bool:
        state, target = partition.state, partition.assignment.target
        if state is None or not set(target) <= set(state.isr):
            return False
        return any(self._cluster.may_lead(partition.name, each) for each in target)

    async def _finish(self, partitions: Iterable[Partition]) -> None:
        def rule(partition: Partition, state: StateNode) -> StateNode | None:
            if not self._is_ready(partition):
                return None
            may_lead = partial(self._cluster.may_lead, partition.name)
            return election.moved(partition.assignment.target, state, may_lead, self._epoch)

        ready = list(partitions)
        await self._leaders.change(ready, rule)
        # Unless somebody else has written, and it has to be looked at again.
        done = [each for each in ready if each.state is not None and set(each.state.isr) <= set(each.assignment.target)]
        removed = {each: each.assignment.removing for each in done}
        for partition, broker_ids in removed.items():
            for broker_id in broker_ids:
                self._channels.stop_replicas(broker_id, [partition], delete=True)
        for topic in {each.topic: None for each in done}:
            mine = [each for each in done if each.topic is topic]
            await self._write(topic, {each: Assignment(each.assignment.target) for each in mine})
        log.info("moved %s", [each.name for each in done])
        self._leaders.tell(done)

    async def _write(self, topic: Topic, plans: Mapping[Partition, Assignment]) -> bool:
        """Write assignments to the topic's node, and take them over; False if the topic is gone, or makes no sense."""
        indexes = {each.index: plan for each, plan in plans.items()}
        while True:
            node = TopicNode(topic.topic_id, {**topic.node.partitions, **indexes})
            try:
                is_done = await self._writer.write(Set(topic_path(topic.name), node.encode(), topic.version))
            except TooLarge as error:
                raise InvalidReplicaAssignmentError(f"ZooKeeper does not take the node of the topic: {error}") from None
            if is_done:
                topic.version += 1
            else:
                there = await self._read(topic)
                if there is None:
                    return False
                # Perhaps it was written and we were not told, perhaps somebody has added partitions.
                is_done = there == node
            if is_done:
                for partition, plan in plans.items():
                    partition.assignment = plan
                return True

    async def _read(self, topic: Topic) -> TopicNode | None:
        """What stands in the topic's node; what is new in it is taken over."""
        path = topic_path(topic.name)
        try:
            data, stat = await self._writer.read(lambda: self._writer.coord.get(path))
            node = TopicNode.decode(path, data)
        except NoNode:
            return None
        except BadNode as error:
            log.error("%s", error)
            return None
        if node.topic_id != topic.topic_id:
            return None
        self._cluster.put_topic(topic.name, node, stat.version)
        return node


def _check_replicas(target: Sequence[int]) -> None:
    if not target:
        raise InvalidReplicaAssignmentError("Empty replica list specified in partition reassignment.")
    if len(set(target)) < len(target):
        raise InvalidReplicaAssignmentError("Duplicate replica ids in partition reassignment replica list.")
    if min(target) < 0:
        raise InvalidReplicaAssignmentError("Invalid broker id in replica list.")
