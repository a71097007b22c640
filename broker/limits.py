"""What a broker's configuration allows its clients."""

from __future__ import annotations

from typing import Final

from minikafka.broker.config.broker import BrokerConfig
from minikafka.broker.network.connection import ConnectionLimits
from minikafka.broker.network.server import ServerLimits
from minikafka.broker.network.shares import MEMORY_BYTES

_IN_FLIGHT_BYTES_MAX: Final = 32 << 20
"""Of one connection. A producer has five requests of a megabyte in flight, so this is beyond what any one needs."""

_UNFINISHED_FRAME_MS_MAX: Final = 30_000
"""A peer that stops in the middle of a request is gone; one that is idle between requests is not."""


def _memory_bytes(config: BrokerConfig) -> int:
    """Room for the largest request in any case."""
    if config.queued_max_request_bytes > 0:
        return config.queued_max_request_bytes
    return max(MEMORY_BYTES, config.socket_request_max_bytes)


def _of_brokers(config: BrokerConfig) -> set[str]:
    return {config.inter_broker_listener_name, config.control_plane_listener_name or ""}


def server_limits(config: BrokerConfig) -> ServerLimits:
    """The limits of this configuration; made anew when it changes."""
    idle_ms = config.connections_max_idle_ms
    return ServerLimits(
        connection=ConnectionLimits(
            frame_bytes_max=config.socket_request_max_bytes, in_flight_bytes_max=_IN_FLIGHT_BYTES_MAX
        ),
        memory_bytes=_memory_bytes(config),
        connections_max=config.max_connections,
        connections_per_ip_max=config.max_connections_per_ip,
        # A negative time is none at all.
        idle_ms_max=idle_ms if idle_ms >= 0 else 1 << 62,
        unfinished_frame_ms_max=_UNFINISHED_FRAME_MS_MAX,
        backlog=config.socket_listen_backlog_size,
        per_ip_overrides=config.max_connections_per_ip_overrides,
        # Kafka's rule: where all share one listener, nobody can tell brokers from others by it.
        protected=frozenset(_of_brokers(config) if len(config.listeners) > 1 else ()),
        per_listener={each.name: each.max_connections for each in config.listeners if each.max_connections is not None},
    )
