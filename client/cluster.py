"""The cluster from a client's side: who leads what, how to reach it, and what to do when that changes.

Producer, consumer and admin each have one `Cluster`. It is started (`start`), asked, and closed (`close`). Calls may be
cancelled at any time, and nothing of it is left after `close`.

    node = cluster.leader("orders", 3)                      # who leads, None while nobody does or it is not known
    answer: FetchResponse = await cluster.request(node, FetchRequest(...))
    answer: MetadataResponse = await cluster.request_any(MetadataRequest(...))
    node = await cluster.coordinator(CoordinatorKind.GROUP, "my-group")
    answer: HeartbeatResponse = await cluster.request(node, HeartbeatRequest(...), purpose="group")

A request is tried once: what it raises tells whether trying again can help (`error.retriable`) and whether the cluster
should be looked at anew first (`error.refresh_metadata`). An error *inside* an answer is the caller's to read. `retry`
does both for calls that should simply work in the end.

Metadata is kept for the topics that were asked for with `wait_metadata`, `want_topics` or `claim_topics`. A task of its
own fetches it when it is old, when a broker's connection breaks, and when `refresh_soon` is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import AbstractContextManager
from random import Random
from typing import Any, Self, TypeVar

from minikafka.client.clock import Backoff, Clock, SystemClock
from minikafka.client.config import Address, ClientConfig
from minikafka.client.connection import Connection
from minikafka.client.connections import Connections, Target
from minikafka.client.coordinators import CoordinatorKind, find_coordinator
from minikafka.client.errors import (
    AuthenticationFailed,
    ClientClosed,
    ClientError,
    NoBrokersAvailable,
    RequestTimeout,
    WrongListener,
)
from minikafka.client.metadata import NO_LEADER, Metadata
from minikafka.client.refresher import MetadataListener, Refresher
from minikafka.client.shared import see_through
from minikafka.client.versions import TRANSACTION_VERSION
from minikafka.protocol.errors import CoordinatorNotAvailableError, KafkaError, LeaderNotAvailableError
from minikafka.protocol.message import Request
from minikafka.protocol.schema import ZERO_UUID

__all__ = ["Cluster", "CoordinatorKind"]

_T = TypeVar("_T")


class Cluster:
    """See the module's description."""

    def __init__(self, config: ClientConfig, *, clock: Clock | None = None, rng: Random | None = None) -> None:
        self.config = config
        self.clock: Clock = SystemClock() if clock is None else clock
        self.rng = Random() if rng is None else rng
        self.backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, self.rng)
        self._connections = Connections(config, self.rng)
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self._refresher = Refresher(self)
        self._is_started = False
        self._is_closed = False

    # ------------------------------------------------------------------------------------------ its life

    async def start(self) -> None:
        """Find the cluster. NoBrokersAvailable if no bootstrap server answers, AuthenticationFailed if one refuses."""
        if self._is_closed:
            raise ClientClosed
        if not self._is_started:
            await self._refresher.refresh()
            self._refresher.start()
            self._is_started = True

    async def close(self) -> None:
        """End all tasks and connections; what waits gets a ClientClosed. May be called twice, or be cancelled."""
        self._is_closed = True
        await see_through(self._close())

    async def _close(self) -> None:
        await self._refresher.stop()
        await self._connections.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    # ---------------------------------------------------------------------------------- what is known of it

    @property
    def metadata(self) -> Metadata:
        """The latest snapshot; a new object after each change."""
        return self._refresher.metadata

    def leader(self, topic: str, partition: int) -> int | None:
        """The node that leads a partition; None if there is none at the moment or it is not known."""
        found = self.metadata.partition(topic, partition)
        return None if found is None or found.leader == NO_LEADER else found.leader

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The epoch of the leader, for requests that carry it; -1 if it is not known."""
        found = self.metadata.partition(topic, partition)
        return -1 if found is None else found.leader_epoch

    def partitions(self, topic: str) -> tuple[int, ...] | None:
        """The partitions of a topic in order; None if the topic is not known (see `wait_metadata`)."""
        found = self.metadata.topics.get(topic)
        return None if found is None or found.error_code else tuple(found.partitions)

    @property
    def transaction_version(self) -> int:
        """The version of the transaction protocol that all brokers have agreed on, as far as is known here."""
        return self._connections.features.level(TRANSACTION_VERSION)

    async def wait_metadata(
        self, topics: Iterable[str], *, timeout_ms: int | None = None, keep: bool = True
    ) -> Metadata:
        """Wait until these topics are known, and keep them fresh from now on, unless `keep` is false.

        At the end of the time (`default_api_timeout_ms`) it raises what the broker last said of the topic, such as an
        UnknownTopicOrPartitionError; what will not change by waiting, such as a bad name, it raises at once.
        """
        return await self._refresher.wait_topics(frozenset(topics), timeout_ms, keep=keep)

    async def refresh(self) -> Metadata:
        """Fetch metadata now, together with whoever else asks at the moment."""
        self._require_open()
        return await self._refresher.refresh()

    def refresh_soon(self) -> None:
        """Let metadata be fetched: something showed that it is out of date. Many calls in a row are one fetch."""
        self._refresher.refresh_soon()

    def want_topics(self, topics: Iterable[str]) -> None:
        """Keep these topics in the metadata too; they are known after the next fetch."""
        self._refresher.want(topics)

    def claim_topics(self, purpose: str, topics: Iterable[str]) -> None:
        """Keep these topics in the metadata for a purpose, instead of those that it had before.

        A topic that nobody wants any more is not asked for: asking could create it after it was deleted."""
        self._refresher.claim(purpose, topics)

    @property
    def claimed_topics(self) -> frozenset[str]:
        """What is kept for all purposes."""
        return self._refresher.claimed

    def hold_topics(self, topics: Collection[str]) -> AbstractContextManager[None]:
        """Keep these topics in the metadata inside a `with`."""
        return self._refresher.hold(topics)

    def topic_id(self, topic: str) -> bytes:
        """The id of a topic; zeros if it is not known, or the brokers are from before Kafka 2.8 (KIP-516)."""
        found = self.metadata.topics.get(topic)
        return ZERO_UUID if found is None else found.topic_id

    def want_all_topics(self, wanted: bool = True) -> None:
        """Keep all topics of the cluster in the metadata (or stop that), for subscriptions by pattern."""
        self._refresher.want_all(wanted)

    def on_metadata(self, listener: MetadataListener) -> Callable[[], None]:
        """Call `listener(metadata)` after every fetch; the call that is returned ends that."""
        return self._refresher.add_listener(listener)

    # ------------------------------------------------------------------------------------------------ asking

    async def request(
        self,
        node_id: int,
        message: Request,
        *,
        purpose: str = "",
        min_version: int = 0,
        max_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """The answer of one broker. Requests of different purposes travel by different connections."""
        connection = await self.connection(node_id, purpose)
        try:
            return await connection.request(
                message, min_version=min_version, max_version=max_version, timeout_ms=timeout_ms
            )
        except ClientError as error:
            raise self._noticed(error) from None

    async def request_any(self, message: Request, *, timeout_ms: int | None = None) -> Any:
        """The answer of the first broker that gives one; NoBrokersAvailable if none does."""
        self._require_open()
        errors: list[KafkaError] = []
        for address in self._all_addresses():
            try:
                connection = await self._connections.get(Target(address))
                return await connection.request(message, timeout_ms=timeout_ms)
            except (AuthenticationFailed, ClientClosed):
                raise
            except ClientError as error:
                errors.append(error)
        reasons = "; ".join(dict.fromkeys(map(str, errors)))
        if all(isinstance(error, WrongListener) for error in errors):
            raise WrongListener(reasons)
        raise NoBrokersAvailable(f"no broker could be reached: {reasons}")

    async def connection(self, node_id: int, purpose: str = "") -> Connection:
        """The connection to a broker, to send requests by without waiting for their answers."""
        self._require_open()
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            self.refresh_soon()
            raise LeaderNotAvailableError(f"broker {node_id} is not part of the cluster at the moment")
        try:
            return await self._connections.get(Target(broker.address, purpose))
        except ClientError as error:
            raise self._noticed(error) from None

    def connection_nowait(self, node_id: int, purpose: str = "") -> Connection | None:
        """The same if it is open already."""
        broker = self.metadata.brokers.get(node_id)
        return None if broker is None else self._connections.get_nowait(Target(broker.address, purpose))

    def _noticed(self, error: ClientError) -> ClientError:
        """A broker that cannot be reached may have gone, and its partitions have other leaders."""
        if self._is_closed:
            return ClientClosed()
        if error.refresh_metadata:
            self.refresh_soon()
        return error

    def _all_addresses(self) -> list[Address]:
        """Where to ask for what any broker knows: where a connection is open, then brokers, then bootstrap servers."""
        brokers = [broker.address for broker in self.metadata.brokers.values()]
        bootstrap = [*self.config.addresses]
        self.rng.shuffle(brokers)
        self.rng.shuffle(bootstrap)
        order = dict.fromkeys([*brokers, *bootstrap])
        return sorted(order, key=lambda address: self._connections.get_nowait(Target(address)) is None)

    # ------------------------------------------------------------------------------- coordinator, controller

    async def coordinator(self, kind: CoordinatorKind, key: str, *, timeout_ms: int | None = None) -> int:
        """The node that coordinates a group or a transactional id, remembered until it is invalidated."""
        node_id = self._coordinators.get((kind, key))
        if node_id is not None and node_id in self.metadata.brokers:
            return node_id

        async def find() -> int:
            found = await find_coordinator(self, kind, key)
            self._refresher.add_broker(found.node_id, Address(found.host, found.port))
            return found.node_id

        node_id = await self.retry(find, timeout_ms=timeout_ms)
        self._coordinators[kind, key] = node_id
        return node_id

    def invalidate_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        """Look for the coordinator anew next time: it said that it is none, or did not answer."""
        self._coordinators.pop((kind, key), None)

    async def controller(self) -> int:
        """The node that is the controller now; a NotControllerError of it calls for `refresh` and another try."""
        if self.metadata.controller_id not in self.metadata.brokers:
            await self.refresh()
        if self.metadata.controller_id not in self.metadata.brokers:
            raise CoordinatorNotAvailableError("the cluster has no controller at the moment")
        return self.metadata.controller_id

    # ---------------------------------------------------------------------------------------------- patience

    async def retry(self, attempt: Callable[[], Awaitable[_T]], *, timeout_ms: int | None = None) -> _T:
        """Call until it works: again after a retriable error, with growing delays, with fresh metadata if it helps.

        At the end of the time (`default_api_timeout_ms`) the last error is raised; others are raised at once.
        """
        limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self.clock.monotonic_ms() + limit_ms
        failures = 0
        last: KafkaError = RequestTimeout(f"not done within {limit_ms} ms")
        while True:
            try:
                async with asyncio.timeout((deadline - self.clock.monotonic_ms()) / 1000):
                    return await attempt()
            except TimeoutError:
                raise last from None
            except KafkaError as error:
                failures, last = failures + 1, error
                delay_ms = self.backoff.delay_ms(failures)
                if not error.retriable or self.clock.monotonic_ms() + delay_ms >= deadline:
                    raise
                if error.refresh_metadata:
                    self.refresh_soon()
            await self._refresher.pause(delay_ms)

    def _require_open(self) -> None:
        if self._is_closed:
            raise ClientClosed
