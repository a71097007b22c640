"""What a partition's log needs to know of its topic's configuration; names and defaults are Kafka's."""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.protocol.compression import Compression
from minikafka.protocol.records.layout import TimestampType

INT64_MAX: Final = 2**63 - 1
UNLIMITED: Final = -1

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


class LogConfig(NamedTuple):
    """One topic's settings; replaced whole when one of them changes."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096

    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX

    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = UNLIMITED
    file_delete_delay_ms: int = 60_000
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    delete_retention_ms: int = DAY_MS

    max_message_bytes: int = 1_048_588
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = INT64_MAX
    compression: Compression | None = None
    """The codec to store batches in; None keeps the producer's."""
    compression_level: int | None = None

    producer_id_expiration_ms: int = DAY_MS

    @property
    def roll_ms(self) -> int:
        """How long a segment is written to: compaction leaves the active one alone, so it must not be for too long."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.cleanup_compact else self.segment_ms
