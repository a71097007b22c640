"""The cluster as this broker knows it: brokers, topics, partitions and who leads them, by what the controller told.

Nothing is known until the controller has told everything once; until then no client is answered, so that nobody is
told that a topic does not exist that does. Later messages change what they name. Whoever waits for a change looks
again after each: a condition, not an event, is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from minikafka.broker.features import NOTHING_FINALIZED, TRANSACTION_VERSION, Finalized
from minikafka.protocol.control import LiveBroker, PartitionState, UpdateMetadataRequest
from minikafka.protocol.schema import ZERO_UUID

NO_LEADER: Final = -1


@dataclass(slots=True)
class Topic:
    """One topic and its partitions by index."""

    name: str
    topic_id: bytes
    partitions: dict[int, PartitionState] = field(default_factory=dict)


class Metadata:
    """See the module's description."""

    def __init__(self) -> None:
        self.controller_id: int | None = None
        self.controller_epoch = 0
        self.brokers: Mapping[int, LiveBroker] = {}
        self.broker_epochs: Mapping[int, int] = {}
        self.features = NOTHING_FINALIZED
        self.topics: dict[str, Topic] = {}
        self._names: dict[bytes, str] = {}
        self._is_known = False
        self._changed = asyncio.Event()
        self.on_topics_deleted: Callable[[Collection[str]], None] = _ignore
        """Called with the names of topics that the controller says are deleted, or that have another id now. There may
        be a new topic of the name already: the controller says only the latest. One that it does not mention may be
        there all the same: it could not make sense of it."""
        self.on_features_lowered: Callable[[], None] = _nothing
        """Called when a level that was finalized is not any more."""

    @property
    def is_known(self) -> bool:
        """Whether the controller has told everything once."""
        return self._is_known

    def partition(self, topic: str, index: int) -> PartitionState | None:
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(index)

    def topic_id(self, topic: str) -> bytes | None:
        """None if there is no such topic, or it is from before topics had ids."""
        found = self.topics.get(topic)
        return None if found is None or found.topic_id == ZERO_UUID else found.topic_id

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def update(self, told: UpdateMetadataRequest) -> None:
        """Take over what the controller says; that it still is the controller has been checked."""
        self.controller_id = told.controller_id
        self.controller_epoch = told.controller_epoch
        self.brokers = {broker.broker_id: broker for broker in told.brokers}
        self.broker_epochs = {broker.broker_id: broker.broker_epoch for broker in told.brokers}
        self._set_features(Finalized({each.name: each.level for each in told.features}, told.features_epoch))
        known, ended = self.topics, set(told.deleted_topics)
        if told.is_full:
            self.topics, self._names = {}, {}
            self._is_known = True
        for name in told.deleted_topics:
            self._forget(name)
        for state in told.partitions:
            if (topic := known.get(state.topic)) is not None and topic.topic_id != state.topic_id:
                ended.add(state.topic)
            self._put(state)
        if ended:
            self.on_topics_deleted(ended)
        self._tell()

    def _set_features(self, features: Finalized) -> None:
        before, self.features = self.features, features
        if any(features.level(name) < level for name, level in before.levels.items()):
            self.on_features_lowered()

    def knows_version_2(self, broker_id: int) -> bool:
        """Whether a broker can be asked what transaction version 2 needs."""
        broker = self.brokers.get(broker_id)
        levels = () if broker is None else broker.features
        return any(each.name == TRANSACTION_VERSION and each.level >= 2 for each in levels)

    def set_controller(self, controller_id: int | None) -> None:
        """Who is the controller, as ZooKeeper says; it is known there before the new one has told anything."""
        if controller_id != self.controller_id:
            self.controller_id = controller_id
            self._tell()

    async def wait_until(self, holds: Callable[[], bool], timeout_seconds: float | None = None) -> bool:
        """Wait for something to be so; False if time is up before."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while not holds():
                    await self._changed.wait()
        except TimeoutError:
            return holds()
        return True

    def live_replicas(self, replicas: Iterable[int]) -> list[int]:
        return [each for each in replicas if each in self.brokers]

    def _put(self, state: PartitionState) -> None:
        topic = self.topics.get(state.topic)
        if topic is None or topic.topic_id != state.topic_id:
            # Of the same name, but made anew: nothing of the old one holds.
            self._forget(state.topic)
            topic = self.topics[state.topic] = Topic(state.topic, state.topic_id)
            self._names[state.topic_id] = state.topic
        topic.partitions[state.partition] = state

    def _forget(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        if topic is not None:
            self._names.pop(topic.topic_id, None)

    def _tell(self) -> None:
        # Wakes whoever waits now; who comes later waits for the next change.
        self._changed.set()
        self._changed.clear()


def _nothing() -> None:
    """Nobody wants to know."""


def _ignore(_: object) -> None:
    """Nobody wants to know."""
