"""The parts of a consumer put together: who is told of what, which tasks run, and in which order all of it ends.

cluster ----> positions ----> fetcher ----> delivery ----> the program
                  ^                                            |
group:  member, heartbeats, rebalance ----> assigned <---------+  seek, pause ...
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Iterable
from random import Random
from typing import Any, Final

from minikafka.client.clock import Clock
from minikafka.client.cluster import Cluster
from minikafka.client.consumer.assigned import Assigned
from minikafka.client.consumer.broker_fetch import BrokerFetch
from minikafka.client.consumer.commits import Commits
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.delivery import Delivery
from minikafka.client.consumer.errors import CommitFailed
from minikafka.client.consumer.fetcher import Fetcher
from minikafka.client.consumer.heartbeats import Heartbeats
from minikafka.client.consumer.member import Member
from minikafka.client.consumer.membership import Event
from minikafka.client.consumer.offsets import TOPIC_WAIT_MS
from minikafka.client.consumer.partition import PartitionState, Reading
from minikafka.client.consumer.positions import Positions
from minikafka.client.consumer.rebalance import Rebalance
from minikafka.client.consumer.records import load_column_tools
from minikafka.client.consumer.subscription import Kind, Subscription
from minikafka.client.errors import ClientClosed, ClientError
from minikafka.client.metadata import Metadata
from minikafka.client.serializers import find_deserializer
from minikafka.client.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import KafkaError, RebalanceInProgressError
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse

log: Final = logging.getLogger(__name__)


class Group:
    """What a consumer with a `group_id` has in addition."""

    def __init__(self, core: Core, group_id: str) -> None:
        cluster, config = core.cluster, core.config
        self._group_id = group_id
        self._subscription = core.subscription
        self.commits = Commits(cluster, config, lambda: self.identity)
        self.rebalance = Rebalance(config, core.subscription, core.assigned, core.delivery, self.commits)
        self.member = Member(cluster, config, core.subscription, self.rebalance, core.delivery.fail)
        self.heartbeats = Heartbeats(cluster, config, self.member, core.delivery)

    @property
    def identity(self) -> ConsumerGroupMetadata:
        """Who commits. Partitions that the program has chosen itself are committed by nobody in particular."""
        is_member = self._subscription.is_automatic
        return self.member.metadata if is_member else ConsumerGroupMetadata(self._group_id)


class Core:
    """See the module's description."""

    def __init__(
        self, config: ConsumerConfig, subscription: Subscription, clock: Clock | None = None, rng: Random | None = None
    ) -> None:
        self.config = config
        self.subscription = subscription
        self.cluster = Cluster(config, clock=clock, rng=rng)
        self.delivery = Delivery(self._was_read)
        self.positions = Positions(self.cluster, config, self._position_changed)
        self.fetcher = Fetcher(self.cluster, config, self.delivery, self.positions, self._spawn_fetch)
        reading = Reading(
            config.check_crcs, find_deserializer(config.key_deserializer), find_deserializer(config.value_deserializer)
        )
        self.assigned = Assigned(self.cluster, reading, self.delivery, self.positions, self.fetcher)
        self.group = Group(self, config.group_id) if config.group_id is not None else None
        self.cluster.on_metadata(self._metadata_changed)
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: list[asyncio.Task[None]] = []
        self._is_closing = False

    def _was_read(self, state: PartitionState, read_bytes: int) -> None:
        self.fetcher.was_read(state, read_bytes)

    def _position_changed(self, state: PartitionState, freed_bytes: int) -> None:
        self.delivery.release(state)
        self.fetcher.freed(freed_bytes)
        self.assigned.touch(state)

    # ------------------------------------------------------------------------------------------------- tasks

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A task whose failure is the program's to know, in its next call."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _spawn_fetch(self, broker: BrokerFetch) -> asyncio.Task[None]:
        return self.spawn(broker.run(), f"fetch from broker {broker.node_id}")

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None or self._is_closing:
            return
        if isinstance(error, KafkaError):
            self.delivery.fail(error)
            return
        log.error("%s failed", task.get_name(), exc_info=error)
        failure = ClientError(f"{task.get_name()} failed: {error!r}")
        failure.__cause__ = error
        self.delivery.fail(failure)

    # --------------------------------------------------------------------------------------------- beginning

    async def start(self) -> None:
        await self.cluster.start()
        await asyncio.to_thread(load_column_tools)
        if self.subscription.kind is Kind.TOPICS:
            await self._wait_topics(self.subscription.topics)
        self.spawn(self.positions.run(self.group.commits.fetch if self.group is not None else None), "find positions")
        if self.group is not None:
            self.delivery.on_poll = self.group.heartbeats.polled
            self.spawn(self.group.member.run(), "group member")
            self.spawn(self.group.heartbeats.run(), "heartbeats")
            if self.config.enable_auto_commit:
                self.spawn(self.group.commits.run(self._finished), "auto-commit")
        self.apply_subscription()

    async def _wait_topics(self, topics: Iterable[str]) -> None:
        await self.cluster.wait_metadata(topics, timeout_ms=min(TOPIC_WAIT_MS, self.config.default_api_timeout_ms))

    def _finished(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.assigned.offsets(None, finished=True)

    async def list_topics(self) -> frozenset[str]:
        """All topics of the cluster, whatever is subscribed."""
        answer: MetadataResponse = await self.cluster.request_any(MetadataRequest(topics=None))
        return frozenset(topic.name for topic in answer.topics if topic.name is not None and not topic.error_code)

    # ------------------------------------------------------------------------------------------ subscriptions

    def apply_subscription(self) -> None:
        """Act upon what the program wants to read, after it has changed."""
        subscription = self.subscription
        self.cluster.want_all_topics(subscription.kind is Kind.PATTERN)
        if subscription.kind is Kind.PARTITIONS:
            self._assign(subscription.partitions)
        elif subscription.kind is Kind.TOPICS:
            missing = [topic for topic in subscription.topics if self.cluster.partitions(topic) is None]
            self.cluster.want_topics(subscription.topics)
            if missing:
                self.spawn(self._look_for(missing), "look for topics")
        elif subscription.kind is Kind.NONE:
            self._assign(())
            self._leave_soon()
        if subscription.is_automatic:
            subscription.match(self.cluster.metadata, self.config.exclude_internal_topics)
            if self.group is not None:
                self.group.member.on(Event.SUBSCRIBED)
            else:
                self._assign_all()

    def _leave_soon(self) -> None:
        member = self.group.member if self.group is not None else None
        member_id = member.step_out(Event.UNSUBSCRIBED) if member is not None else None
        if member is not None and member_id is not None:
            self._leaving.append(self.spawn(member.tell_left(member_id), "leave the group"))

    async def _look_for(self, topics: Collection[str]) -> None:
        """Tell the program of topics that do not exist; it may go on with the others."""
        try:
            await self._wait_topics(topics)
        except ClientClosed:
            return
        except KafkaError as error:
            if {*topics} & self.subscription.topics:
                self.delivery.notify(error)

    def _assign(self, partitions: Collection[TopicPartition]) -> None:
        self.cluster.want_topics({tp.topic for tp in partitions})
        self.assigned.remove(self.assigned.partitions - {*partitions})
        self.assigned.add(partitions)

    def _assign_all(self) -> None:
        """Without a group, all partitions of the topics are ours."""
        topics = {topic: self.cluster.partitions(topic) or () for topic in self.subscription.topics}
        self._assign([TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers])

    def _metadata_changed(self, metadata: Metadata) -> None:
        if self.subscription.is_automatic:
            self.subscription.match(metadata, self.config.exclude_internal_topics)
            if self.group is not None:
                self.group.member.look_at_topics()
            else:
                self._assign_all()
        self.fetcher.touch_all()

    # ------------------------------------------------------------------------------------------------ commits

    async def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit, waiting for the end of a rebalance that is under way if the partitions may stay ours."""
        group = self.group
        assert group is not None
        try:
            await group.commits.commit(offsets)
        except RebalanceInProgressError as error:
            group.member.take_error(error)
            if not await self._outlast_rebalance(group.member) or not offsets.keys() <= self.assigned.partitions:
                raise CommitFailed("the group is giving the partitions to others") from error
            await group.commits.commit(offsets)

    async def _outlast_rebalance(self, member: Member) -> bool:
        """Wait for the next generation; False if it does not come, or waits for whoever asks, such as a listener."""
        if not member.is_between_generations:
            return False
        try:
            async with asyncio.timeout(self.config.default_api_timeout_ms / 1000):
                await member.wait_settled()
        except TimeoutError:
            return False
        return True

    # -------------------------------------------------------------------------------------------------- end

    async def close(self, *, commit_in_hand: bool) -> None:
        """End everything: last commit, leaving the group, tasks, connections. In this order, and none is skipped."""
        try:
            if self.group is not None and self.config.enable_auto_commit:
                await self._commit_last(self.group, commit_in_hand)
            await asyncio.gather(*self._leaving, return_exceptions=True)
        finally:
            self._is_closing = True
            self.delivery.fail(ClientClosed("the consumer is closed"))
            await self._end_tasks()
            try:
                await self._leave_group()
                await self.fetcher.end_sessions()
            finally:
                await self.cluster.close()

    async def _commit_last(self, group: Group, commit_in_hand: bool) -> None:
        try:
            offsets = self.assigned.offsets(None, finished=not commit_in_hand)
            await group.commits.commit(offsets, timeout_ms=self.config.session_timeout_ms)
        except KafkaError as error:
            log.warning("offsets were not committed when closing: %s", error)

    async def _leave_group(self) -> None:
        member = self.group.member if self.group is not None else None
        member_id = member.step_out(Event.UNSUBSCRIBED) if member is not None else None
        if member is not None and member_id is not None:
            await member.tell_left(member_id)

    async def _end_tasks(self) -> None:
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
