"""File descriptors are kept for logs: connections get what is left, and a topic that does not fit is refused.

A log that cannot be opened because connections have taken all descriptors looks like a disk that has failed. So the
descriptors of all logs that are here, and some for those to come, are taken off the limit before connections are let
in; and nobody makes more logs than there is room for, which would keep the broker from starting again.

Counted is one file a segment. Indexes are opened when they are read, and are what the part kept in reserve is for, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

UNLIMITED: Final = 1 << 30

_OTHERS: Final = 64
"""ZooKeeper, the HTTP port, locks and checkpoints, connections to other brokers, files that are being cleaned."""

_RESERVE_PART: Final = 10
"""One part in so many is kept for logs and indexes to come."""


class Descriptors:
    """See the module's description."""

    def __init__(self, limit: int = UNLIMITED) -> None:
        self.limit = limit
        self.count_logs: Callable[[], int] = lambda: 0
        """How many files the logs have open, or are about to."""
        self.count_connections: Callable[[], int] = lambda: 0

    @property
    def connections_max(self) -> int:
        """How many connections of clients there may be."""
        return self._left - self.limit // _RESERVE_PART

    @property
    def logs_left(self) -> int:
        """How many more logs can be made."""
        return self._left - self.count_connections()

    @property
    def _left(self) -> int:
        return self.limit - _OTHERS - self.count_logs()
