"""The parts of a consumer put together: who is told of what, which tasks run, and in which order all of it ends.

cluster ----> positions ----> fetcher ----> delivery ----> the program
                  ^                                            |
group:  member, heartbeats, rebalance ----> assigned <---------+  seek, pause ...
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Iterable, Mapping
from contextlib import suppress
from random import Random
from typing import Any, Final

from minikafka.client.clock import Clock
from minikafka.client.cluster import Cluster
from minikafka.client.consumer.assigned import Assigned
from minikafka.client.consumer.broker_fetch import BrokerFetch
from minikafka.client.consumer.commits import Commits
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.delivery import Delivery
from minikafka.client.consumer.fetcher import Fetcher
from minikafka.client.consumer.heartbeats import Heartbeats
from minikafka.client.consumer.member import Member
from minikafka.client.consumer.membership import Event
from minikafka.client.consumer.offsets import TOPIC_WAIT_MS
from minikafka.client.consumer.partition import PartitionState, Reading
from minikafka.client.consumer.positions import Positions
from minikafka.client.consumer.program_commits import ProgramCommits
from minikafka.client.consumer.rebalance import Rebalance
from minikafka.client.consumer.records import load_column_tools
from minikafka.client.consumer.subscription import Kind, Subscription
from minikafka.client.consumer.topic_watch import TopicWatch
from minikafka.client.errors import ClientClosed, ClientError
from minikafka.client.metadata import Metadata
from minikafka.client.serializers import find_deserializer
from minikafka.client.shared import see_through
from minikafka.client.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.protocol.schema import ZERO_UUID

log: Final = logging.getLogger(__name__)

_PATIENCE_S: Final = 5.0
"""How long a cluster that does not answer is waited for at the end."""

_VANISHED_MS: Final = 60_000
"""For how long a topic that a pattern has matched and that was deleted is looked for."""

_HASTE_S: Final = 1.0
"""The same where the program has no time. Leaving the group is tried for as long in any case."""


class Group:
    """What a consumer with a `group_id` has in addition."""

    def __init__(self, core: Core, group_id: str) -> None:
        cluster, config = core.cluster, core.config
        self._group_id = group_id
        self._subscription = core.subscription
        self.commits = Commits(cluster, config, lambda: self.identity)
        self.rebalance = Rebalance(config, core.subscription, core.assigned, core.delivery, self.commits)
        self.member = Member(cluster, config, core.subscription, self.rebalance, core.delivery.fail)
        self.rebalance.generation = lambda: self.member.metadata
        self.heartbeats = Heartbeats(cluster, config, self.member, core.delivery)
        self.program = ProgramCommits(config, core.assigned, core.delivery, self.commits, self.member)

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
        self.delivery = Delivery(self._was_read, self.cluster.clock)
        self.positions = Positions(self.cluster, config, self._position_changed)
        self.fetcher = Fetcher(self.cluster, config, self.delivery, self.positions, self._spawn_fetch)
        reading = Reading(
            config.check_crcs,
            find_deserializer(config.key_deserializer),
            find_deserializer(config.value_deserializer),
            config.max_record_bytes,
        )
        self.assigned = Assigned(reading, self.delivery, self.positions, self.fetcher, self.cluster)
        self.group = Group(self, config.group_id) if config.group_id is not None else None
        self.cluster.on_metadata(self._metadata_changed)
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._leaving: list[asyncio.Task[None]] = []
        self._watch = TopicWatch()
        self._answers_without_topic = 0
        self._vanished: dict[str, int] = {}
        self._look_again_timer: asyncio.TimerHandle | None = None
        self._goodbye: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._are_tasks_ended = False

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
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _spawn_fetch(self, broker: BrokerFetch) -> None:
        """Only until `_end_tasks`, as nothing would end it then: the timer of a retry or new metadata may still name a
        broker that was not fetched from before."""
        if not self._are_tasks_ended:
            self.spawn(broker.run(), f"fetch from broker {broker.node_id}")

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is None or self.is_closing:
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
        if self.is_closing:
            raise ClientClosed("the consumer was closed while it was started")
        self.spawn(self.positions.run(self.group.commits.fetch if self.group is not None else None), "find positions")
        if self.group is not None:
            self.delivery.on_poll = self.group.heartbeats.polled
            self.spawn(self.group.member.run(), "group member")
            self.spawn(self.group.heartbeats.run(), "heartbeats")
            if self.config.enable_auto_commit:
                self.spawn(self.group.commits.run(self._finished), "auto-commit")
        self.apply_subscription()

    async def _wait_topics(self, topics: Iterable[str]) -> None:
        await self.cluster.wait_metadata(
            topics, timeout_ms=min(TOPIC_WAIT_MS, self.config.default_api_timeout_ms), keep=False
        )

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
        self._claim_topics()
        if subscription.kind is Kind.PARTITIONS:
            self._assign(subscription.partitions)
        elif subscription.kind is Kind.TOPICS:
            missing = [topic for topic in subscription.topics if self.cluster.partitions(topic) is None]
            if missing:
                self.spawn(self._look_for(missing), "look for topics")
        elif subscription.kind is Kind.NONE:
            self._assign(())
        if subscription.is_automatic:
            subscription.match(self.cluster.metadata, self.config.exclude_internal_topics)
            if self.group is not None:
                self.group.member.on(Event.SUBSCRIBED)
            else:
                self._look_at_topics(self.cluster.metadata)
        self._claim_topics()

    def _claim_topics(self) -> None:
        """Whatever is to be read, and what is still to be given up."""
        assigned = {tp.topic for tp in self.assigned.partitions}
        self.cluster.claim_topics("subscription", self.subscription.named_topics | assigned)

    def part(self) -> None:
        """Leave the group, before the program's subscription ends. What is left to say is said by a task: the program
        may subscribe anew meanwhile, and is another member then."""
        group = self.group
        if group is None or self.subscription.kind is Kind.NONE:
            return
        offsets = self.assigned.offsets(None, finished=False) if self.config.enable_auto_commit else {}
        who, listener = group.identity, self.subscription.listener
        if self.config.enable_auto_commit:
            self.delivery.handed_out.settle(self.assigned)
        partitions = sorted(self.assigned.partitions) if self.subscription.is_automatic else []
        member_id = group.member.step_out(Event.UNSUBSCRIBED)
        if self.subscription.is_automatic:
            self.assigned.remove(partitions, group.member.metadata)

        async def say_goodbye() -> None:
            await self._commit_last(group, offsets, who)
            await group.rebalance.tell(listener, "on_partitions_revoked", partitions)
            if member_id is not None:
                await group.member.tell_left(member_id)

        self._leaving.append(self.spawn(say_goodbye(), "leave the group"))

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
        self.assigned.remove(self.assigned.partitions - {*partitions})
        self.assigned.add(partitions)

    def _metadata_changed(self, metadata: Metadata) -> None:
        is_automatic = self.subscription.is_automatic
        before = self.subscription.topics
        self._claim_topics()
        if is_automatic:
            self.subscription.match(metadata, self.config.exclude_internal_topics)
        self._follow_ids(metadata)
        if is_automatic and self.group is not None:
            self.group.member.look_at_topics()
        else:
            self._look_at_topics(metadata)
        self._look_again(metadata, before - self.subscription.topics)
        self.fetcher.touch_all()

    # ------------------------------------------------------------------------------------------------- topics

    def _follow_ids(self, metadata: Metadata) -> None:
        """Go on with topics that were deleted and created again as with new ones, however they came to be read."""
        for state in self.assigned:
            topic = metadata.topics.get(state.tp.topic)
            if topic is None or topic.error_code or topic.topic_id in (state.topic_id, ZERO_UUID):
                continue
            if state.topic_id == ZERO_UUID:
                state.topic_id = topic.topic_id
                continue
            log.warning("topic %s was deleted and created again: reading the new one", topic.name)
            is_member = self.group is not None and self.subscription.is_automatic
            generation = self.group.member.metadata if self.group is not None and is_member else None
            self.assigned.renew(state, topic.topic_id, generation)

    def _look_again(self, metadata: Metadata, vanished: Collection[str]) -> None:
        """Ask for topics that are away until they are back; for those of a pattern, which nobody has named, only for a
        while."""
        now_ms = self.cluster.clock.monotonic_ms()
        topics = metadata.topics
        self._vanished.update(dict.fromkeys(vanished, now_ms))
        self._vanished = {
            topic: since_ms
            for topic, since_ms in self._vanished.items()
            if now_ms - since_ms < _VANISHED_MS and topic not in self.subscription.topics
        }
        is_away = bool(self._vanished) or any(
            topic not in topics or topics[topic].error_code for topic in self.cluster.claimed_topics
        )
        self._answers_without_topic = self._answers_without_topic + 1 if is_away else 0
        if self._look_again_timer is not None:
            self._look_again_timer.cancel()
        if is_away:
            delay_s = self.cluster.backoff.delay_s(self._answers_without_topic)
            loop = asyncio.get_running_loop()
            self._look_again_timer = loop.call_later(delay_s, self.cluster.refresh_soon)

    def _look_at_topics(self, metadata: Metadata) -> None:
        """Nobody else looks after the topics: have the assignment follow them, and tell of those that are gone."""
        pattern = self.subscription.pattern
        read = {tp.topic for tp in self.assigned.partitions}
        if self.subscription.is_automatic:
            kept = {topic for topic in read if pattern is not None and pattern.match(topic)}
            seen = self._watch.look(metadata, self.subscription.topics | kept, self.cluster.clock.monotonic_ms())
            self._assign_all(seen.away)
        else:
            seen = self._watch.look(metadata, read, self.cluster.clock.monotonic_ms())
        # A pattern says nothing about which topics there should be.
        for error in seen.gone.values() if pattern is None else ():
            self.delivery.notify(error)

    def _assign_all(self, away: Collection[str]) -> None:
        """All partitions of the topics are ours, and those of topics that are away for the moment stay it."""
        topics = self.subscription.topics
        kept = [
            tp
            for tp in self.assigned.partitions
            if tp.topic in away and not (self._watch.is_gone(tp.topic) and tp.topic not in topics)
        ]
        found = {topic: self.cluster.partitions(topic) or () for topic in topics}
        self._assign(
            [*kept, *(TopicPartition(topic, number) for topic, numbers in found.items() for number in numbers)]
        )

    # -------------------------------------------------------------------------------------------------- end

    @property
    def is_closing(self) -> bool:
        return self._ending is not None

    async def close(self, *, commit_in_hand: bool, in_haste: bool = False) -> None:
        """End everything: last commit, the listener, leaving the group, tasks, connections. In this order, and the last
        two are never skipped. In haste, or if whoever closes is cancelled, the cluster gets no more than a moment."""
        if self._ending is None or self._goodbye is None:
            limit_s = _HASTE_S if in_haste else _PATIENCE_S
            # Nothing is handed out any more, so what is committed now stays right.
            self.delivery.fail(ClientClosed("the consumer is closed"))
            if commit_in_hand:
                # Or whatever else commits until the end would go back behind it.
                self.delivery.take_as_done()
            self._goodbye = asyncio.create_task(self._say_goodbye(commit_in_hand, limit_s), name="say goodbye")
            self._ending = asyncio.create_task(self._end(self._goodbye, limit_s), name="close the consumer")
        await see_through(self._ending, self._goodbye.cancel)

    async def _say_goodbye(self, commit_in_hand: bool, limit_s: float) -> None:
        group = self.group
        if group is None:
            return
        offsets = self.assigned.offsets(None, finished=not commit_in_hand) if self.config.enable_auto_commit else {}
        await self._commit_last(group, offsets, group.identity, limit_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                if self.subscription.is_automatic:
                    await group.rebalance.end()
                await asyncio.gather(*self._leaving, return_exceptions=True)

    async def _end(self, goodbye: asyncio.Task[None], limit_s: float) -> None:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + limit_s
        await asyncio.wait([goodbye])
        left_s = 0.0 if goodbye.cancelled() else deadline_s - loop.time()
        try:
            await self._end_tasks()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(left_s, _HASTE_S)):
                    await asyncio.gather(self._leave_group(), self.fetcher.end_sessions())
        finally:
            await self.cluster.close()
        if not goodbye.cancelled():
            goodbye.result()

    async def _commit_last(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        who: ConsumerGroupMetadata,
        limit_s: float = _PATIENCE_S,
    ) -> None:
        try:
            await group.commits.commit(offsets, timeout_ms=int(limit_s * 1000), who=who)
        except KafkaError as error:
            log.warning("offsets were not committed at the end: %s", error)

    async def _leave_group(self) -> None:
        member = self.group.member if self.group is not None else None
        member_id = member.step_out(Event.UNSUBSCRIBED) if member is not None else None
        if member is not None and member_id is not None:
            await member.tell_left(member_id)

    async def _end_tasks(self) -> None:
        self._are_tasks_ended = True
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
