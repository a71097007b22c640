"""Committed offsets: telling them to the group's coordinator, and asking for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from minikafka.client.cluster import Cluster, CoordinatorKind
from minikafka.client.consumer.assignors.base import by_topic
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.errors import CommitFailed
from minikafka.client.coordinators import LEFT_BEHIND
from minikafka.client.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import (
    CoordinatorNotAvailableError,
    ErrorCode,
    KafkaError,
    NetworkError,
    NotCoordinatorError,
    RebalanceInProgressError,
    RequestTimedOutError,
    error_for,
)
from minikafka.protocol.message import Request
from minikafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from minikafka.protocol.schema import ZERO_UUID

log: Final = logging.getLogger(__name__)

# After these another broker may be the coordinator.
COORDINATOR_ERRORS: Final = (NotCoordinatorError, CoordinatorNotAvailableError, NetworkError, RequestTimedOutError)


class Commits:
    """Commits of one group. `identity` tells in which generation the consumer is, or that it takes no part in any."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig, identity: Callable[[], ConsumerGroupMetadata]) -> None:
        assert config.group_id is not None
        self.commits = 0
        self._cluster = cluster
        self._config = config
        self._group_id = config.group_id
        self._identity = identity

    async def ask(self, request: Request) -> object:
        """One question to the coordinator; what it raises may mean that another broker is the coordinator now."""
        node_id = await self._cluster.coordinator(CoordinatorKind.GROUP, self._group_id)
        try:
            answer: object = await self._cluster.request(node_id, request, min_version=1)
        except KafkaError as error:
            self._notice(error)
            raise
        return answer

    def _notice(self, error: KafkaError) -> None:
        if isinstance(error, COORDINATOR_ERRORS):
            self._cluster.invalidate_coordinator(CoordinatorKind.GROUP, self._group_id)

    # ------------------------------------------------------------------------------------------------ commit

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout_ms: int | None = None,
        who: ConsumerGroupMetadata | None = None,
    ) -> list[TopicPartition]:
        """Commit, trying again while that can help. CommitFailed if the partitions are not ours any more.

        RebalanceInProgressError if the group is just between two generations. Partitions whose topic was deleted
        meanwhile keep the others from nothing; they are returned."""
        if not offsets:
            return []
        # Of one generation for all attempts: in the next one the partitions may be somebody else's.
        who = self._identity() if who is None else who
        left, gone = dict(offsets), list[TopicPartition]()
        ids = {tp.topic: self._cluster.topic_id(tp.topic) for tp in offsets}

        async def attempt() -> None:
            # What is done need not be done again.
            errors = await self._commit(left, who)
            gone.extend(tp for tp in errors if self._is_gone(tp.topic, ids[tp.topic]))
            for tp in [*left]:
                if tp not in errors or tp in gone:
                    del left[tp]
            if left:
                raise min((errors[tp] for tp in left), key=lambda error: error.retriable)

        try:
            await self._cluster.retry(attempt, timeout_ms=timeout_ms)
        except LEFT_BEHIND as error:
            raise CommitFailed(f"the group has gone on without this member: {error}") from error
        self.commits += 1
        return gone

    def _is_gone(self, topic: str, topic_id: bytes) -> bool:
        """Whether a topic was deleted, as far as is known by now: coordinators may hear of a new topic later."""
        found = self._cluster.metadata.topics.get(topic)
        if found is None:
            return False
        is_other = topic_id != found.topic_id and ZERO_UUID not in (topic_id, found.topic_id)
        return is_other or found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def _commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], who: ConsumerGroupMetadata
    ) -> dict[TopicPartition, KafkaError]:
        """Ask once; the errors of partitions that were not committed."""
        topics = [
            OffsetCommitRequestTopic(name=topic, partitions=[_partition(offsets, topic, n) for n in numbers])
            for topic, numbers in by_topic(offsets).items()
        ]
        request = OffsetCommitRequest(
            group_id=who.group_id,
            generation_id_or_member_epoch=who.generation_id,
            member_id=who.member_id,
            group_instance_id=who.group_instance_id,
            topics=topics,
        )
        answer = await self.ask(request)
        assert isinstance(answer, OffsetCommitResponse)
        errors = {
            TopicPartition(topic.name, each.partition_index): error_for(
                each.error_code, f"{topic.name}-{each.partition_index} was not committed"
            )
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code
        }
        for error in errors.values():
            self._notice(error)
        return errors

    # ----------------------------------------------------------------------------------------------- fetched

    async def fetch(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """What is committed; partitions without a committed offset are left out."""
        if not partitions:
            return {}
        return await self._cluster.retry(lambda: self._fetch(partitions))

    async def _fetch(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        topics = by_topic(partitions).items()
        old = [OffsetFetchRequestTopic(name=topic, partition_indexes=numbers) for topic, numbers in topics]
        new = [OffsetFetchRequestGroupTopic(name=topic, partition_indexes=numbers) for topic, numbers in topics]
        # Both forms in one: versions up to 7 have one group, later ones the list.
        request = OffsetFetchRequest(
            group_id=self._group_id,
            topics=old,
            groups=[OffsetFetchRequestGroup(group_id=self._group_id, topics=new)],
            # The member that had the partitions before may have offsets in a transaction that is still to be committed.
            require_stable=True,
        )
        answer = await self.ask(request)
        assert isinstance(answer, OffsetFetchResponse)
        return self._read(answer)

    def _read(self, answer: OffsetFetchResponse) -> dict[TopicPartition, OffsetAndMetadata]:
        group = answer.groups[0] if answer.groups else answer
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        self._raise(group.error_code)
        for topic in group.topics:
            for each in topic.partitions:
                self._raise(each.error_code)
                if each.committed_offset >= 0:
                    committed = OffsetAndMetadata(
                        each.committed_offset, each.metadata or "", each.committed_leader_epoch
                    )
                    found[TopicPartition(topic.name, each.partition_index)] = committed
        return found

    def _raise(self, code: int) -> None:
        if code:
            error = error_for(code, f"committed offsets of group {self._group_id!r}")
            self._notice(error)
            raise error

    # ------------------------------------------------------------------------------------------- by the clock

    async def run(self, offsets: Callable[[], Mapping[TopicPartition, OffsetAndMetadata]]) -> None:
        """Commit every now and then what has changed, until cancelled."""
        last: dict[TopicPartition, OffsetAndMetadata] = {}
        while True:
            await asyncio.sleep(self._config.auto_commit_interval_ms / 1000)
            now = offsets()
            changed = {tp: offset for tp, offset in now.items() if last.get(tp) != offset}
            try:
                await self.commit(changed, timeout_ms=self._config.auto_commit_interval_ms)
                last = dict(now)
            except (CommitFailed, RebalanceInProgressError) as error:
                # Whoever gets the partitions begins at what was committed before.
                log.info("offsets were not committed: %s", error)
            except KafkaError as error:
                log.warning("offsets were not committed: %s", error)


def _partition(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], topic: str, number: int
) -> OffsetCommitRequestPartition:
    committed = offsets[TopicPartition(topic, number)]
    return OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )
