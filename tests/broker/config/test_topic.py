"""What a topic's log is told: overrides over the broker's settings over the defaults."""

import pytest

from minikafka.broker.config.topic import TopicConfig
from minikafka.protocol.compression import Compression
from minikafka.protocol.errors import InvalidConfigError
from minikafka.protocol.records.layout import TimestampType
from minikafka.storage.config import LogConfig
from tests.broker.config.recorded import config_of

HOUR_MS = 3_600_000


def log_of(broker: dict[str, str], topic: dict[str, str] | None = None) -> LogConfig:
    return config_of(broker).topic_config(topic or {}).log


def test_the_defaults_are_those_of_the_storage() -> None:
    config = config_of().topic_config({})
    assert config.log == LogConfig()
    assert config == TopicConfig(LogConfig(), 1, False)


def test_every_override_arrives() -> None:
    overrides = {
        "segment.bytes": "1000",
        "segment.ms": "1001",
        "segment.index.bytes": "1002",
        "index.interval.bytes": "1003",
        "retention.ms": "1004",
        "retention.bytes": "1005",
        "file.delete.delay.ms": "1006",
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.1",
        "min.compaction.lag.ms": "1007",
        "max.compaction.lag.ms": "1008",
        "delete.retention.ms": "1009",
        "max.message.bytes": "1010",
        "message.timestamp.type": "LogAppendTime",
        "message.timestamp.before.max.ms": "1011",
        "message.timestamp.after.max.ms": "1012",
        "compression.type": "zstd",
        "compression.zstd.level": "7",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "true",
        "flush.messages": "1",
        "flush.ms": "9",
    }
    config = config_of({"producer.id.expiration.ms": "1013"}).topic_config(overrides)
    assert config == TopicConfig(
        log=LogConfig(
            segment_bytes=1000,
            segment_ms=1001,
            segment_index_bytes=1002,
            index_interval_bytes=1003,
            flush_messages=1,
            flush_ms=9,
            retention_ms=1004,
            retention_bytes=1005,
            file_delete_delay_ms=1006,
            cleanup_delete=False,
            cleanup_compact=True,
            min_cleanable_dirty_ratio=0.1,
            min_compaction_lag_ms=1007,
            max_compaction_lag_ms=1008,
            delete_retention_ms=1009,
            max_message_bytes=1010,
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            timestamp_before_max_ms=1011,
            timestamp_after_max_ms=1012,
            compression=Compression.ZSTD,
            compression_level=7,
            producer_id_expiration_ms=1013,
        ),
        min_insync_replicas=2,
        unclean_leader_election_enable=True,
    )


@pytest.mark.parametrize(
    ("broker", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.ms": "-1", "log.retention.hours": "2"}, -1),
        ({"log.retention.ms": "-9"}, -1),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_retention_by_the_finest_unit(broker: dict[str, str], retention_ms: int) -> None:
    assert log_of(broker).retention_ms == retention_ms
    assert log_of(broker, {"retention.ms": "77"}).retention_ms == 77


def test_time_of_rolling() -> None:
    assert log_of({"log.roll.hours": "2"}).segment_ms == 2 * HOUR_MS
    assert log_of({"log.roll.hours": "2", "log.roll.ms": "5"}).segment_ms == 5
    # What has to be compacted in time has to be rolled in time.
    lag = {"max.compaction.lag.ms": "1000"}
    assert log_of({}, lag).segment_ms == 168 * HOUR_MS
    assert log_of({}, {**lag, "cleanup.policy": "compact,delete"}).segment_ms == 1000


def test_flushing() -> None:
    assert config_of({"log.flush.scheduler.interval.ms": "8"}).topic_config({}).log.flush_ms == 8
    assert config_of({"log.flush.interval.ms": "7"}).topic_config({}).log.flush_ms == 7


def test_the_older_limit_on_timestamps() -> None:
    def limits(broker: dict[str, str], topic: dict[str, str]) -> tuple[int, int]:
        log = log_of(broker, topic)
        return log.timestamp_before_max_ms, log.timestamp_after_max_ms

    old = "message.timestamp.difference.max.ms"
    assert limits({f"log.{old}": "5"}, {}) == (5, 5)
    assert limits({f"log.{old}": "5", "log.message.timestamp.after.max.ms": "6"}, {}) == (5, 6)
    assert limits({}, {old: "7"}) == (7, 7)
    assert limits({}, {old: "7", "message.timestamp.before.max.ms": "8"}) == (8, 7)


@pytest.mark.parametrize(
    ("overrides", "codec", "level"),
    [
        ({}, None, None),
        ({"compression.type": "producer"}, None, None),
        ({"compression.type": "uncompressed"}, Compression.NONE, None),
        ({"compression.type": "snappy"}, Compression.SNAPPY, None),
        ({"compression.type": "gzip"}, Compression.GZIP, None),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, Compression.GZIP, 9),
        ({"compression.type": "lz4"}, Compression.LZ4, None),
        ({"compression.type": "lz4", "compression.lz4.level": "1", "compression.gzip.level": "2"}, Compression.LZ4, 1),
        ({"compression.type": "zstd", "compression.zstd.level": "3"}, Compression.ZSTD, None),
        ({"compression.type": "zstd", "compression.zstd.level": "0"}, Compression.ZSTD, 0),
    ],
)
def test_compression(overrides: dict[str, str], codec: Compression | None, level: int | None) -> None:
    log = log_of({}, overrides)
    assert (log.compression, log.compression_level) == (codec, level)


@pytest.mark.parametrize(
    ("policy", "delete", "compact"), [("", False, False), ("delete", True, False), (" compact , delete ", True, True)]
)
def test_cleanup_policies(policy: str, delete: bool, compact: bool) -> None:
    log = log_of({}, {"cleanup.policy": policy})
    assert (log.cleanup_delete, log.cleanup_compact) == (delete, compact)
    assert log_of({"log.cleanup.policy": policy}) == log_of({}, {"cleanup.policy": policy})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"retention.mss": "1"}, "unknown key 'retention.mss', did you mean 'retention.ms'?"),
        ({"retention.ms": "-2"}, "retention.ms='-2': must be a 64-bit whole number of at least -1"),
        ({"remote.storage.enable": "true"}, "remote.storage.enable must be false: there is no tiered storage"),
        (
            {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"},
            "min.compaction.lag.ms=6 is above max.compaction.lag.ms=5",
        ),
    ],
)
def test_what_a_topic_cannot_have(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError) as error:
        config_of().topic_config(overrides)
    assert error.value.message == message
