"""DescribeConfigs: every value with where it comes from, what else could have determined it, its type and its meaning.

Sources and synonyms are Kafka's in their oddities too: a topic's retention.ms that follows from log.retention.hours
counts as a default without synonyms, since log.retention.ms, its proper synonym, is not set.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.config.keys import Key, Kind, Update, broker_key, broker_keys, topic_keys
from minikafka.broker.config.settings import Settings, Source, Synonym
from minikafka.broker.config.topic import topic_values
from minikafka.broker.config.values import render


class Entry(NamedTuple):
    """One config of a resource; a secret has no value, and neither have its synonyms."""

    name: str
    value: str | None
    read_only: bool
    source: Source
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    kind: Kind
    documentation: str | None


def describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Entry]:
    """The configs of a topic, all of them or those named; names that nobody knows are passed over."""
    values = topic_values(config.topic_defaults, overrides)
    entries = []
    for key in _wanted(topic_keys(), names):
        value = render(values[key.name])
        candidates = [] if key.broker is None else config.settings.candidates(key.broker)
        if key.name in overrides:
            candidates.insert(0, Synonym(key.name, value, Source.TOPIC_CONFIG))
        entries.append(_entry(key.name, key, value, candidates, read_only=False))
    return entries


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[Entry]:
    """The configs of this broker: all keys of Kafka's documentation, and what else is set."""
    settings = config.settings
    shown = {name for name, key in broker_keys().items() if not key.internal} | set(settings.effective)
    return [
        _broker_entry(settings, name, _value(settings, name), settings.candidates(name))
        for name in sorted(shown if not names else shown.intersection(names))
    ]


def describe_cluster(config: BrokerConfig, names: Collection[str] | None = None) -> list[Entry]:
    """What is set at run time for all brokers."""
    settings, own = config.settings, Source.DYNAMIC_DEFAULT_BROKER_CONFIG
    entries = []
    for name in sorted(settings.cluster_wide):
        if not names or name in names:
            candidates = [each for each in settings.candidates(name) if each.source is own]
            entries.append(_broker_entry(settings, name, settings.cluster_wide[name], candidates))
    return entries


def _wanted(keys: Mapping[str, Key], names: Collection[str] | None) -> list[Key]:
    return list(keys.values()) if not names else [key for name, key in keys.items() if name in names]


def _value(settings: Settings, name: str) -> str | None:
    key = broker_keys().get(name)
    # What is no key of Kafka's documentation is shown as it was written, also by Kafka.
    return settings.effective.get(name) if key is None or key.internal else render(settings.value(name))


def _broker_entry(settings: Settings, name: str, value: str | None, candidates: list[Synonym]) -> Entry:
    exact = broker_keys().get(name)
    # A listener's own value, and a rate of replication, count as read-only although they are not.
    changeable = exact is not None and exact.update is not Update.READ_ONLY and not exact.internal
    return _entry(name, broker_key(name), value, candidates, read_only=not changeable)


def _entry(name: str, key: Key | None, value: str | None, candidates: list[Synonym], read_only: bool) -> Entry:
    secret = key is None or key.secret
    shown = tuple(each._replace(text=None) if secret else each for each in candidates)
    return Entry(
        name=name,
        value=None if secret else value,
        read_only=read_only,
        source=shown[0].source if shown else Source.DEFAULT_CONFIG,
        sensitive=secret,
        synonyms=shown,
        kind=Kind.UNKNOWN if key is None else key.kind,
        documentation=None if key is None else key.documentation,
    )
