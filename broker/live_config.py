"""The configuration as it is now: the broker's own and every topic's overrides, with whoever wants to know of changes.

What is stored in ZooKeeper is laid over what the broker was started with by `config_watch`; everybody else only reads.
What is stored may be another's doing, and not all of it may be of use: the rest is kept in mind, since whether a
topic's overrides can be used depends on the broker's defaults, which may change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.config.dynamic import apply_stored, usable_overrides
from minikafka.broker.config.settings import Scope
from minikafka.broker.config.topic import TopicConfig

Listener: TypeAlias = Callable[[str | None], None]
"""Called with the topic whose configuration changed, or None if it was the broker's."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class LiveConfig:
    """See the module's description."""

    def __init__(self, broker: BrokerConfig) -> None:
        self.broker = broker
        self._overrides: dict[str, Mapping[str, str]] = {}
        # As they are in ZooKeeper, usable or not.
        self._stored: dict[str, Mapping[str, str]] = {}
        self._layers: dict[Scope, Mapping[str, str]] = {}
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
        _put(self._stored, topic, overrides)
        self._set_overrides(topic, overrides)

    # -------------------------------------------------------------------------------- what ZooKeeper holds

    @property
    def stored_topics(self) -> Collection[str]:
        """The topics for which something is stored."""
        return self._stored.keys()

    def store_topic(self, topic: str, stored: Mapping[str, str]) -> tuple[str, ...]:
        """Take over what is stored for a topic; complaints about what cannot be used."""
        _put(self._stored, topic, stored)
        usable, complaints = usable_overrides(self.broker, stored)
        if usable != self.overrides(topic):
            self._set_overrides(topic, usable)
        return tuple(f"topic {topic}: {each}" for each in complaints)

    def store_broker(self, layers: Mapping[Scope, Mapping[str, str]]) -> tuple[str, ...]:
        """Take over what is stored for all brokers, for this one, or for both at once; complaints likewise."""
        self._layers.update({scope: dict(texts) for scope, texts in layers.items()})
        cluster_wide, per_broker = (self._layers.get(scope, _NONE) for scope in (Scope.CLUSTER_WIDE, Scope.PER_BROKER))
        config, complaints = apply_stored(self.broker, cluster_wide, per_broker)
        if _layers_of(config) == _layers_of(self.broker):
            return complaints
        # Whoever is told next asks for topics, too, so these have to fit by then.
        for topic, stored in self._stored.items():
            usable, more = usable_overrides(config, stored)
            complaints += tuple(f"topic {topic}: {each}" for each in more)
            _put(self._overrides, topic, usable)
        self.set_broker(config)
        return complaints

    def _set_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        _put(self._overrides, topic, overrides)
        self._topics.pop(topic, None)
        self._tell(topic)

    def _tell(self, topic: str | None) -> None:
        for listener in self._listeners:
            listener(topic)


def _put(kept: dict[str, Mapping[str, str]], topic: str, texts: Mapping[str, str]) -> None:
    if texts:
        kept[topic] = dict(texts)
    else:
        kept.pop(topic, None)


def _layers_of(config: BrokerConfig) -> tuple[Mapping[str, str], Mapping[str, str]]:
    return config.settings.cluster_wide, config.settings.per_broker
