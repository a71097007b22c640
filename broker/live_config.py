"""The configuration as it is now: the broker's own and every topic's overrides, with whoever wants to know of changes.

What is stored in ZooKeeper is laid over what the broker was started with by `config_watch`; everybody else only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.config.topic import TopicConfig

Listener: TypeAlias = Callable[[str | None], None]
"""Called with the topic whose configuration changed, or None if it was the broker's."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class LiveConfig:
    """See the module's description."""

    def __init__(self, broker: BrokerConfig) -> None:
        self.broker = broker
        self._overrides: dict[str, Mapping[str, str]] = {}
        self._topics: dict[str, TopicConfig] = {}
        self._listeners: list[Listener] = []

    def add_listener(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def overrides(self, topic: str) -> Mapping[str, str]:
        """What is set for a topic alone."""
        return self._overrides.get(topic, _NONE)

    def topic(self, topic: str) -> TopicConfig:
        """What a topic goes by."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = self.broker.topic_config(self.overrides(topic))
        return found

    def set_broker(self, broker: BrokerConfig) -> None:
        """Take over another configuration of the broker, which holds the defaults of all topics."""
        self.broker = broker
        self._topics.clear()
        self._tell(None)

    def set_topic(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Take over a topic's overrides, which have been checked; none if it is deleted."""
        if overrides:
            self._overrides[topic] = dict(overrides)
        else:
            self._overrides.pop(topic, None)
        self._topics.pop(topic, None)
        self._tell(topic)

    def _tell(self, topic: str | None) -> None:
        for listener in self._listeners:
            listener(topic)
