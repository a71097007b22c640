"""Asking the right broker, and asking again where that helps.

Every request about things (topics, groups, partitions ...) goes through `Asker.settle`. It finds out which broker is to
be asked about each, asks all of them at the same time, and goes on with those things whose broker has turned out to be
the wrong one or could not be reached, until all are settled or `default_api_timeout_ms` is over. What remains are
values, and errors that another try does not mend.

A request whose connection broke may have been carried out. Most can simply be sent again, as setting a config twice
does no harm; one that creates or deletes something is not, since the second answer ("exists already") would be about
the first request. Whoever asked is told that the connection broke instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from minikafka.client.admin.results import Results
from minikafka.client.cluster import Cluster, CoordinatorKind
from minikafka.client.errors import ClientClosed, ConnectionFailed, RequestTimeout
from minikafka.client.structs import TopicPartition
from minikafka.protocol.errors import (
    BrokerNotAvailableError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    KafkaError,
    LeaderNotAvailableError,
    ListenerNotFoundError,
    NotControllerError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    ThrottlingQuotaExceededError,
    UnknownLeaderEpochError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
    error_for,
)
from minikafka.protocol.message import Request

K = TypeVar("K")
V = TypeVar("V")

Place: TypeAlias = "int | KafkaError"
Locate: TypeAlias = Callable[[Collection[K]], Awaitable[Mapping[K, Place]]]
Ask: TypeAlias = Callable[[int, list[K]], Awaitable["Mapping[K, V | KafkaError]"]]

# Not every retriable error: with REQUEST_TIMED_OUT a broker says that it is working on it, and a topic that is not
# known is most likely one that does not exist.
_PASSING: Final = (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    LeaderNotAvailableError,
    ListenerNotFoundError,
    NotControllerError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    ThrottlingQuotaExceededError,
    UnknownLeaderEpochError,
    UnstableOffsetCommitError,
)
_HEARSAY_S: Final = (0.0, 0.1, 0.3)
"""How long to wait before asking for a topic again: a broker may not have heard yet of one that was just created."""

_BROKEN: Final = (ConnectionFailed, RequestTimeout)


class Asker:
    """See the module's description."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    # ----------------------------------------------------------------------------------------------- asking

    async def settle(
        self, items: Iterable[K], locate: Locate[K], ask: Ask[K, V], *, repeatable: bool = True
    ) -> Results[K, V]:
        """Ask about each item until its answer is final; in the order of the items."""
        wanted = [*dict.fromkeys(items)]
        outcomes: dict[K, V | KafkaError] = {}
        clock = self.cluster.clock
        deadline = clock.monotonic_ms() + self.cluster.config.default_api_timeout_ms
        failures = 0
        left = wanted
        while left:
            settled, repeat = await self._round(left, locate, ask, repeatable)
            outcomes.update(settled)
            left = [item for item in left if item in repeat]
            failures += 1
            delay_ms = self.cluster.backoff.delay_ms(failures)
            if left and clock.monotonic_ms() + delay_ms >= deadline:
                outcomes.update(repeat)
                break
            if left:
                await self._look_again(delay_ms)
        return Results({item: outcomes[item] for item in wanted})

    async def _round(
        self, items: list[K], locate: Locate[K], ask: Ask[K, V], repeatable: bool
    ) -> tuple[dict[K, V | KafkaError], dict[K, KafkaError]]:
        """Ask once about each; what is settled by that, and what should be asked again."""
        settled: dict[K, V | KafkaError] = {}
        repeat: dict[K, KafkaError] = {}
        by_node: dict[int, list[K]] = {}
        places = await locate(items)
        for item in items:
            place = places[item]
            if not isinstance(place, KafkaError):
                by_node.setdefault(place, []).append(item)
            elif isinstance(place, _PASSING + _BROKEN):
                repeat[item] = place
            else:
                settled[item] = place
        rounds = (self._ask_node(node_id, asked, ask, repeatable) for node_id, asked in by_node.items())
        for some_settled, some_repeat in await asyncio.gather(*rounds):
            settled |= some_settled
            repeat |= some_repeat
        return settled, repeat

    async def _ask_node(
        self, node_id: int, items: list[K], ask: Ask[K, V], repeatable: bool
    ) -> tuple[dict[K, V | KafkaError], dict[K, KafkaError]]:
        settled: dict[K, V | KafkaError] = {}
        repeat: dict[K, KafkaError] = {}
        try:
            # Whatever fails up to here, nothing was asked.
            await self.cluster.connection(node_id)
        except ClientClosed:
            raise
        except KafkaError as error:
            return {}, dict.fromkeys(items, error)
        try:
            answers = await ask(node_id, items)
        except ClientClosed:
            raise
        except KafkaError as error:
            answers = dict.fromkeys(items, error)
        for item in items:
            answer = answers.get(item, UnknownServerError(f"broker {node_id} did not answer about it"))
            if isinstance(answer, _PASSING) or (repeatable and isinstance(answer, _BROKEN)):
                assert isinstance(answer, KafkaError)
                repeat[item] = answer
            else:
                settled[item] = answer
        return settled, repeat

    async def _look_again(self, delay_ms: float) -> None:
        """Wait a little, then see what has become of the cluster."""
        await asyncio.sleep(delay_ms / 1000)
        try:
            await self.cluster.refresh()
        except ClientClosed:
            raise
        except KafkaError:
            # The next round finds that out again, and knows whether there is time for more.
            return

    async def request(self, node_id: int, message: Request, *, wait_ms: int = 0) -> Any:
        """Send to one broker, which may take `wait_ms` on top of the usual time."""
        timeout_ms = self.cluster.config.request_timeout_ms + wait_ms
        return await self.cluster.request(node_id, message, timeout_ms=timeout_ms)

    async def ask_any(self, message: Request) -> Any:
        """The answer of whichever broker gives one."""
        return await self.cluster.retry(lambda: self.cluster.request_any(message))

    async def ask_informed(self, message: Request) -> Any:
        """The answer of the controller, which hears of changes first; of any broker if it cannot be reached."""
        try:
            return await self.cluster.request(await self.cluster.controller(), message)
        except ClientClosed:
            raise
        except KafkaError:
            return await self.ask_any(message)

    async def ask_controller(
        self, ask: Callable[[int], Awaitable[V]], *, what: str = "the cluster", repeatable: bool = True
    ) -> V:
        """The controller's answer to a request that succeeds or fails as a whole."""

        async def ask_about(node_id: int, items: list[str]) -> Mapping[str, V | KafkaError]:
            return {items[0]: await ask(node_id)}

        results = await self.settle([what], self.at_controller, ask_about, repeatable=repeatable)
        for error in results.errors.values():
            raise error
        return results[what]

    # ---------------------------------------------------------------------------------------- whom to ask

    async def at_controller(self, items: Collection[K]) -> Mapping[K, Place]:
        place: Place
        try:
            place = await self.cluster.controller()
        except ClientClosed:
            raise
        except KafkaError as error:
            place = error
        return dict.fromkeys(items, place)

    async def at_any(self, items: Collection[K]) -> Mapping[K, Place]:
        """Any broker, but one for all of them."""
        nodes = [*self.cluster.metadata.brokers]
        place: Place = self.cluster.rng.choice(nodes) if nodes else LeaderNotAvailableError("no broker is known")
        return dict.fromkeys(items, place)

    async def at_themselves(self, items: Collection[int]) -> Mapping[int, Place]:
        """Brokers that are asked about themselves."""
        known = self.cluster.metadata.brokers
        return {
            node_id: node_id if node_id in known else BrokerNotAvailableError("there is no such broker at the moment")
            for node_id in items
        }

    async def at_leaders(self, items: Collection[TopicPartition]) -> Mapping[TopicPartition, Place]:
        """The leaders of partitions. A topic that is not there is not waited for, but for a moment."""
        topics = {item.topic for item in items}
        self.cluster.want_topics(topics)
        for delay_s in _HEARSAY_S:
            if all(self.cluster.partitions(topic) is not None for topic in topics):
                break
            await asyncio.sleep(delay_s)
            await self.cluster.refresh()
        return {item: self._leader(item) for item in items}

    def _leader(self, item: TopicPartition) -> Place:
        topic = self.cluster.metadata.topics.get(item.topic)
        if topic is None:
            return UnknownTopicOrPartitionError("there is no such topic")
        if topic.error_code:
            return error_for(topic.error_code)
        if item.partition not in topic.partitions:
            return UnknownTopicOrPartitionError(f"the topic has {len(topic.partitions)} partitions")
        leader = self.cluster.leader(*item)
        return LeaderNotAvailableError("the partition has no leader") if leader is None else leader

    def at_coordinators(self, kind: CoordinatorKind) -> Locate[str]:
        """The coordinators of groups or transactional ids."""

        async def find(key: str) -> Place:
            try:
                return await self.cluster.coordinator(kind, key)
            except ClientClosed:
                raise
            except KafkaError as error:
                return error

        async def locate(items: Collection[str]) -> Mapping[str, Place]:
            return dict(zip(items, await asyncio.gather(*map(find, items)), strict=True))

        return locate

    def forget_coordinators(self, kind: CoordinatorKind, answers: Mapping[str, object]) -> None:
        """Look anew for the coordinators of those whose broker said that it is none."""
        for key, answer in answers.items():
            if isinstance(answer, NotCoordinatorError | CoordinatorNotAvailableError):
                self.cluster.invalidate_coordinator(kind, key)


def verdict(code: int, message: str | None = None) -> KafkaError | None:
    """What an answer's code says; None if it is success."""
    return error_for(code, message) if code else None


def raise_for(code: int, message: str | None = None) -> None:
    """Raise what an answer's code says, unless it is success."""
    if code:
        raise error_for(code, message)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions as most requests name them: by topic."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found
