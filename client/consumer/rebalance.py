"""What a member does with its partitions when the group rebalances: giving up, taking over, telling the program.

With an eager assignor everything is given up before joining, with a cooperative one only what the assignment takes
away, after which the group meets again to give it to somebody else. Before a partition is given up

1. nothing more of it is handed out,
2. the program gets time to come back from what it has in hand: half of the time for which the group waits for a member
   (`revocation_wait_ms`), as with the callbacks and max.poll.interval.ms of Kafka's consumer,
3. what it has finished is committed, if commits are automatic,
4. the program is told, and may commit by itself.

So in a rebalance in which nobody crashes or takes long, no record is read twice.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextvars import ContextVar
from typing import Final

from minikafka.client.consumer.assigned import Assigned
from minikafka.client.consumer.commits import Commits
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.delivery import Delivery
from minikafka.client.consumer.membership import NO_GENERATION
from minikafka.client.consumer.partition import PartitionState
from minikafka.client.consumer.subscription import ConsumerRebalanceListener, Subscription
from minikafka.client.structs import ConsumerGroupMetadata, TopicPartition
from minikafka.protocol.errors import KafkaError

log: Final = logging.getLogger(__name__)


class _Call:
    """A listener that is being called."""

    is_over = False


_call_of_listener: Final[ContextVar[_Call | None]] = ContextVar("call of a rebalance listener", default=None)


def is_told() -> bool:
    """Whether whoever asks is a listener that is being called, or was set to work by one: what waits for the listener
    must not be waited for."""
    call = _call_of_listener.get()
    return call is not None and not call.is_over


class Rebalance:
    """See the module's description."""

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        assigned: Assigned,
        delivery: Delivery,
        commits: Commits,
    ) -> None:
        self.count = 0
        self.owned: tuple[TopicPartition, ...] = ()
        """What the last assignment was, also after it was given up; sticky assignors would like to keep it."""
        self.owned_generation = NO_GENERATION
        self._config = config
        self._subscription = subscription
        self._assigned = assigned
        self._delivery = delivery
        self._commits = commits
        self.generation: Callable[[], ConsumerGroupMetadata] = lambda: ConsumerGroupMetadata("")
        """Tells in which generation the member is, or was until it lost its place."""
        # One thing at a time is done with the partitions and said to the listener.
        self._turn = asyncio.Lock()
        self._is_over = False
        # All support it, or it is not used.
        self.is_cooperative = all(assignor.is_cooperative for assignor in config.assignors)

    async def prepare(self) -> None:
        """Before joining: give up what has to be."""
        if self.is_cooperative:
            topics = self._subscription.topics
            await self.give_up(tp for tp in self._assigned.partitions if tp.topic not in topics)
            self.owned = tuple(sorted(self._assigned.partitions))
        else:
            await self.give_up(self._assigned.partitions)

    async def complete(
        self, partitions: Collection[TopicPartition], generation_id: int, is_current: Callable[[], bool]
    ) -> bool:
        """Take over an assignment; whether something was given up for it, so that the group has to meet again."""
        self.count += 1
        gone = [tp for tp in self._assigned.partitions if tp not in partitions]
        await self.give_up(gone)
        async with self._turn:
            if self._is_over or not is_current():
                return False
            new = [tp for tp in partitions if tp not in self._assigned]
            self.owned, self.owned_generation = tuple(sorted(partitions)), generation_id
            self._assigned.add(new, is_held=True)
            try:
                await self._tell("on_partitions_assigned", new, even_none=not self.is_cooperative)
            finally:
                self._assigned.let_go()
        return bool(gone)

    async def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        async with self._turn:
            leaving = sorted(tp for tp in partitions if tp in self._assigned)
            if leaving:
                await self._give_up(leaving)

    async def _give_up(self, leaving: list[TopicPartition]) -> None:
        held = self._assigned.hold(leaving)
        try:
            async with asyncio.timeout(self._config.revocation_wait_ms / 1000):
                await self._delivery.wait_nothing_in_hand(held)
        except TimeoutError:
            log.warning("the program is still busy with records of %s, which go to others", leaving)
        if self._config.enable_auto_commit:
            await self._commit_finished(held)
        await self._tell("on_partitions_revoked", leaving)
        self._assigned.remove(leaving, self.generation())

    @property
    def has_partitions(self) -> bool:
        return bool(self._assigned.partitions)

    def hurry(self) -> None:
        """The member has lost its place: there is nothing to wait for any more."""
        self._delivery.hurry()

    async def lose(self) -> None:
        """The group has gone on without this member: what it had may be somebody else's."""
        async with self._turn:
            lost = sorted(self._assigned.partitions)
            self.owned, self.owned_generation = (), NO_GENERATION
            if lost:
                self._assigned.remove(lost, self.generation())
                await self._tell("on_partitions_lost", lost)

    async def end(self) -> None:
        """The consumer is closed, and has committed: tell the program, which may commit too. Nothing comes after."""
        async with self._turn:
            self._is_over = True
            leaving = sorted(self._assigned.partitions)
            await self._tell("on_partitions_revoked", leaving)
            self._assigned.remove(leaving, self.generation())

    async def tell(
        self, listener: ConsumerRebalanceListener | None, what: str, partitions: list[TopicPartition]
    ) -> None:
        """Call a listener that is none any more."""
        async with self._turn:
            await _call(listener, what, partitions)

    async def _commit_finished(self, states: list[PartitionState]) -> None:
        done = [state for state in states if not self._delivery.has_in_hand([state])]
        try:
            offsets = self._assigned.offsets([state.tp for state in states], finished=True)
            await self._commits.commit(offsets, timeout_ms=self._config.rebalance_wait_ms // 4)
            self._delivery.handed_out.settle(done)
        except KafkaError as error:
            log.warning("offsets were not committed before a rebalance: %s", error)

    async def _tell(self, what: str, partitions: list[TopicPartition], even_none: bool = False) -> None:
        await _call(self._subscription.listener, what, partitions, even_none)


async def _call(
    listener: ConsumerRebalanceListener | None, what: str, partitions: list[TopicPartition], even_none: bool = False
) -> None:
    """Call the program's listener; what it raises is logged, since the group must go on."""
    if listener is None or not (partitions or even_none):
        return
    # Listeners written for aiokafka do not know of lost partitions.
    told: Callable[[list[TopicPartition]], Awaitable[None] | None] = (
        getattr(listener, what, None) or listener.on_partitions_revoked
    )
    call = _Call()
    token = _call_of_listener.set(call)
    try:
        answer = told(partitions)
        if inspect.isawaitable(answer):
            await answer
    except Exception:
        log.exception("the rebalance listener failed in %s", what)
    finally:
        call.is_over = True
        _call_of_listener.reset(token)
