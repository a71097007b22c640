"""The topics that are sent to: found with the first record, kept up with what metadata tells."""

from __future__ import annotations

import asyncio

from minikafka.client.cluster import Cluster
from minikafka.client.metadata import Metadata
from minikafka.client.producer.queues import PartitionQueue, Topic
from minikafka.client.shared import wait_shared


class Topics:
    """See the module's description."""

    def __init__(self, cluster: Cluster, max_block_ms: int) -> None:
        self.known: dict[str, Topic] = {}
        self._cluster = cluster
        self._max_block_ms = max_block_ms
        self._finding: dict[str, asyncio.Task[Metadata]] = {}
        self._forget_listener = cluster.on_metadata(self._on_metadata)

    async def find(self, name: str) -> Topic:
        """A topic, waited for if it is being created."""
        found = self.known.get(name)
        if found is None:
            # One wait for all: they go on in the order they came in, which is the order of their records.
            metadata = await wait_shared(self._finding.get(name) or self._start_finding(name))
            found = self.known.get(name)
            if found is None:
                found = Topic(name, self._cluster.rng)
                _update(found, metadata)
                self.known[name] = found
        return found

    def _start_finding(self, name: str) -> asyncio.Task[Metadata]:
        work = self._cluster.wait_metadata([name], timeout_ms=self._max_block_ms)
        task = self._finding[name] = asyncio.create_task(work, name=f"find topic {name}")

        def ended(task: asyncio.Task[Metadata]) -> None:
            del self._finding[name]
            # What it raises is told to those who wait; if they have all gone, nobody needs to know.
            if not task.cancelled():
                task.exception()

        task.add_done_callback(ended)
        return task

    async def partition(self, topic: Topic, partition: int) -> PartitionQueue:
        """The queue of a partition; UnknownTopicOrPartitionError if there is none."""
        if partition >= len(topic.queues):
            # Partitions may have been added a moment ago.
            _update(topic, await self._cluster.refresh())
        return topic.queue_at(partition)

    async def stop(self) -> None:
        self._forget_listener()
        finding = [*self._finding.values()]
        for task in finding:
            task.cancel()
        await asyncio.gather(*finding, return_exceptions=True)

    def _on_metadata(self, metadata: Metadata) -> None:
        for topic in self.known.values():
            _update(topic, metadata)


def _update(topic: Topic, metadata: Metadata) -> None:
    known = metadata.topics.get(topic.name)
    if known is not None and not known.error_code:
        topic.update([None if each.leader < 0 else each.leader for each in known.partitions.values()])
