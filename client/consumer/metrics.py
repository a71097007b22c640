"""What a consumer has done so far and where it stands, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field

from minikafka.client.structs import TopicPartition


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """Counts are since the start, the rest is of now."""

    records_read: int = 0
    """Records of all batches that were begun."""
    bytes_fetched: int = 0
    """Of batches, as they came over the wire."""
    fetch_requests: int = 0
    commits: int = 0
    rebalances: int = 0
    buffered_bytes: int = 0
    """What waits to be read."""
    assigned_partitions: int = 0
    lag: dict[TopicPartition, int | None] = field(default_factory=dict)
    """How far each assigned partition is behind; None if it is not known yet."""

    @property
    def lag_max(self) -> int | None:
        return max((lag for lag in self.lag.values() if lag is not None), default=None)
