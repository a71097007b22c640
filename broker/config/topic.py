"""One topic's settings: its own overrides, and the broker's defaults where it has none."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from minikafka.broker.config.errors import BadValue, assignment
from minikafka.broker.config.keys import Key, topic_keys, unknown
from minikafka.broker.config.settings import Settings
from minikafka.broker.config.values import Value, parse
from minikafka.protocol.compression import Compression
from minikafka.protocol.errors import InvalidConfigError
from minikafka.protocol.records.layout import TimestampType
from minikafka.storage.config import INT64_MAX, UNLIMITED, LogConfig

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS

_CODECS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_TIMESTAMP_TYPES: Final = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


class TopicConfig(NamedTuple):
    """What the broker needs to know of a topic; replaced whole when one of its values changes."""

    log: LogConfig
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    leader_throttled_replicas: frozenset[str] = frozenset()
    """As they were given: partition:broker, or * for all."""
    follower_throttled_replicas: frozenset[str] = frozenset()


def topic_defaults(settings: Settings) -> dict[str, Value]:
    """The value of every topic key where a topic has no override."""
    values = {name: _default(settings, key) for name, key in topic_keys().items()}
    values["segment.ms"] = _first(settings, ("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS))
    values["segment.jitter.ms"] = _first(settings, ("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS))
    values["flush.ms"] = _first(settings, ("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1))
    units = (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS))
    values["retention.ms"] = max(_first(settings, *units), UNLIMITED)
    # Kafka from 3.0 on has one format, whatever the key says.
    values["message.format.version"] = topic_keys()["message.format.version"].default
    for side in ("before", "after"):
        values[f"message.timestamp.{side}.max.ms"] = _timestamp_limit(values, side)
    return values


def parse_override(name: str, text: str) -> Value:
    """The value of an override, or an InvalidConfigError."""
    key = topic_keys().get(name)
    if key is None:
        raise InvalidConfigError(unknown(name, topic_keys()))
    try:
        return parse(key, text)
    except BadValue as error:
        raise InvalidConfigError(f"{assignment(name, text, key.secret)}: {error}") from None


def topic_values(defaults: Mapping[str, Value], overrides: Mapping[str, str]) -> dict[str, Value]:
    """The value of every topic key, or an InvalidConfigError."""
    values = {**defaults, **{name: parse_override(name, text) for name, text in overrides.items()}}
    _check(values)
    return values


def topic_config(values: Mapping[str, Any], producer_id_expiration_ms: int) -> TopicConfig:
    policy, codec = values["cleanup.policy"], _CODECS.get(values["compression.type"])
    compact, max_lag_ms = "compact" in policy, values["max.compaction.lag.ms"]
    log = LogConfig(
        segment_bytes=values["segment.bytes"],
        # A record is compacted in time only if its segment is rolled in time.
        segment_ms=min(values["segment.ms"], max_lag_ms) if compact else values["segment.ms"],
        segment_index_bytes=values["segment.index.bytes"],
        index_interval_bytes=values["index.interval.bytes"],
        flush_messages=values["flush.messages"],
        flush_ms=values["flush.ms"],
        retention_ms=values["retention.ms"],
        retention_bytes=values["retention.bytes"],
        file_delete_delay_ms=values["file.delete.delay.ms"],
        cleanup_delete="delete" in policy,
        cleanup_compact=compact,
        min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
        min_compaction_lag_ms=values["min.compaction.lag.ms"],
        max_compaction_lag_ms=max_lag_ms,
        delete_retention_ms=values["delete.retention.ms"],
        max_message_bytes=values["max.message.bytes"],
        timestamp_type=_TIMESTAMP_TYPES[values["message.timestamp.type"]],
        timestamp_before_max_ms=_timestamp_limit(values, "before"),
        timestamp_after_max_ms=_timestamp_limit(values, "after"),
        compression=codec,
        compression_level=_level(values, codec),
        producer_id_expiration_ms=producer_id_expiration_ms,
    )
    return TopicConfig(
        log=log,
        min_insync_replicas=values["min.insync.replicas"],
        unclean_leader_election_enable=values["unclean.leader.election.enable"],
        leader_throttled_replicas=frozenset(values["leader.replication.throttled.replicas"]),
        follower_throttled_replicas=frozenset(values["follower.replication.throttled.replicas"]),
    )


def _default(settings: Settings, key: Key) -> Value:
    if key.broker is not None:
        return settings.value(key.broker)
    return None if key.default is None else parse(key, key.default)


def _first(settings: Settings, *names: tuple[str, int]) -> int:
    """The first of several keys that is set, in units of the finest; the last of them has a default."""
    for name, unit in names:
        if settings.value(name) is not None:
            return settings.number(name) * unit
    raise AssertionError(names)


def _timestamp_limit(values: Mapping[str, Any], side: str) -> int:
    """The limit on one side if there is one, else the older key's limit for both."""
    limit: int = values[f"message.timestamp.{side}.max.ms"]
    both: int = values["message.timestamp.difference.max.ms"]
    return both if limit == INT64_MAX else limit


def _level(values: Mapping[str, Any], codec: Compression | None) -> int | None:
    """The effort to compress with; None is the codec's usual one, by which Kafka means its own default."""
    if codec not in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
        return None
    name = f"compression.{codec.name.lower()}.level"
    level: int = values[name]
    return None if level == _default_level(name) else level


@cache
def _default_level(name: str) -> int:
    return int(topic_keys()[name].default or 0)


def _check(values: Mapping[str, Any]) -> None:
    """What a topic's values must be together."""
    low_ms, high_ms = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if low_ms > high_ms:
        raise InvalidConfigError(f"min.compaction.lag.ms={low_ms} is above max.compaction.lag.ms={high_ms}")
    for name in ("remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable"):
        if values[name]:
            raise InvalidConfigError(f"{name} must be false: there is no tiered storage")
