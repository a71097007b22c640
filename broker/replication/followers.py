"""Which partitions are fetched from which leader: one fetcher for each broker that leads something we follow."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from minikafka.broker.context import Context
from minikafka.broker.network.net import Net
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replication.fetcher import Fetcher
from minikafka.broker.replication.following import Following

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None], str], None]
"""Has something go on as long as the broker does."""


class Followers:
    """See the module's description."""

    def __init__(self, context: Context, net: Net, spawn: Spawn) -> None:
        self._context = context
        self._net = net
        self._spawn = spawn
        self._fetchers: dict[int, Fetcher] = {}
        self._following: dict[Partition, tuple[Following, Fetcher]] = {}

    def on_role_changed(self, partition: Partition) -> None:
        """Follow whoever leads now, if it is not us."""
        known = self._following.pop(partition, None)
        if known is not None:
            following, fetcher = known
            fetcher.remove(following)
        if partition.is_offline or partition.leadership is not None or partition.leader_id < 0:
            return
        fetcher = self._fetcher(partition.leader_id)
        following = Following(partition, self._context.partitions.workers[partition.log_dir], self._context.clock)
        self._following[partition] = (following, fetcher)
        fetcher.add(following)

    @property
    def lag_max(self) -> int:
        """By how many records the furthest behind of our replicas is behind what its leader has committed."""
        return max((following.lag for following, _ in self._following.values()), default=0)

    @property
    def failed_count(self) -> int:
        """Replicas that are not followed any more for what is wrong with them."""
        return sum(following.is_failed for following, _ in self._following.values())

    def _fetcher(self, leader_id: int) -> Fetcher:
        found = self._fetchers.get(leader_id)
        if found is None:
            found = self._fetchers[leader_id] = Fetcher(leader_id, self._context, self._net)
            self._spawn(found.run(), f"fetching from broker {leader_id}")
        return found
