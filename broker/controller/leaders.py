"""Changing who leads, and who is in sync: from a rule to ZooKeeper, and from there to the brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, TypeAlias

from minikafka.broker.config_watch import refresh_topics
from minikafka.broker.controller import leader_election as election
from minikafka.broker.controller import proposals
from minikafka.broker.controller.channels import Channels
from minikafka.broker.controller.state import Cluster, Name, Partition
from minikafka.broker.controller.writer import Writer
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.statistics import ControllerStatistics
from minikafka.broker.zookeeper.topic_nodes import NO_LEADER, StateNode
from minikafka.protocol.control import (
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ProposedPartition,
    RemainingPartition,
)
from minikafka.protocol.errors import (
    BrokerNotAvailableError,
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    PreferredLeaderNotAvailableError,
    StaleBrokerEpochError,
    UnknownTopicOrPartitionError,
)

log: Final = logging.getLogger(__name__)

Rule: TypeAlias = Callable[[Partition, StateNode], StateNode | None]
"""From the state of a partition to the one it should have; None if that is the same."""


class Leaders:
    """See the module's description."""

    def __init__(
        self,
        cluster: Cluster,
        writer: Writer,
        channels: Channels,
        config: LiveConfig,
        statistics: ControllerStatistics,
    ) -> None:
        self._cluster = cluster
        self._writer = writer
        self._channels = channels
        self._config = config
        self._statistics = statistics
        self._epoch = writer.held.epoch
        # Topics whose configs were read in this epoch.
        self._learned: set[str] = set()

    async def change(self, partitions: Iterable[Partition], rule: Rule) -> list[Partition]:
        """Write what a rule says, and take over what stands there where it was not as expected; all that changed."""
        changed: dict[Partition, None] = {}
        left = list(partitions)
        while left:
            changes = self._changes(left, rule)
            if await self._learn_min_isr(each.topic.name for each, new in changes if new.elr or new.is_recovering):
                changes = self._changes(left, rule)
            before = {each: each.leader for each, _ in changes}
            left = await self._writer.write_states(changes)
            changed.update(dict.fromkeys(before))
            self.count(before)
        return list(changed)

    def _changes(self, partitions: Iterable[Partition], rule: Rule) -> list[tuple[Partition, StateNode]]:
        return [
            (each, self._cluster.completed(each, new))
            for each in partitions
            if each.state is not None and (new := rule(each, each.state)) is not None
        ]

    def count(self, before: Mapping[Partition, int]) -> None:
        """Count elections, by who led the partitions before."""
        for each in [each for each, leader in before.items() if each.leader not in (leader, NO_LEADER)]:
            self._statistics.leader_elections += 1
            if each.state is not None and each.state.is_recovering:
                self._statistics.unclean_leader_elections += 1

    def tell(self, partitions: list[Partition]) -> None:
        """Replicas their roles, and everybody the rest."""
        if partitions:
            self._channels.tell_roles(partitions)
            self._channels.tell_metadata(partitions)

    # ------------------------------------------------------------------------------------------------ failures

    async def repair(self, partitions: Iterable[Partition] | None = None) -> None:
        """Give all partitions, or these, the leader and the ISR that they should have by who is alive now."""
        await self._learn_configs()
        changed = await self.change(self._cluster.partitions() if partitions is None else partitions, self._repaired)
        if changed:
            leaderless = sum(each.leader == NO_LEADER for each in changed)
            log.info("%d partitions changed, %d of them have no leader", len(changed), leaderless)
        self.tell(changed)

    async def _learn_configs(self) -> None:
        """Read whether unclean elections are allowed, where it matters: this broker may never have seen the topic."""
        at_a_loss = [
            each
            for each in self._cluster.partitions()
            if each.state is not None
            and (self._with_leader(each, each.state, unclean=False) or each.state).leader == NO_LEADER
            and any(self._cluster.is_online(each.name, replica) for replica in each.replicas)
        ]
        await self._read_configs({each.topic.name: None for each in at_a_loss})
        await self._learn_min_isr(
            each.topic.name for each in self._cluster.partitions() if each.state and each.state.elr
        )

    async def _learn_min_isr(self, topics: Iterable[str]) -> bool:
        """Read how many replicas have to be in sync, once: this broker may have been up before the topic was made.

        With too high a number, replicas would be held eligible for which the leader must not wait; changes are heard.
        False if there was nothing to be read.
        """
        new = dict.fromkeys(each for each in topics if each not in self._learned)
        await self._read_configs(new)
        self._learned.update(new)
        return bool(new)

    async def _read_configs(self, topics: Collection[str]) -> None:
        if topics:
            coord = self._writer.coord
            for complaint in await self._writer.read(lambda: refresh_topics(coord, self._config, topics)):
                log.warning("%s", complaint)

    def _with_leader(self, partition: Partition, state: StateNode, *, unclean: bool) -> StateNode | None:
        standing = partial(self._cluster.standing, partition)
        min_isr = self._cluster.min_isr(partition.topic.name)
        return election.repaired(partition.assignment, state, standing, self._epoch, unclean=unclean, min_isr=min_isr)

    def _repaired(self, partition: Partition, state: StateNode) -> StateNode | None:
        new = self._with_leader(partition, state, unclean=False)
        if new is None and self._is_outdated(partition, state):
            return election.again(state, state.leader, state.isr, self._epoch)
        if (new or state).leader != NO_LEADER:
            return new
        return self._with_leader(
            partition, state, unclean=self._config.topic(partition.topic.name).unclean_leader_election_enable
        )

    def _is_outdated(self, partition: Partition, state: StateNode) -> bool:
        """Whether other replicas are eligible, or as other brokers, while leader and ISR are as they should be."""
        if not state.elr:
            return False
        now = self._cluster.completed(partition, state)
        return (now.elr, now.broker_epochs) != (state.elr, state.broker_epochs)

    # ----------------------------------------------------------------------------------- elections on request

    async def elect(self, names: Iterable[Name] | None, *, unclean: bool) -> dict[Name, KafkaError | None]:
        """Have the first replica lead or, unclean, anybody where nobody does; of all partitions for None.

        Those that need none are left out of an answer about all.
        """
        asked = [each.name for each in self._cluster.partitions()] if names is None else list(dict.fromkeys(names))
        found = {name: self._cluster.partition(name) for name in asked}
        before = {name: None if each is None else _refusal(each, unclean=unclean) for name, each in found.items()}
        before |= {name: UnknownTopicOrPartitionError() for name, each in found.items() if each is None}
        wanted = [each for name, each in found.items() if each is not None and before[name] is None]
        self.tell(await self.change(wanted, self._uncleanly if unclean else self._preferred))
        answers = dict(before)
        for each in wanted:
            is_done = each.leader != NO_LEADER if unclean else each.leader == each.assignment.target[0]
            refusal = EligibleLeadersNotAvailableError() if unclean else PreferredLeaderNotAvailableError()
            answers[each.name] = None if is_done else refusal
        if names is None:
            return {name: each for name, each in answers.items() if not isinstance(each, ElectionNotNeededError)}
        return answers

    def _preferred(self, partition: Partition, state: StateNode) -> StateNode | None:
        may_lead = partial(self._cluster.may_lead, partition.name)
        return election.preferred(partition.assignment, state, may_lead, self._epoch)

    def _uncleanly(self, partition: Partition, state: StateNode) -> StateNode | None:
        return self._with_leader(partition, state, unclean=True)

    async def balance(self) -> None:
        """Give brokers back what they should lead, where too much of it is led by others."""
        preferred: dict[int, list[Partition]] = {}
        for each in self._cluster.partitions():
            preferred.setdefault(each.replicas[0], []).append(each)
        percentage = self._config.broker.leader_imbalance_per_broker_percentage
        for broker_id, partitions in preferred.items():
            astray = [each for each in partitions if each.leader != broker_id]
            if len(astray) * 100 > percentage * len(partitions):
                movable = [each for each in astray if not each.assignment.is_reassigned]
                changed = await self.change(movable, self._preferred)
                if changed:
                    log.info("broker %d leads %d partitions again", broker_id, len(changed))
                self.tell(changed)

    # ------------------------------------------------------------------------------------- controlled shutdown

    async def let_go(self, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        """Have a broker lead and follow nothing any more; what it still leads is in the answer."""
        broker_id = request.broker_id
        broker = self._cluster.brokers.get(broker_id)
        if broker is None:
            raise BrokerNotAvailableError
        if broker.epoch != request.broker_epoch:
            raise StaleBrokerEpochError
        log.info("broker %d is about to stop", broker_id)
        self._cluster.shutting_down.add(broker_id)

        def rule(partition: Partition, state: StateNode) -> StateNode | None:
            may_lead = partial(self._cluster.may_lead, partition.name)
            return election.without_leaving(partition.assignment, state, broker_id, may_lead, self._epoch)

        self.tell(await self.change(self._cluster.partitions_on(broker_id), rule))
        replicas = list(self._cluster.partitions_on(broker_id))
        # It is not to fetch any more, or its leaders would want it back in sync.
        self._channels.stop_replicas(broker_id, [each for each in replicas if each.leader != broker_id], delete=False)
        # Where everybody leaves there is nobody to wait for.
        has_others = bool(self._cluster.brokers.keys() - self._cluster.shutting_down)
        remaining = [
            RemainingPartition(topic=each.topic.name, partition=each.index)
            for each in replicas
            # One without other replicas stays where it is.
            if has_others and each.leader == broker_id and len(each.replicas) > 1
        ]
        return ControlledShutdownResponse(remaining=remaining)

    # ----------------------------------------------------------------------------------- proposals of leaders

    async def alter(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Change the ISR of partitions as their leader proposes."""
        broker = self._cluster.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            raise StaleBrokerEpochError
        left = {(each.topic, each.partition): each for each in request.partitions}
        if len(left) < len(request.partitions):
            raise InvalidRequestError("a partition is there twice")
        answers: list[AlteredPartition] = []
        changed: list[Partition] = []
        await self._learn_min_isr(name[0] for name, each in left.items() if self._is_smaller(each))
        while left:
            changes = self._decided(request.broker_id, left.values(), answers)
            surprises = {each.name for each in await self._writer.write_states(changes)}
            for partition, _ in changes:
                if partition.name not in surprises:
                    changed.append(partition)
                    answers.append(proposals.answer(left[partition.name], partition))
            left = {name: left[name] for name in surprises}
        if changed:
            self._channels.tell_metadata(changed)
        return AlterPartitionResponse(partitions=answers)

    def _is_smaller(self, proposed: ProposedPartition) -> bool:
        partition = self._cluster.partition((proposed.topic, proposed.partition))
        return partition is not None and partition.state is not None and len(proposed.isr) < len(partition.state.isr)

    def _decided(
        self, broker_id: int, proposed: Iterable[ProposedPartition], answers: list[AlteredPartition]
    ) -> list[tuple[Partition, StateNode]]:
        """What is to be written; what is not gets its answer at once."""
        changes = []
        for each in proposed:
            try:
                new = proposals.decide(self._cluster, broker_id, each, self._epoch)
                partition = proposals.find(self._cluster, each)
            except KafkaError as error:
                answers.append(proposals.refusal(each, error))
                continue
            if new is None:
                answers.append(proposals.answer(each, partition))
            else:
                changes.append((partition, self._cluster.completed(partition, new)))
        return changes


def _refusal(partition: Partition, *, unclean: bool) -> KafkaError | None:
    """Why there is nothing to elect."""
    if partition.topic.is_deleted:
        return InvalidTopicError("The topic is being deleted.")
    if partition.state is None:
        return UnknownTopicOrPartitionError()
    is_led = partition.leader != NO_LEADER if unclean else partition.leader == partition.assignment.target[0]
    return ElectionNotNeededError() if is_led else None
