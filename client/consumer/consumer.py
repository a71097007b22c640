"""The consumer as its users see it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from random import Random
from typing import Self, Unpack

from minikafka.client.clock import Clock
from minikafka.client.consumer.calls import OffsetCalls
from minikafka.client.consumer.config import ConsumerConfig, ConsumerOptions
from minikafka.client.consumer.core import Core
from minikafka.client.consumer.metrics import ConsumerMetrics
from minikafka.client.consumer.rebalance import is_told
from minikafka.client.consumer.records import ConsumerBatch, ConsumerRecord
from minikafka.client.consumer.subscription import ConsumerRebalanceListener, Kind, Subscription
from minikafka.client.errors import ClientClosed, ConfigError, IllegalState
from minikafka.client.structs import TopicPartition


class Consumer(OffsetCalls):
    """Reads records.

        async with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
            async for record in consumer:
                print(record.key, record.value)

    Records come one by one (`async for`, `getone`), many at a time (`getmany`), or as columns of one partition
    (`getbatch`), which is by far the fastest. Options are those of `ConsumerConfig`; `Consumer.from_config` takes
    Kafka's dotted names. Fetching ahead, heartbeats, rebalances and automatic commits are done by tasks of the
    consumer: there is nothing to poll. Whatever is wrong is a `KafkaError` from the next call. One call at a time may
    wait for records.
    """

    def __init__(
        self,
        *topics: str,
        config: ConsumerConfig | None = None,
        clock: Clock | None = None,
        rng: Random | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        if config is not None and options:
            raise ConfigError("a config and options beside it")
        self.config = ConsumerConfig.from_options(options) if config is None else config
        self._clock, self._rng = clock, rng
        self._subscription = Subscription()
        self._core: Core | None = None
        self._starting: Core | None = None
        self._start_lock = asyncio.Lock()
        self._is_closed = False
        if topics:
            self._subscription.subscribe(topics, None, None)

    @classmethod
    def from_config(cls, config: Mapping[str, object], *topics: str) -> Self:
        """A consumer by Kafka's own names: `Consumer.from_config({"bootstrap.servers": "..."}, "orders")`."""
        return cls(*topics, config=ConsumerConfig.from_config(config))

    # ------------------------------------------------------------------------------------------ its life

    async def start(self) -> None:
        """Find the cluster and the topics, and begin to join the group and to fetch."""
        async with self._start_lock:
            if self._is_closed:
                raise ClientClosed("a consumer that was closed cannot be started again")
            if self._core is not None:
                return
            core = self._starting = Core(self.config, self._subscription, self._clock, self._rng)
            try:
                await core.start()
            except BaseException:
                await core.close(commit_in_hand=False, in_haste=True)
                raise
            finally:
                self._starting = None
            self._core = core

    async def stop(self) -> None:
        """Commit what was read (if commits are automatic), leave the group, and close. May be called twice.

        A cluster that does not answer is not waited for longer than a few seconds."""
        await self._stop(commit_in_hand=True, in_haste=False)

    @property
    def is_closed(self) -> bool:
        """Whether it was stopped, or is being stopped."""
        return self._is_closed

    async def _stop(self, *, commit_in_hand: bool, in_haste: bool) -> None:
        core = self._core or self._starting
        if core is not None and is_told():
            raise IllegalState("a rebalance listener cannot close its consumer")
        self._is_closed = True
        if core is not None:
            try:
                await core.close(commit_in_hand=commit_in_hand, in_haste=in_haste)
            finally:
                # Not before: a listener that is told of the end may still commit.
                if core.is_closing:
                    self._core = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, *exc_info: object) -> None:
        # What was in hand when something failed may not have been done, and is to be read again. Who is cancelled or
        # interrupted does not want to wait.
        is_interrupted = exc_type is not None and not issubclass(exc_type, Exception)
        await self._stop(commit_in_hand=exc_type is None, in_haste=is_interrupted)

    # ------------------------------------------------------------------------------------- what is to be read

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Read topics, or all topics whose names match a pattern from their beginning; replaces what was subscribed.

        In a group the partitions are divided among its members; without one they are all read here."""
        self._subscription.subscribe(topics, pattern, listener)
        if self._core is not None:
            self._core.apply_subscription()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, whatever others do; replaces what was assigned. IllegalState after `subscribe`."""
        self._subscription.assign(partitions)
        if self._core is not None:
            self._core.apply_subscription()

    def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group. What was read is committed, if commits are automatic."""
        if self._core is not None:
            self._core.part()
        self._subscription.clear()
        if self._core is not None:
            self._core.apply_subscription()

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed; with a pattern, those that match it."""
        return self._subscription.topics

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        if self._core is not None:
            return self._core.assigned.partitions
        return self._subscription.partitions if self._subscription.kind is Kind.PARTITIONS else frozenset()

    async def topics(self) -> set[str]:
        """All topics of the cluster that this client may see."""
        return {*await self._require_core().list_topics()}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partitions of a topic; None if the topic is not known here."""
        numbers = self._require_core().cluster.partitions(topic)
        return None if numbers is None else {*numbers}

    # ----------------------------------------------------------------------------------------------- reading

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """The next record, of these partitions or of any; waits for it."""
        core = self._require_core()
        if not partitions:
            delivery = core.delivery
            for record in delivery.left:
                return record
            for record in delivery.more():
                return record
        found = await core.delivery.next_record(_only(partitions), None)
        assert found is not None
        return found

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """What has been fetched, in order, by partition; waits until the time is over if there is nothing."""
        core = self._require_core()
        limit = self._limit(max_records)
        return await core.delivery.many_records(_only(partitions), timeout_ms / 1000, limit)

    async def getbatch(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> ConsumerBatch | None:
        """What has been fetched of one partition, as columns; None if there is nothing until the time is over."""
        core = self._require_core()
        limit = self._limit(max_records)
        return await core.delivery.batch(_only(partitions), timeout_ms / 1000, limit)

    def _limit(self, max_records: int | None) -> int | None:
        limit = self.config.max_poll_records if max_records is None else max_records
        if limit is not None and limit < 1:
            raise ValueError(f"max_records must be 1 or more, not {limit}")
        return limit

    def __aiter__(self) -> Self:
        self._require_core()
        return self

    async def __anext__(self) -> ConsumerRecord:
        # Short, since it is done for each record.
        if self._core is not None:
            for record in self._core.delivery.left:
                return record
            for record in self._core.delivery.more():
                return record
        return await self._next_of_loop()

    async def _next_of_loop(self) -> ConsumerRecord:
        if self._core is None:
            if self._is_closed:
                raise StopAsyncIteration
            raise ClientClosed("the consumer was not started")
        delivery = self._core.delivery
        timeout_ms = self.config.consumer_timeout_ms
        try:
            found = await delivery.next_record((), None if timeout_ms is None else timeout_ms / 1000)
        except ClientClosed:
            # Stopping the consumer is how another task ends the loop.
            found = None
        if found is None:
            raise StopAsyncIteration
        return found

    # ----------------------------------------------------------------------------------------------- watching

    def metrics(self) -> ConsumerMetrics:
        """What was done so far and where it stands."""
        core = self._require_core()
        group = core.group
        return ConsumerMetrics(
            records_read=core.delivery.records_read,
            bytes_fetched=core.fetcher.bytes_fetched,
            fetch_requests=core.fetcher.requests,
            commits=group.commits.commits if group is not None else 0,
            rebalances=group.rebalance.count if group is not None else 0,
            buffered_bytes=core.fetcher.memory.used_bytes,
            assigned_partitions=len(core.assigned.partitions),
            lag={state.tp: self.lag(state.tp) for state in core.assigned},
        )

    def __repr__(self) -> str:
        what = self._subscription.pattern or ", ".join(sorted(self._subscription.topics)) or "partitions"
        return f"<Consumer of {what} in group {self.config.group_id}>"


def _only(partitions: tuple[TopicPartition, ...]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(*each) for each in partitions)
