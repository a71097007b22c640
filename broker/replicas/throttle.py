"""Replication that is held back, so that replicas which catch up leave something of network and disk to clients.

A topic names the replicas that are throttled, on the side of the leader and of the follower, and a broker has a rate
for each side. What goes over for throttled replicas counts, and while it is more than the rate allows, those of them
that are not in sync are left out. One that is in sync never waits: producers wait for it.

The rate holds from the first moment on and not on average over some time, so a rate of a MB/s is one after the first
second, too: what has gone over is a debt that is paid off at the rate, and nothing more goes over until it is paid.

Pure, but for the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.replicas.partition import Partition

ALL: Final = "*"

_LOOK_MS: Final = 1_000
"""Another rate may hold by then."""


class Throttle:
    """One side of replication on one broker."""

    def __init__(
        self, rate: Callable[[], int | None], listed: Callable[[Partition], frozenset[str]], clock: Clock
    ) -> None:
        """`rate` is in bytes per second, None for as fast as can be; `listed` are the throttled replicas of a topic."""
        self._rate = rate
        self._listed = listed
        self._clock = clock
        self._debt_bytes = 0.0
        self._settled_ms = clock.monotonic_ms()

    def holds(self, partition: Partition) -> bool:
        """Whether this broker's replica of a partition is throttled, if it comes to that."""
        listed = self._listed(partition)
        return bool(listed) and (ALL in listed or f"{partition.index}:{partition.broker_id}" in listed)

    def record(self, count: int) -> None:
        """So many bytes have gone over for a throttled replica."""
        self._pay_off()
        self._debt_bytes += count

    @property
    def wait_ms(self) -> int:
        """How long nothing more may go over, at most until somebody looks again; 0 if it may now."""
        self._pay_off()
        rate = self._rate()
        # Less than a byte is none: it is what is left of fractions.
        if rate is None or (rate > 0 and self._debt_bytes < 1):
            return 0
        return min(_LOOK_MS, int(self._debt_bytes * 1000 / rate) + 1) if rate > 0 else _LOOK_MS

    def _pay_off(self) -> None:
        now_ms, rate = self._clock.monotonic_ms(), self._rate()
        paid_bytes = self._debt_bytes if rate is None else (now_ms - self._settled_ms) / 1000 * rate
        self._debt_bytes = max(0.0, self._debt_bytes - paid_bytes)
        self._settled_ms = now_ms
