"""What all partitions of a broker have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from minikafka.broker.clock import Clock
from minikafka.broker.replicas.flusher import Flusher
from minikafka.storage.log_dir import LogDir

if TYPE_CHECKING:
    from minikafka.broker.replicas.partition import Partition


class Keepers(NamedTuple):
    """Who looks after partitions."""

    clock: Clock
    flusher: Flusher
    on_disk_failure: Callable[[LogDir, str], None]
    lag_ms_max: Callable[[], int]
    """How long a follower may be behind and still be in sync."""
    broker_epochs: Callable[[], Mapping[int, int]]
    """Of the brokers that are alive."""
    on_proposal: Callable[[Partition], None]
    """The leader wants another ISR."""
