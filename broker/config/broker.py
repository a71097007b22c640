"""A broker's configuration, typed and checked.

Every attribute bears the name of its key with underscores for points, and with it the unit: `log.retention.check.
interval.ms` is `log_retention_check_interval_ms`. Those that are more than the value of one key are made in `of`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from minikafka.broker.config.checks import check_settings, connection_overrides
from minikafka.broker.config.listeners import Listener, resolve_listeners
from minikafka.broker.config.settings import Settings
from minikafka.broker.config.topic import TopicConfig, topic_config, topic_defaults, topic_values
from minikafka.broker.config.values import Value, split


class BrokerConfig(NamedTuple):
    """All that the broker goes by; a change at run time makes a new one."""

    settings: Settings
    topic_defaults: Mapping[str, Value]

    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...] | None
    """None to tell everybody the address that they dialled."""
    inter_broker_listener_name: str
    control_plane_listener_name: str | None
    log_dirs: tuple[str, ...]
    max_connections_per_ip_overrides: Mapping[str, int]
    zookeeper_connection_timeout_ms: int

    broker_id: int
    """-1 to ask ZooKeeper for one above `reserved_broker_max_id`, and to `_replace` it here."""
    broker_id_generation_enable: bool
    reserved_broker_max_id: int
    broker_rack: str | None
    minikafka_durability: str
    minikafka_http_port: int

    zookeeper_connect: str
    zookeeper_session_timeout_ms: int
    zookeeper_max_in_flight_requests: int

    socket_listen_backlog_size: int
    socket_request_max_bytes: int
    max_connections: int
    max_connections_per_ip: int
    connections_max_idle_ms: int
    queued_max_request_bytes: int
    request_timeout_ms: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int

    auto_create_topics_enable: bool
    delete_topic_enable: bool
    num_partitions: int
    default_replication_factor: int

    log_retention_check_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_cleaner_enable: bool
    log_cleaner_backoff_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int

    replica_selector_class: str | None
    replica_lag_time_max_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    leader_replication_throttled_rate: int | None
    follower_replication_throttled_rate: int | None

    controller_socket_timeout_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    controlled_shutdown_enable: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int

    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int

    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The values of these settings, or one ConfigError."""
        defaults = topic_defaults(settings)
        check_settings(settings, defaults)
        addresses = resolve_listeners(settings)
        timeout_ms = settings.value("zookeeper.connection.timeout.ms")
        made: dict[str, Any] = {
            "settings": settings,
            "topic_defaults": defaults,
            "listeners": addresses.listeners,
            "advertised_listeners": addresses.advertised,
            "inter_broker_listener_name": addresses.inter_broker,
            "control_plane_listener_name": addresses.control_plane,
            "log_dirs": _log_dirs(settings),
            "max_connections_per_ip_overrides": connection_overrides(settings),
            "zookeeper_connection_timeout_ms": settings.value("zookeeper.session.timeout.ms")
            if timeout_ms is None
            else timeout_ms,
        }
        for name in cls._fields:
            if name not in made:
                made[name] = settings.value(name.replace("_", "."))
        return cls(**made)

    def __repr__(self) -> str:
        return f"BrokerConfig(broker_id={self.broker_id}, {self.settings!r})"

    @property
    def is_rack_aware(self) -> bool:
        """Whether consumers are sent to a replica in their own rack; Kafka's name for what does so is Java's."""
        return (self.replica_selector_class or "").endswith("RackAwareReplicaSelector")

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """One topic's settings, or an InvalidConfigError."""
        return topic_config(topic_values(self.topic_defaults, overrides), self.producer_id_expiration_ms)


def _log_dirs(settings: Settings) -> tuple[str, ...]:
    key = "log.dir" if settings.text("log.dirs") is None else "log.dirs"
    found = tuple(each for each in split(settings.text(key) or "") if each)
    if not found:
        raise settings.error([key], "must name at least one directory")
    if len(set(found)) < len(found):
        raise settings.error([key], "the same directory is there twice")
    return found
