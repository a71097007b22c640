"""Options of a producer, beside those that every client has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from minikafka.client.config import ClientConfig, ClientOptions
from minikafka.client.errors import ConfigError
from minikafka.client.options import option
from minikafka.client.producer.partitioners import Partitioner, find_partitioner
from minikafka.client.producer.sequences import Mode
from minikafka.client.serializers import Serializer, find_serializer
from minikafka.protocol.compression import Compression

COMPRESSION_TYPES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS: Final = (0, 1, -1, "0", "1", "-1", "all")

COMPRESSION_LEVELS: Final = {"gzip": (-1, 9), "lz4": (-1, 17), "zstd": (-(1 << 17), 22)}
"""The lowest and the highest level of the codecs that have levels."""

IN_FLIGHT_MAX: Final = 5
"""A broker remembers the last five batches of a producer, and takes a sixth that comes again for a new one."""

RECORDS_MAX: Final = 1 << 13
"""Records of one batch: their offset deltas take at most two bytes, which is what building many at once is made for."""


class ProducerOptions(ClientOptions, total=False):
    """The same names as keyword arguments, for type checkers and editors."""

    acks: int | str
    enable_idempotence: bool | None
    compression_type: str | None
    compression_level: int | None
    linger_ms: int | float
    max_batch_size: int
    max_request_size: int
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: int
    buffer_memory: int
    max_block_ms: int
    partitioner: Partitioner | str | None
    key_serializer: Serializer | str | None
    value_serializer: Serializer | str | None
    transactional_id: str | None
    transaction_timeout_ms: int


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """What a producer needs to know."""

    acks: int | str = option("all", "acks", "request.required.acks", choices=ACKS)
    """0: do not ask for an answer. 1: the leader has it. "all" (or -1): all in-sync replicas have it."""
    enable_idempotence: bool | None = option(None)
    """Whether records are neither doubled nor reordered by retries; None: where `acks` is "all"."""
    compression_type: str | None = option(
        "lz4", "compression.type", "compression.codec", choices=(*COMPRESSION_TYPES, None)
    )
    compression_level: int | None = option(None, "compression.level")
    """On the codec's own scale, for gzip, lz4 and zstd; others take no notice."""
    linger_ms: int | float = option(0, "linger.ms", "queue.buffering.max.ms", low=0)
    """How long a record waits for others to fill its batch; batches also grow while requests are in flight."""
    max_batch_size: int = option(1 << 18, "batch.size", low=1)
    """Bytes of a batch before compression. A batch takes memory as it fills, so large ones cost nothing."""
    max_request_size: int = option(1 << 20, "max.request.size", "message.max.bytes", low=1)
    """Bytes of a request before compression, and so of a record."""
    max_in_flight_requests_per_connection: int = option(
        IN_FLIGHT_MAX, "max.in.flight.requests.per.connection", "max.in.flight", low=1
    )
    delivery_timeout_ms: int = option(120_000, "delivery.timeout.ms", "message.timeout.ms", low=1)
    """How long after `send` a record may take to be acknowledged, all retries included."""
    buffer_memory: int = option(32 << 20, "buffer.memory", low=1)
    """Bytes of records that are not acknowledged yet; above it, `send` waits."""
    max_block_ms: int = option(60_000, low=1)
    """How long `send` waits for a topic to be known, and starting for a producer id."""
    partitioner: Partitioner | str | None = option(None)
    key_serializer: Serializer | str | None = option(None)
    value_serializer: Serializer | str | None = option(None)
    transactional_id: str | None = option(None)
    transaction_timeout_ms: int = option(60_000, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        find_partitioner(self.partitioner)
        find_serializer(self.key_serializer)
        find_serializer(self.value_serializer)
        self._check_level()
        if self.enable_idempotence and self.acks_wanted != -1:
            raise ConfigError("enable_idempotence needs acks='all'")
        if self.transactional_id is not None and not self.is_idempotent:
            raise ConfigError("transactional_id needs acks='all', and enable_idempotence not to be False")
        if self.is_idempotent and self.max_in_flight_requests_per_connection > IN_FLIGHT_MAX:
            raise ConfigError(
                f"with enable_idempotence, max_in_flight_requests_per_connection is {IN_FLIGHT_MAX} at most"
            )

    def _check_level(self) -> None:
        level, limits = self.compression_level, COMPRESSION_LEVELS.get(self.compression_type or "none")
        if level is not None and limits is not None and not limits[0] <= level <= limits[1]:
            raise ConfigError(
                f"compression_level of {self.compression_type} is from {limits[0]} to {limits[1]}, not {level}"
            )

    @property
    def acks_wanted(self) -> int:
        """The acks by the number of the protocol."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def is_idempotent(self) -> bool:
        return self.acks_wanted == -1 if self.enable_idempotence is None else self.enable_idempotence

    @property
    def mode(self) -> Mode:
        if self.transactional_id is not None:
            return Mode.TRANSACTIONAL
        return Mode.IDEMPOTENT if self.is_idempotent else Mode.PLAIN

    @property
    def compression(self) -> Compression:
        return Compression[(self.compression_type or "none").upper()]
