"""One order for what begins on this broker: connections, and what must be older or younger than one of them.

Kafka's requests for the end of a transaction do not say which transaction they end. A request that its sender has given
up comes over a connection from before the sender went on; whatever began since has a higher number than it.
"""

from __future__ import annotations


class Arrivals:
    """Numbers that only rise, for as long as the process runs; so do its connections."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last += 1
        return self._last
