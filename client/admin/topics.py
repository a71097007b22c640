"""Topics: create, delete, list, describe, add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from minikafka.client.admin.asking import verdict
from minikafka.client.admin.calls import Calls
from minikafka.client.admin.results import Results
from minikafka.protocol.errors import KafkaError, LeaderNotAvailableError
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from minikafka.protocol.schema import ZERO_UUID


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. Counts of -1 leave the choice to the broker; an assignment takes the place of both."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The brokers of each partition, the preferred leader first."""
    topic_configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as it was made. Older brokers tell nothing of it: then counts are -1, and there are no configs."""

    name: str
    topic_id: bytes
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """How many partitions a topic is to have, and, if wanted, on which brokers the new ones are."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition; `leader` is None while there is none."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error: KafkaError | None = None

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and its partitions, in their order."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)


class TopicCalls(Calls):
    """See the module's description."""

    async def create_topics(
        self,
        new_topics: Iterable[NewTopic],
        *,
        timeout_ms: int | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> Results[str, CreatedTopic]:
        """Create topics, or only see whether they could be created; they can be used when this returns."""
        asker, wait_ms = self._ask, self._wait_ms(timeout_ms)
        wanted = {topic.name: topic for topic in new_topics}

        async def ask(node_id: int, names: list[str]) -> Mapping[str, CreatedTopic | KafkaError]:
            request = CreateTopicsRequest(
                topics=[_creatable(wanted[name]) for name in names], timeout_ms=wait_ms, validate_only=validate_only
            )
            answer: CreateTopicsResponse = await asker.request(node_id, request, wait_ms=wait_ms)
            return {each.name: verdict(each.error_code, each.error_message) or _created(each) for each in answer.topics}

        results = await asker.settle(wanted, asker.at_controller, ask, repeatable=validate_only)
        return results.checked(raise_errors)

    async def delete_topics(
        self, topics: Iterable[str], *, timeout_ms: int | None = None, raise_errors: bool = True
    ) -> Results[str, None]:
        """Delete topics with all that is in them; they are gone when this returns."""
        asker, wait_ms = self._ask, self._wait_ms(timeout_ms)

        async def ask(node_id: int, names: list[str]) -> Mapping[str, KafkaError | None]:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names],
                topic_names=names,
                timeout_ms=wait_ms,
            )
            answer: DeleteTopicsResponse = await asker.request(node_id, request, wait_ms=wait_ms)
            return {each.name or "": verdict(each.error_code, each.error_message) for each in answer.responses}

        results: Results[str, None] = await asker.settle(topics, asker.at_controller, ask, repeatable=False)
        return results.checked(raise_errors)

    async def list_topics(self) -> list[str]:
        """The names of all topics, internal ones too."""
        return sorted(await self._describe(None))

    async def describe_topics(
        self, topics: Iterable[str] | None = None, *, raise_errors: bool = True
    ) -> Results[str, TopicDescription]:
        """Topics with their partitions, leaders and replicas; all there are if none are named."""
        names = None if topics is None else [*dict.fromkeys(topics)]
        found = await self._describe(names)
        outcomes = {
            name: verdict(found[name].error_code) or _described(found[name])
            if name in found
            else LeaderNotAvailableError("the broker did not tell")
            for name in (sorted(found) if names is None else names)
        }
        return Results(outcomes).checked(raise_errors)

    async def _describe(self, names: list[str] | None) -> dict[str, MetadataResponseTopic]:
        request = MetadataRequest(
            topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )
        answer: MetadataResponse = await self._ask.ask_informed(request)
        return {each.name: each for each in answer.topics if each.name is not None}

    async def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions | int],
        *,
        timeout_ms: int | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Let topics have more partitions. Keys then go to other partitions than before."""
        asker, wait_ms = self._ask, self._wait_ms(timeout_ms)

        async def ask(node_id: int, names: list[str]) -> Mapping[str, KafkaError | None]:
            request = CreatePartitionsRequest(
                topics=[_growing(name, topic_partitions[name]) for name in names],
                timeout_ms=wait_ms,
                validate_only=validate_only,
            )
            answer: CreatePartitionsResponse = await asker.request(node_id, request, wait_ms=wait_ms)
            return {each.name: verdict(each.error_code, each.error_message) for each in answer.results}

        results: Results[str, None] = await asker.settle(
            topic_partitions, asker.at_controller, ask, repeatable=validate_only
        )
        return results.checked(raise_errors)


def _creatable(topic: NewTopic) -> CreatableTopic:
    assigned = topic.replica_assignments
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assigned else topic.num_partitions,
        replication_factor=-1 if assigned else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=[*brokers])
            for index, brokers in assigned.items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.topic_configs.items()],
    )


def _created(answer: CreatableTopicResult) -> CreatedTopic:
    configs = {each.name: each.value for each in answer.configs or ()}
    return CreatedTopic(answer.name, answer.topic_id, answer.num_partitions, answer.replication_factor, configs)


def _growing(name: str, wanted: NewPartitions | int) -> CreatePartitionsTopic:
    new = NewPartitions(wanted) if isinstance(wanted, int) else wanted
    assignments = None
    if new.new_assignments is not None:
        assignments = [CreatePartitionsAssignment(broker_ids=[*brokers]) for brokers in new.new_assignments]
    return CreatePartitionsTopic(name=name, count=new.total_count, assignments=assignments)


def _described(answer: MetadataResponseTopic) -> TopicDescription:
    partitions = sorted(map(_partition, answer.partitions), key=lambda each: each.partition)
    return TopicDescription(answer.name or "", answer.topic_id, answer.is_internal, tuple(partitions))


def _partition(answer: MetadataResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        answer.partition_index,
        answer.leader_id if answer.leader_id >= 0 else None,
        answer.leader_epoch,
        tuple(answer.replica_nodes),
        tuple(answer.isr_nodes),
        tuple(answer.offline_replicas),
        verdict(answer.error_code),
    )
