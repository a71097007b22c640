"""What groups have committed: list, alter, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from minikafka.client.admin.asking import by_topic, raise_for, verdict
from minikafka.client.admin.calls import Calls
from minikafka.client.admin.results import Results
from minikafka.client.cluster import CoordinatorKind
from minikafka.client.structs import OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import KafkaError, UnknownServerError
from minikafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

V = TypeVar("V")

_NOTHING_COMMITTED = -1


class GroupOffsetCalls(Calls):
    """See the module's description."""

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed; partitions for which it has committed nothing are left out."""
        topics = None if partitions is None else by_topic(partitions)
        if topics == {}:
            return {}

        async def ask(node_id: int) -> dict[TopicPartition, OffsetAndMetadata]:
            request = _offset_fetch(group_id, topics, require_stable)
            answer: OffsetFetchResponse = await self._ask.request(node_id, request)
            return _committed(answer)

        return await self._ask_coordinator(group_id, ask)

    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Let a group go on from other offsets; it must not have members, or it would not notice."""
        whole = {
            TopicPartition(*tp): OffsetAndMetadata(given) if isinstance(given, int) else given
            for tp, given in offsets.items()
        }

        async def ask(node_id: int) -> dict[TopicPartition, KafkaError | None]:
            answer: OffsetCommitResponse = await self._ask.request(node_id, _offset_commit(group_id, whole))
            answers = {
                TopicPartition(topic.name, each.partition_index): verdict(each.error_code)
                for topic in answer.topics
                for each in topic.partitions
            }
            # The coordinator answers for all alike if it is none.
            for error in answers.values():
                if error is not None and error.retriable and len({*map(type, answers.values())}) == 1:
                    raise error
            return answers

        return _all_of(whole, await self._ask_coordinator(group_id, ask)).checked(raise_errors)

    async def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, raise_errors: bool = True
    ) -> Results[TopicPartition, None]:
        """Forget what a group has committed for partitions of topics that it does not read at the moment."""
        wanted = [TopicPartition(*each) for each in partitions]
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
                )
                for topic, indexes in by_topic(wanted).items()
            ],
        )

        async def ask(node_id: int) -> dict[TopicPartition, KafkaError | None]:
            answer: OffsetDeleteResponse = await self._ask.request(node_id, request)
            raise_for(answer.error_code)
            return {
                TopicPartition(topic.name, each.partition_index): verdict(each.error_code)
                for topic in answer.topics
                for each in topic.partitions
            }

        return _all_of(wanted, await self._ask_coordinator(group_id, ask)).checked(raise_errors)

    async def _ask_coordinator(self, group_id: str, ask: Callable[[int], Awaitable[V]]) -> V:
        """The coordinator's answer to a request about one group."""
        asker = self._ask

        async def ask_about(node_id: int, _: list[str]) -> Mapping[str, V | KafkaError]:
            try:
                return {group_id: await ask(node_id)}
            except KafkaError as error:
                asker.forget_coordinators(CoordinatorKind.GROUP, {group_id: error})
                raise

        results = await asker.settle([group_id], asker.at_coordinators(CoordinatorKind.GROUP), ask_about)
        return results.checked(True)[group_id]


def _all_of(
    wanted: Iterable[TopicPartition], answers: Mapping[TopicPartition, KafkaError | None]
) -> Results[TopicPartition, None]:
    unanswered = UnknownServerError("the broker did not answer about it")
    return Results({tp: answers.get(tp, unanswered) for tp in wanted})


def _offset_fetch(group_id: str, topics: dict[str, list[int]] | None, require_stable: bool) -> OffsetFetchRequest:
    # Both forms in one: versions up to 7 have a single group, later ones the list.
    single = several = None
    if topics is not None:
        single = [OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in topics.items()]
        several = [OffsetFetchRequestGroupTopic(name=name, partition_indexes=each) for name, each in topics.items()]
    return OffsetFetchRequest(
        group_id=group_id,
        topics=single,
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=several)],
        require_stable=require_stable,
    )


def _committed(answer: OffsetFetchResponse) -> dict[TopicPartition, OffsetAndMetadata]:
    group = answer.groups[0] if answer.groups else answer
    raise_for(group.error_code)
    found = {}
    for topic in group.topics:
        for each in topic.partitions:
            raise_for(each.error_code, f"{topic.name}-{each.partition_index}")
            if each.committed_offset != _NOTHING_COMMITTED:
                found[TopicPartition(topic.name, each.partition_index)] = OffsetAndMetadata(
                    each.committed_offset, each.metadata or "", each.committed_leader_epoch
                )
    return dict(sorted(found.items()))


def _offset_commit(group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offsets[TopicPartition(topic, index)].offset,
                        committed_leader_epoch=offsets[TopicPartition(topic, index)].leader_epoch,
                        committed_metadata=offsets[TopicPartition(topic, index)].metadata,
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )
