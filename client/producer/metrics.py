"""What a producer has done so far, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ProducerMetrics:
    """A snapshot; counts are since the start of the producer."""

    records_delivered: int = 0
    records_failed: int = 0
    batches_delivered: int = 0
    batches_retried: int = 0
    batches_split: int = 0
    requests: int = 0
    bytes_sent: int = 0
    """Batches as they went over the wire, retries included."""
    record_bytes_sent: int = 0
    """The same before compression, as it was estimated."""
    epoch_bumps: int = 0
    requests_in_flight: int = 0
    buffered_bytes: int = 0
    """Records that have no answer yet."""
    buffered_batches: int = 0
