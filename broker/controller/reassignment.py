"""Moving replicas to other brokers.

While it is under way, the replicas of a partition are the old and the new ones together, and which of them come and
which go stands in the topic's node. When all that are to stay are in sync, the leader moves to one of them if it has
to, those that go leave the ISR, and their logs are deleted.

Each step writes the replicas and a state with another leader epoch in one transaction (`Writer.write_moves`), so there
is no step half done. Older versions wrote one after the other: a controller that takes over raises the epoch of
whatever is under way once more, as Kafka's does. A broker that misses the order to delete its log, since the controller
was replaced, sets it aside when it is given its roles next.

A reassignment can be replaced by another one, or be cancelled, which is one to the replicas that there were before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from minikafka.broker.controller import leader_election as election
from minikafka.broker.controller.channels import Channels
from minikafka.broker.controller.leaders import Leaders
from minikafka.broker.controller.state import Cluster, Name, Partition, Topic
from minikafka.broker.controller.writer import WRITE_PARTITIONS_MAX, Move, Writer, chunks
from minikafka.broker.zookeeper.coord import NoNode, TooLarge
from minikafka.broker.zookeeper.topic_nodes import Assignment, StateNode
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
        for topic, mine in _by_topic(plans):
            dropped = {each: set(each.replicas) - set(mine[each].replicas) for each in mine}
            try:
                await self._move(topic, mine)
            except KafkaError as error:
                errors |= {each.name: error for each in mine if each.assignment != mine[each]}
            self._start([each for each in mine if each.name not in errors], dropped)
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

    def _start(self, partitions: list[Partition], dropped: Mapping[Partition, set[int]]) -> None:
        """Have new replicas follow, and those of an earlier plan that are not wanted any more go."""
        log.info("moving %s", {each.name: (each.assignment.adding, each.assignment.removing) for each in partitions})
        self._leaders.tell(partitions)
        for partition in partitions:
            for broker_id in partition.assignment.adding:
                self._channels.tell_roles_to(broker_id, [partition], is_new=True)
            for broker_id in dropped[partition]:
                self._channels.stop_replicas(broker_id, [partition], delete=True)

    async def resume(self) -> None:
        """After a failover: raise the epoch of what is under way, in case it has other replicas than brokers know."""
        for topic, mine in _by_topic({each: each.assignment for each in self.under_way() if each.state is not None}):
            try:
                await self._move(topic, mine)
            except KafkaError as error:
                log.warning("topic %s cannot be moved on: %s", topic.name, error)

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
        removed = {each: each.assignment.removing for each in partitions}
        for topic, mine in _by_topic({each: Assignment(each.assignment.target) for each in removed}):
            try:
                await self._move(topic, mine, self._is_ready)
            except KafkaError as error:
                # The next event looks again.
                log.warning("topic %s cannot be moved on: %s", topic.name, error)
        done = [each for each in removed if not each.assignment.is_reassigned]
        for partition in done:
            for broker_id in removed[partition]:
                self._channels.stop_replicas(broker_id, [partition], delete=True)
        log.info("moved %s", [each.name for each in done])
        self._leaders.tell(done)

    async def _move(
        self,
        topic: Topic,
        plans: Mapping[Partition, Assignment],
        may_move: Callable[[Partition], bool] = lambda _: True,
    ) -> None:
        """Give partitions of a topic other replicas and another epoch; the error to answer with if that cannot be."""
        before = {each: each.leader for each in plans}
        for some in chunks(list(plans), WRITE_PARTITIONS_MAX):
            is_done = False
            while not is_done:
                moves = [Move(each, plans[each], self._moved(each, plans[each])) for each in some if may_move(each)]
                is_done = not moves or await self._write(topic, moves)
        self._leaders.count(before)

    def _moved(self, partition: Partition, plan: Assignment) -> StateNode:
        may_lead = partial(self._cluster.may_lead, partition.name)
        if partition.state is None:
            raise UnknownTopicOrPartitionError
        state = election.moved(plan.replicas, partition.state, may_lead, self._epoch)
        if state is None:
            raise InvalidReplicaAssignmentError("No replica in sync would be left.")
        return self._cluster.completed(partition, state, plan)

    async def _write(self, topic: Topic, moves: Sequence[Move]) -> bool:
        try:
            return await self._writer.write_moves(topic, moves)
        except TooLarge as error:
            raise InvalidReplicaAssignmentError(f"ZooKeeper does not take the node of the topic: {error}") from None
        except (NoNode, BadNode) as error:
            log.error("%s", error)
            raise UnknownTopicOrPartitionError from None


def _by_topic(plans: Mapping[Partition, Assignment]) -> list[tuple[Topic, dict[Partition, Assignment]]]:
    topics: dict[Topic, dict[Partition, Assignment]] = {}
    for partition, plan in plans.items():
        topics.setdefault(partition.topic, {})[partition] = plan
    return list(topics.items())


def _check_replicas(target: Sequence[int]) -> None:
    if not target:
        raise InvalidReplicaAssignmentError("Empty replica list specified in partition reassignment.")
    if len(set(target)) < len(target):
        raise InvalidReplicaAssignmentError("Duplicate replica ids in partition reassignment replica list.")
    if min(target) < 0:
        raise InvalidReplicaAssignmentError("Invalid broker id in replica list.")
