"""`commit`: in the generation of the records that were handed out, or not at all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from minikafka.client.consumer.assigned import Assigned
from minikafka.client.consumer.commits import Commits
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.delivery import Delivery
from minikafka.client.consumer.errors import CommitFailed
from minikafka.client.consumer.member import Member
from minikafka.client.consumer.membership import State
from minikafka.client.consumer.partition import PartitionState
from minikafka.client.structs import OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import KafkaError, RebalanceInProgressError, UnknownTopicOrPartitionError

log: Final = logging.getLogger(__name__)


class ProgramCommits:
    """What a program's `commit` does. Automatic commits are of no interest to the program, and go by themselves."""

    def __init__(
        self, config: ConsumerConfig, assigned: Assigned, delivery: Delivery, commits: Commits, member: Member
    ) -> None:
        self._config = config
        self._assigned = assigned
        self._delivery = delivery
        self._commits = commits
        self._member = member

    async def commit(self, given: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        """Commit these offsets, or the positions of all partitions."""
        handed_out = self._delivery.handed_out
        if taken := handed_out.take_revoked(None if given is None else given.keys()):
            raise CommitFailed(f"the group has taken {_names(taken)} away since its records were handed out")
        offsets = self._assigned.offsets(None, finished=False, with_deleted=True) if given is None else given
        states = [self._state(tp) for tp in offsets]
        covered = handed_out.begin_commit(each for each in states if offsets[each.tp].offset >= each.position.offset)
        # What is handed out from now on is not part of it.
        self._delivery.stop_short()
        generation = self._member.metadata
        try:
            gone = await self._commit(offsets, states)
        except BaseException as error:
            for state in covered:
                handed_out.open(state)
                if not self._assigned.holds(state):
                    handed_out.revoke(state, generation)
            if isinstance(error, CommitFailed):
                handed_out.take_revoked(offsets.keys())
            raise
        if gone and given is not None:
            raise UnknownTopicOrPartitionError(f"{_names(gone)} was not committed: the topic was deleted")
        if gone:
            log.info("%s was not committed: the topic was deleted", _names(gone))

    def _state(self, tp: TopicPartition) -> PartitionState:
        if tp not in self._assigned and self._delivery.handed_out.was_taken_away(tp):
            raise CommitFailed(f"the group has taken {_names([tp])} away")
        return self._assigned.get(tp)

    async def _commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], states: list[PartitionState]
    ) -> list[TopicPartition]:
        """One attempt in each generation, as long as the partitions are kept from one to the next."""
        while True:
            generation = self._member.metadata.generation_id
            try:
                return await self._commits.commit(offsets)
            except RebalanceInProgressError as error:
                # Between two generations this is no news, and no reason for a third.
                if self._member.membership.state is State.STABLE:
                    self._member.take_error(error)
                failure: KafkaError = error
                is_over = await self._outlast_rebalance()
            except CommitFailed as error:
                failure = error
                await self._outlast_rebalance()
                is_over = self._member.metadata.generation_id != generation
            if not is_over or not all(map(self._assigned.holds, states)):
                raise CommitFailed("the group has given the partitions to others, or is doing so") from failure

    async def _outlast_rebalance(self) -> bool:
        """Wait for the next generation; False if it does not come, or waits for whoever asks, such as a listener."""
        if not self._member.is_between_generations:
            return False
        try:
            async with asyncio.timeout(self._config.default_api_timeout_ms / 1000):
                await self._member.wait_for_others()
        except TimeoutError:
            return False
        return True


def _names(partitions: list[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in partitions)
