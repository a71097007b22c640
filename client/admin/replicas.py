"""Where replicas are: log directories, reassignments, elections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from minikafka.client.admin.asking import by_topic, raise_for, verdict
from minikafka.client.admin.calls import Calls
from minikafka.client.admin.results import Results
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import ElectionNotNeededError, KafkaError
from minikafka.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopic,
    ReassignablePartition,
    ReassignableTopic,
)


class ElectionType(IntEnum):
    """PREFERRED: the first replica, if it is in sync. UNCLEAN: any, even if records are lost by that."""

    PREFERRED = 0
    UNCLEAN = 1


class Replica(NamedTuple):
    """One replica of a partition."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker}"


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    """What a log directory has of a partition. `is_future`: it is being moved here from another directory."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory of a broker; one that has failed has an error and no replicas."""

    path: str
    error: KafkaError | None
    replicas: Mapping[TopicPartition, LogDirReplica]
    total_bytes: int | None
    usable_bytes: int | None


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment under way: all replicas, those to come and those to go."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(each for each in self.replicas if each not in self.removing_replicas)


class ReplicaCalls(Calls):
    """See the module's description."""

    async def describe_log_dirs(
        self,
        broker_ids: Collection[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        raise_errors: bool = True,
    ) -> Results[int, tuple[LogDirDescription, ...]]:
        """The log directories of brokers, with the sizes of what is in them."""
        asker = self._ask
        topics = None
        if partitions is not None:
            wanted = by_topic(partitions)
            topics = [DescribableLogDirTopic(topic=topic, partitions=each) for topic, each in wanted.items()]

        async def ask(node_id: int, _: list[int]) -> Mapping[int, tuple[LogDirDescription, ...] | KafkaError]:
            answer: DescribeLogDirsResponse = await asker.request(node_id, DescribeLogDirsRequest(topics=topics))
            return {node_id: verdict(answer.error_code) or tuple(map(_log_dir, answer.results))}

        nodes = (await asker.cluster.refresh()).brokers if broker_ids is None else broker_ids
        return (await asker.settle(nodes, asker.at_themselves, ask)).checked(raise_errors)

    async def alter_replica_log_dirs(
        self, log_dirs: Mapping[Replica, str], *, raise_errors: bool = True
    ) -> Results[Replica, None]:
        """Move replicas to other log directories of their brokers, or say where they go if they come later."""
        asker = self._ask

        async def locate(replicas: Collection[Replica]) -> Mapping[Replica, int | KafkaError]:
            places = await asker.at_themselves({each.broker for each in replicas})
            return {each: places[each.broker] for each in replicas}

        async def ask(node_id: int, replicas: list[Replica]) -> Mapping[Replica, KafkaError | None]:
            by_path: dict[str, list[TopicPartition]] = {}
            for each in replicas:
                by_path.setdefault(log_dirs[each], []).append(TopicPartition(each.topic, each.partition))
            dirs = [
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=name, partitions=ids) for name, ids in by_topic(inside).items()
                    ],
                )
                for path, inside in by_path.items()
            ]
            answer: AlterReplicaLogDirsResponse = await asker.request(node_id, AlterReplicaLogDirsRequest(dirs=dirs))
            return {
                Replica(topic.topic_name, each.partition_index, node_id): verdict(each.error_code)
                for topic in answer.results
                for each in topic.partitions
            }

        results: Results[Replica, None] = await asker.settle(log_dirs, locate, ask)
        return results.checked(raise_errors)

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Move partitions to other brokers, the preferred leader first; None gives a move up. It goes on afterwards."""
        asker, wait_ms = self._ask, self._wait_ms(timeout_ms)
        wanted = {TopicPartition(*tp): replicas for tp, replicas in reassignments.items()}

        async def ask(node_id: int, asked: list[TopicPartition]) -> Mapping[TopicPartition, KafkaError | None]:
            topics: dict[str, list[ReassignablePartition]] = {}
            for tp in asked:
                replicas = wanted[tp]
                topics.setdefault(tp.topic, []).append(
                    ReassignablePartition(
                        partition_index=tp.partition, replicas=None if replicas is None else [*replicas]
                    )
                )
            request = AlterPartitionReassignmentsRequest(
                timeout_ms=wait_ms,
                topics=[ReassignableTopic(name=name, partitions=each) for name, each in topics.items()],
            )
            answer: AlterPartitionReassignmentsResponse = await asker.request(node_id, request, wait_ms=wait_ms)
            raise_for(answer.error_code, answer.error_message)
            return {
                TopicPartition(topic.name, each.partition_index): verdict(each.error_code, each.error_message)
                for topic in answer.responses
                for each in topic.partitions
            }

        results: Results[TopicPartition, None] = await asker.settle(wanted, asker.at_controller, ask)
        return results.checked(raise_errors)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The reassignments that are under way, of some partitions or all."""
        asker, wait_ms = self._ask, self._wait_ms(timeout_ms)
        topics = None
        if partitions is not None:
            wanted = by_topic(partitions)
            topics = [ListPartitionReassignmentsTopic(name=name, partition_indexes=ids) for name, ids in wanted.items()]
        request = ListPartitionReassignmentsRequest(timeout_ms=wait_ms, topics=topics)

        async def ask(node_id: int) -> dict[TopicPartition, Reassignment]:
            answer: ListPartitionReassignmentsResponse = await asker.request(node_id, request, wait_ms=wait_ms)
            raise_for(answer.error_code, answer.error_message)
            return {
                TopicPartition(topic.name, each.partition_index): Reassignment(
                    tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
                )
                for topic in answer.topics
                for each in topic.partitions
            }

        return await asker.ask_controller(ask)

    async def elect_leaders(
        self,
        election_type: ElectionType = ElectionType.PREFERRED,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, bool]:
        """Let partitions (or all) have other leaders: whether each has one now; False if it needed none."""
        asker, wait_ms = self._ask, self._wait_ms(timeout_ms)
        topics = None
        if partitions is not None:
            wanted = by_topic(partitions)
            topics = [ElectLeadersTopic(topic=name, partitions=indexes) for name, indexes in wanted.items()]
        request = ElectLeadersRequest(election_type=election_type, topic_partitions=topics, timeout_ms=wait_ms)
        # Version 0 knows of preferred elections only.
        lowest = 0 if election_type == ElectionType.PREFERRED else 1

        async def ask(node_id: int) -> Results[TopicPartition, bool]:
            limit_ms = wait_ms + asker.cluster.config.request_timeout_ms
            answer: ElectLeadersResponse = await asker.cluster.request(
                node_id, request, min_version=lowest, timeout_ms=limit_ms
            )
            raise_for(answer.error_code)
            return Results(
                {
                    TopicPartition(topic.topic, each.partition_id): _elected(each.error_code, each.error_message)
                    for topic in answer.replica_election_results
                    for each in topic.partition_result
                }
            )

        return (await asker.ask_controller(ask)).checked(raise_errors)


def _elected(code: int, message: str | None) -> bool | KafkaError:
    error = verdict(code, message)
    if isinstance(error, ElectionNotNeededError):
        return False
    return error or True


def _log_dir(answer: DescribeLogDirsResult) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, each.partition_index): LogDirReplica(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in answer.topics
        for each in topic.partitions
    }
    return LogDirDescription(
        answer.log_dir,
        verdict(answer.error_code),
        replicas,
        answer.total_bytes if answer.total_bytes >= 0 else None,
        answer.usable_bytes if answer.usable_bytes >= 0 else None,
    )
