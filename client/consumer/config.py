"""The options of a consumer. Names are aiokafka's; `from_config` takes Kafka's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from minikafka.client.config import ClientConfig, ClientOptions
from minikafka.client.consumer.assignors import Assignor, find_assignors
from minikafka.client.errors import ConfigError
from minikafka.client.options import option
from minikafka.client.serializers import Deserializer, find_deserializer
from minikafka.protocol.records import RECORD_BYTES_MAX

RESET_POLICIES: Final = ("earliest", "latest", "none")
ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")

_POLICY_NAMES: Final = {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest"}
"""What older clients and librdkafka call them."""


class Isolation(IntEnum):
    """Isolation levels by the numbers of the protocol."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


def _policy(text: str) -> str:
    return _POLICY_NAMES.get(text.strip().lower(), text.strip().lower())


class ConsumerOptions(ClientOptions, total=False):
    """The names of `ConsumerConfig` as keyword arguments, for type checkers and editors."""

    group_id: str | None
    group_instance_id: str | None
    key_deserializer: Deserializer | str | None
    value_deserializer: Deserializer | str | None
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    max_buffered_bytes: int
    check_crcs: bool
    isolation_level: str
    client_rack: str | None
    max_poll_records: int | None
    consumer_timeout_ms: int | None
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    partition_assignment_strategy: str | Sequence[str | Assignor | type[Assignor]]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    rebalance_timeout_ms: int | None
    exclude_internal_topics: bool


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """What a consumer reads, how far ahead, and how it takes part in a group."""

    group_id: str | None = option(None)
    group_instance_id: str | None = option(None)
    """A name that outlives restarts: a member that comes back under it finds its partitions as they were."""
    key_deserializer: Deserializer | str | None = option(None, "key.deserializer")
    value_deserializer: Deserializer | str | None = option(None, "value.deserializer")

    fetch_min_bytes: int = option(1, low=0)
    fetch_max_wait_ms: int = option(500, "fetch.max.wait.ms", "fetch.wait.max.ms", low=0)
    fetch_max_bytes: int = option(50 << 20, low=1)
    max_partition_fetch_bytes: int = option(
        1 << 20, "max.partition.fetch.bytes", "fetch.message.max.bytes", "message.max.bytes", low=1
    )
    max_buffered_bytes: int = option(64 << 20, "max.buffered.bytes", low=1)
    """How much may be fetched ahead of what was read, as it comes over the wire, in flight or waiting."""
    max_record_bytes: int = option(RECORD_BYTES_MAX, "max.record.bytes", low=1)
    """Larger records are not inflated, but reported with their partition and offset. Compressed ones only."""
    check_crcs: bool = option(True, "check.crcs")
    isolation_level: str = option("read_uncommitted", choices=ISOLATION_LEVELS)
    client_rack: str | None = option(None)
    """Where this client is: brokers may then name a replica nearby to read from."""
    max_poll_records: int | None = option(None, low=1)
    """How many records `getmany` and `getbatch` return at most."""
    consumer_timeout_ms: int | None = option(None, low=0)
    """How long `async for` waits for a record before it ends; None is for ever."""

    auto_offset_reset: str = option("latest", choices=RESET_POLICIES, convert=_policy)
    enable_auto_commit: bool = option(True, "enable.auto.commit")
    auto_commit_interval_ms: int = option(5_000, low=1)

    partition_assignment_strategy: str | Sequence[str | Assignor | type[Assignor]] = option(
        ("sticky", "roundrobin", "range"), "partition.assignment.strategy"
    )
    """Assignors by preference: a group uses the one that all its members have and most prefer. The defaults have one in
    common with those of every other client. Cooperative rebalances need "cooperative-sticky" alone."""
    session_timeout_ms: int = option(45_000, low=1)
    heartbeat_interval_ms: int = option(3_000, low=1)
    max_poll_interval_ms: int = option(300_000, low=1)
    """How long a program may take for what it was given before its partitions go to others."""
    rebalance_timeout_ms: int | None = option(None, low=1)
    """How long a rebalance waits for this member; None is `session_timeout_ms`. Half of it is for records in hand: if
    their partition is to go to others, the program can finish and commit them meanwhile."""
    exclude_internal_topics: bool = option(True, "exclude.internal.topics")
    """Whether a pattern leaves out the topics in which Kafka keeps its own state."""

    def __post_init__(self) -> None:
        super().__post_init__()
        find_assignors(self.partition_assignment_strategy)
        find_deserializer(self.key_deserializer)
        find_deserializer(self.value_deserializer)
        if self.group_id == "":
            raise ConfigError("group_id must not be empty")
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigError("group_instance_id needs a group_id")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError("heartbeat_interval_ms must be less than session_timeout_ms")

    @property
    def assignors(self) -> tuple[Assignor, ...]:
        return find_assignors(self.partition_assignment_strategy)

    @property
    def isolation(self) -> Isolation:
        return Isolation(ISOLATION_LEVELS.index(self.isolation_level))

    @property
    def rebalance_wait_ms(self) -> int:
        return self.session_timeout_ms if self.rebalance_timeout_ms is None else self.rebalance_timeout_ms

    @property
    def revocation_wait_ms(self) -> int:
        """How long a rebalance that takes a partition away waits for the program to come back from records of it. What
        is left of the group's time is for the last commit, the listener, and joining."""
        return self.rebalance_wait_ms // 2
