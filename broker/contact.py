"""What a broker that leads a partition can know of being the leader still, without asking anybody.

A broker that is cut off from ZooKeeper may have been replaced, and would not hear of it. What it appends is harmless,
since nobody replicates it. But what it reads, and what a coordinator answers from memory, was true once; Kafka does
that for as long as the cut lasts. So it answers only in contact with those without whom it cannot be replaced:

- For one session timeout after it has asked ZooKeeper something that was answered: until then its session lasts, and
  nobody is elected for want of it. It asks regularly (`run`). That the connection was not reported lost
  proves nothing: a process that was stopped for minutes has not heard of it yet when it goes on.
- After that, as long as no other leader could commit anything. A follower that fetches the partition in this leader's
  epoch follows nobody else. Another leader would have to be an in-sync replica of which nothing is heard, and have
  `min.insync.replicas` of those of which nothing is heard. Below that number the controller may elect others too
  (KIP-966), so all replicas are candidates. Where nobody else has the partition, nobody else can lead it.

A follower names only partitions with news in its fetches. It follows a partition as long as that is in its session.

The second rule bounds by how much an answer may be out of date, and no more: a follower that has just fetched may have
gone over since. Where nothing that was committed must be missed, followers are asked (`coordinators/confirming`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.zookeeper.coord import Coord, CoordError
from minikafka.protocol.errors import NotLeaderOrFollowerError

log: Final = logging.getLogger(__name__)

NEVER_MS: Final = -(1 << 62)
_QUESTIONS: Final = 6
"""How often ZooKeeper is asked within a session timeout."""


class Contact:
    """See the module's description. All times are monotonic."""

    def __init__(self, coord: Coord, config: LiveConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._coord = coord
        # When the last question was asked that ZooKeeper has answered. There is a session when a broker starts.
        self._answered_ms = clock.monotonic_ms()
        self.last_fetch_ms: Callable[[int, Partition], int] = lambda follower_id, partition: NEVER_MS
        """When a follower last continued a fetch session that has the partition, in its current leader epoch."""

    async def run(self) -> None:
        """Keep in touch with ZooKeeper, until cancelled."""
        while True:
            asked_ms, timeout_seconds = self._clock.monotonic_ms(), self._session_timeout_ms / 1000
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._coord.sync()
                self._answered_ms = asked_ms
            except (CoordError, TimeoutError) as error:
                log.debug("ZooKeeper is not reached: %s", error)
            await asyncio.sleep(timeout_seconds / _QUESTIONS)

    @property
    def has_zookeeper(self) -> bool:
        return self._clock.monotonic_ms() - self._answered_ms <= self._session_timeout_ms

    def may_answer(self, partition: Partition) -> bool:
        """Whether a partition that is led here cannot be led, and written to, by another broker."""
        if partition.leadership is None or self.has_zookeeper:
            return partition.leadership is not None
        return self.suffices(partition, self._silent(partition))

    def is_doubtful(self, partition: Partition) -> bool:
        """Whether a partition that is led here may be led by another broker."""
        return partition.leadership is not None and not self.may_answer(partition)

    def check(self, partition: Partition) -> None:
        """NotLeaderOrFollower if that is so."""
        if self.is_doubtful(partition):
            raise NotLeaderOrFollowerError(f"{partition} may be led by another broker, nothing is heard of others")

    def suffices(self, partition: Partition, silent: Collection[int]) -> bool:
        """Whether nobody else can commit anything as long as only these replicas might follow another leader."""
        leadership = partition.leadership
        if leadership is None:
            return False
        if len(leadership.isr) >= partition.min_isr and leadership.maximal_isr.isdisjoint(silent):
            return True
        return len(silent) < partition.min_isr

    def _silent(self, partition: Partition) -> list[int]:
        """The other replicas that do not follow, as far as is known."""
        # Long enough for several fetches, and short, since a follower may go over to another leader at any time.
        recent_ms = max(self._session_timeout_ms // 3, 2 * self._config.broker.replica_fetch_wait_max_ms)
        leadership, since_ms = partition.leadership, self._clock.monotonic_ms() - recent_ms
        assert leadership is not None
        return [
            follower_id
            for follower_id, follower in leadership.followers.items()
            if max(follower.fetched_ms, self.last_fetch_ms(follower_id, partition)) < since_ms
        ]

    @property
    def _session_timeout_ms(self) -> int:
        return self._config.broker.zookeeper_session_timeout_ms
