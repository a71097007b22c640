"""Which broker coordinates a group or a transactional id: the leader of the partition that its name falls into.

The topic is made when it is first asked for, with exactly as many replicas as are configured. Until that many brokers
are there nobody coordinates anything, since what is acknowledged by fewer would be lost with them.
"""

from __future__ import annotations

import logging
from typing import Final

from minikafka.broker.context import Context
from minikafka.broker.metadata import NO_LEADER
from minikafka.broker.topic_admin import auto_create
from minikafka.broker.zookeeper.coord import CoordError
from minikafka.protocol.control import LiveBroker
from minikafka.protocol.errors import CoordinatorNotAvailableError, KafkaError
from minikafka.protocol.hashing import coordinator_partition

log: Final = logging.getLogger(__name__)


class CoordinatorFinder:
    """See the module's description."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._creating: set[str] = set()

    def find(self, topic: str, key: str) -> LiveBroker:
        """The broker to ask; CoordinatorNotAvailable, which is worth another try, if there is none yet."""
        metadata = self._context.metadata
        known = metadata.topics.get(topic)
        if known is None or not known.partitions:
            self._create(topic)
            raise CoordinatorNotAvailableError(f"{topic} is being made")
        index = coordinator_partition(key, len(known.partitions))
        state = known.partitions.get(index)
        leader = NO_LEADER if state is None else state.leader
        if leader == self._context.broker_id and not self._may_answer(topic, index):
            raise CoordinatorNotAvailableError(f"{topic}-{index} may be led by another broker")
        if leader not in metadata.brokers:
            raise CoordinatorNotAvailableError(f"the partition of {topic} has no leader")
        return metadata.brokers[leader]

    def _may_answer(self, topic: str, index: int) -> bool:
        partition = self._context.partitions.all.get((topic, index))
        # Who has just begun to lead, or not even that, says so itself.
        return partition is None or not self._context.contact.is_doubtful(partition)

    def _create(self, topic: str) -> None:
        if topic not in self._creating:
            self._creating.add(topic)
            self._context.work.spawn(self._make(topic), f"making {topic}")

    async def _make(self, topic: str) -> None:
        try:
            await auto_create(self._context, topic)
        except (KafkaError, CoordError) as error:
            log.warning("%s cannot be made yet: %s", topic, error)
        finally:
            self._creating.discard(topic)
