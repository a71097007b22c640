"""Topics on their way out.

A topic that is to be deleted is hidden from clients at once. Then every replica is told to delete its log, and when the
last has done so, the topic's nodes are removed, the wish for its deletion last. Until then the wish is there: whoever
is the controller next begins anew, which does no harm.

While a broker with a replica is down, or a log directory of it, nothing is removed: it would come back with the log of
a topic that nobody knows. Such topics are held back until it is there again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from minikafka.broker.controller.channel import Heard
from minikafka.broker.controller.channels import Channels
from minikafka.broker.controller.state import Cluster, Name, Topic
from minikafka.broker.controller.writer import Writer
from minikafka.broker.zookeeper.config_nodes import topic_entity
from minikafka.broker.zookeeper.topic_nodes import delete_topic_path, topic_path
from minikafka.protocol.errors import ErrorCode, NotControllerError

log: Final = logging.getLogger(__name__)

# A replica that is not there is as good as deleted.
_DELETED: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Deletions:
    """See the module's description."""

    def __init__(self, cluster: Cluster, writer: Writer, channels: Channels) -> None:
        self._cluster = cluster
        self._writer = writer
        self._channels = channels
        # By topic, the replicas that still have a log, and those of them that were told.
        self._left: dict[str, set[tuple[int, Name]]] = {}
        self._told: dict[str, set[tuple[int, Name]]] = {}
        self._changed = asyncio.Event()
        self._is_closed = False

    def begin(self, topics: Iterable[Topic]) -> None:
        """Hide topics, and remember what has to be deleted."""
        for topic in topics:
            if topic.is_deleted:
                continue
            log.info("topic %s is being deleted", topic.name)
            topic.is_deleted = True
            # A partition that never had a state has no logs either.
            made = [each for each in topic.partitions.values() if each.version >= 0]
            self._left[topic.name] = {(broker_id, each.name) for each in made for broker_id in each.replicas}
            self._told[topic.name] = set()
            self._channels.tell_metadata(deleted=[topic.name])
        self._tell_waiting()

    async def go_on(self) -> None:
        """Tell what was not told yet, and finish what can be finished."""
        for name in list(self._left):
            if not self._left[name]:
                await self._finish(name)
            elif not self.is_held_back(name):
                self._tell(name)

    def is_held_back(self, name: str) -> bool:
        """Whether a topic cannot be deleted as long as nobody brings back a broker or a log directory."""
        return any(not self._cluster.is_online(each, broker_id) for broker_id, each in self._left.get(name, ()))

    def _tell(self, name: str) -> None:
        by_broker: dict[int, list[Name]] = {}
        for broker_id, each in self._left[name] - self._told[name]:
            by_broker.setdefault(broker_id, []).append(each)
        for broker_id, names in by_broker.items():
            found = [each for each in map(self._cluster.partition, sorted(names)) if each is not None]
            self._channels.stop_replicas(broker_id, found, delete=True)
        self._told[name] |= self._left[name]

    def on_stopped(self, heard: Heard) -> None:
        """A broker has answered."""
        for (topic, index), code in heard.codes.items():
            if topic not in self._left:
                continue
            replica = (heard.broker_id, (topic, index))
            if code in _DELETED:
                self._left[topic].discard(replica)
            else:
                log.error("broker %d could not delete %s-%d: error %d", heard.broker_id, topic, index, code)
                # Held back: it has to be told again when it is restarted.
                self._cluster.broken.setdefault(heard.broker_id, set()).add((topic, index))
        self._tell_waiting()

    def on_broker_gone(self, broker_id: int) -> None:
        """What it was told may be forgotten."""
        for told in self._told.values():
            told -= {each for each in told if each[0] == broker_id}
        self._tell_waiting()

    async def _finish(self, name: str) -> None:
        await self._writer.delete_tree(topic_path(name), topic_entity(name).node, delete_topic_path(name))
        log.info("topic %s is deleted", name)
        self._cluster.topics.pop(name, None)
        self.forget(name)

    def forget(self, name: str) -> None:
        """The topic is gone, by us or by somebody else."""
        self._left.pop(name, None)
        self._told.pop(name, None)
        self._tell_waiting()

    async def wait_gone(self, name: str) -> None:
        """Until a topic is gone with all its nodes, or is held back."""
        topic = self._cluster.topics.get(name)
        while topic is not None and self._cluster.topics.get(name) is topic and not self.is_held_back(name):
            if self._is_closed:
                raise NotControllerError
            await self._changed.wait()

    def close(self) -> None:
        self._is_closed = True
        self._changed.set()

    def _tell_waiting(self) -> None:
        # Wakes whoever waits now; who comes later waits for the next change.
        if not self._is_closed:
            self._changed.set()
            self._changed.clear()
