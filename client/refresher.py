"""Keeping metadata fresh: which topics are wanted, one fetch at a time, and a task that fetches by itself.

Whoever needs fresh metadata joins the fetch that is under way only if it was started after the need arose: an answer
that was on its way already may not show what the need is about.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from minikafka.client.config import Address
from minikafka.client.errors import ClientClosed
from minikafka.client.metadata import Metadata
from minikafka.client.shared import wait_shared
from minikafka.protocol.errors import KafkaError, UnknownTopicOrPartitionError
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

if TYPE_CHECKING:
    from minikafka.client.cluster import Cluster

log: Final = logging.getLogger(__name__)

MetadataListener: TypeAlias = Callable[[Metadata], None]


class Refresher:
    """See the module's description."""

    def __init__(self, cluster: Cluster) -> None:
        self.metadata = Metadata()
        self._cluster = cluster
        self._topics: set[str] = set()
        # What each purpose wants just now, and what calls wait for.
        self._claims: dict[str, frozenset[str]] = {}
        self._held: Counter[str] = Counter()
        self._all_topics = False
        self._listeners: list[MetadataListener] = []
        self._fetching: asyncio.Task[Metadata] | None = None
        self._queued: asyncio.Task[Metadata] | None = None
        self._asked = asyncio.Event()
        self._closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------------------------------ its life

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="keep metadata fresh")

    async def stop(self) -> None:
        self._closed.set()
        tasks = [task for task in (self._task, self._queued, self._fetching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def pause(self, delay_ms: float) -> None:
        """Sleep, but no longer than the cluster is open."""
        try:
            async with asyncio.timeout(delay_ms / 1000):
                await self._closed.wait()
        except TimeoutError:
            return
        raise ClientClosed

    # ----------------------------------------------------------------------------------------- what to fetch

    def want(self, topics: Iterable[str]) -> None:
        new = {*topics} - self._topics
        if new:
            self._topics |= new
            self.refresh_soon()

    @property
    def claimed(self) -> frozenset[str]:
        return frozenset().union(*self._claims.values())

    def claim(self, purpose: str, topics: Iterable[str]) -> None:
        before = self.claimed
        self._claims[purpose] = frozenset(topics)
        self.forget(before - self.claimed - self._topics)
        if self.claimed - before:
            self.refresh_soon()

    @contextmanager
    def hold(self, topics: Collection[str]) -> Iterator[None]:
        self._held.update(topics)
        try:
            yield
        finally:
            self._held -= Counter(topics)

    def forget(self, topics: Iterable[str]) -> None:
        gone = [*topics]
        self._topics.difference_update(gone)
        if not self._all_topics:
            self.metadata = self.metadata.without(gone)

    def want_all(self, wanted: bool) -> None:
        if wanted and not self._all_topics:
            self.refresh_soon()
        self._all_topics = wanted

    def add_listener(self, listener: MetadataListener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def add_broker(self, node_id: int, address: Address) -> None:
        self.metadata = self.metadata.with_broker(node_id, address)

    # ---------------------------------------------------------------------------------------------- fetching

    def refresh_soon(self) -> None:
        self._asked.set()

    async def refresh(self) -> Metadata:
        """Fetch now; one fetch serves all who ask before it is sent."""
        if self._closed.is_set():
            raise ClientClosed
        if self._queued is None:
            self._queued = asyncio.create_task(self._fetch_after(self._fetching), name="fetch metadata")
            # What it raises is told to those who wait; if they have all gone, nobody needs to know.
            self._queued.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await wait_shared(self._queued)

    async def _fetch_after(self, earlier: asyncio.Task[Metadata] | None) -> Metadata:
        if earlier is not None:
            await asyncio.wait([earlier])
        self._fetching, self._queued = self._queued, None
        try:
            return await self._fetch()
        finally:
            self._fetching = None

    async def _fetch(self) -> Metadata:
        self._asked.clear()
        asked = None if self._all_topics else sorted({*self._topics, *self.claimed, *self._held})
        topics = None if asked is None else [MetadataRequestTopic(name=name) for name in asked]
        request = MetadataRequest(
            topics=topics, allow_auto_topic_creation=self._cluster.config.allow_auto_create_topics
        )
        answer: MetadataResponse = await self._cluster.request_any(request)
        self.metadata = self.metadata.merge(answer, asked)
        for listener in [*self._listeners]:
            listener(self.metadata)
        return self.metadata

    async def _run(self) -> None:
        config = self._cluster.config
        failures = 0
        while True:
            try:
                async with asyncio.timeout(config.metadata_max_age_ms / 1000):
                    await self._asked.wait()
            except TimeoutError:
                pass
            try:
                await self.refresh()
                failures = 0
            except KafkaError as error:
                failures += 1
                log.debug("metadata could not be fetched: %s", error)
                self._asked.set()
            # Not more often than this, whatever happens: errors come in swarms.
            await asyncio.sleep(self._cluster.backoff.delay_s(max(failures, 1)))

    # ----------------------------------------------------------------------------------------------- waiting

    async def wait_topics(self, topics: frozenset[str], timeout_ms: int | None, *, keep: bool) -> Metadata:
        """Wait until topics are known without an error."""
        if keep:
            self._topics |= topics
        if self._known(topics):
            return self.metadata

        async def look() -> Metadata:
            metadata = await self.refresh()
            for topic in topics:
                found = metadata.topics.get(topic)
                if found is None:
                    raise UnknownTopicOrPartitionError(f"topic {topic!r}")
                if found.error is not None:
                    raise found.error
            return metadata

        with self.hold(topics):
            try:
                return await self._cluster.retry(look, timeout_ms=timeout_ms)
            except KafkaError:
                if keep:
                    # Nobody wants what does not exist; asking again and again could even create it.
                    self.forget(topic for topic in topics if not self._known([topic]))
                raise

    def _known(self, topics: Iterable[str]) -> bool:
        found = self.metadata.topics
        return all(topic in found and not found[topic].error_code for topic in topics)
