"""What a broker that leads a partition can know of being the leader still, without asking anybody.

A broker that is cut off from ZooKeeper may have been replaced, and would not hear of it. What it appends is harmless,
since nobody replicates it. But a coordinator that answers from memory would say what was true once; Kafka does that for
as long as the cut lasts. So it answers only in contact with those without whom it cannot be replaced:

- While it is connected to ZooKeeper its session lasts, and leadership is not taken from it behind its back. A lost
  connection is noticed after two thirds of the session timeout at the latest, so it counts for another third.
- After that, as long as no other leader could commit anything. A follower that fetches the partition in this leader's
  epoch follows nobody else. Another leader would have to be an in-sync replica of which nothing is heard, and have
  `min.insync.replicas` of those of which nothing is heard. Below that number the controller may elect others too
  (KIP-966), so all replicas are candidates. Where nobody else has the partition, nobody else can lead it.

A follower names only partitions with news in its fetches. It follows a partition as long as that is in its session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.zookeeper.coord import Coord, Session, SessionState

NEVER_MS: Final = -(1 << 62)


class Contact:
    """See the module's description. All times are monotonic."""

    def __init__(self, coord: Coord, config: LiveConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        # Since when there is no connection to ZooKeeper.
        self._lost_ms: int | None = None
        self.last_fetch_ms: Callable[[int, Partition], int] = lambda follower_id, partition: NEVER_MS
        """When a follower last continued a fetch session that has the partition, in its current leader epoch."""
        self._on_session(coord.session)
        coord.add_listener(self._on_session)

    def _on_session(self, session: Session) -> None:
        if session.state is SessionState.CONNECTED:
            self._lost_ms = None
        elif self._lost_ms is None:
            self._lost_ms = self._clock.monotonic_ms()

    def may_answer(self, partition: Partition) -> bool:
        """Whether a partition that is led here cannot be led, and written to, by another broker."""
        leadership = partition.leadership
        if self._lost_ms is None or leadership is None:
            return leadership is not None
        if self._clock.monotonic_ms() - self._lost_ms <= self._grace_ms:
            return True
        silent = self._silent(partition)
        if len(leadership.isr) >= partition.min_isr and not leadership.maximal_isr.intersection(silent):
            return True
        return len(silent) < partition.min_isr

    def _silent(self, partition: Partition) -> list[int]:
        """The other replicas that do not follow, as far as is known."""
        leadership, since_ms = partition.leadership, self._clock.monotonic_ms() - self._grace_ms
        assert leadership is not None
        return [
            follower_id
            for follower_id, follower in leadership.followers.items()
            if max(follower.fetched_ms, self.last_fetch_ms(follower_id, partition)) < since_ms
        ]

    @property
    def _grace_ms(self) -> int:
        config = self._config.broker
        return max(config.zookeeper_session_timeout_ms // 3, 2 * config.replica_fetch_wait_max_ms)
