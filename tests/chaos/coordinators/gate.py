"""Where somebody can be stopped between two steps, so that something can be done to the cluster just then."""

from __future__ import annotations

import threading
from typing import NamedTuple

from tests.chaos.waiting import NotInTime

_HELD_SECONDS_MAX = 120.0


class Die(Exception):
    """Whoever is stopped is to end here, and to be followed by another after some time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class SendLate(Exception):
    """Whoever is stopped is to have its next request held back, and not to wait for it."""


class Order(NamedTuple):
    """What somebody is told who was stopped; without anything it goes on."""

    die_after_seconds: float | None = None
    send_late: bool = False


GO_ON = Order()


class Gate:
    """One for each thread that takes steps."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._wanted: str | None = None
        self._is_here = False
        self._order: Order | None = None

    def hold(self, step: str, seconds: float) -> None:
        """Have it stopped before a step, and wait until it has come there."""
        with self._lock:
            # Whoever was let go just now has to be gone first.
            self._lock.wait_for(lambda: not self._is_here, seconds)
            self._wanted, self._order = step, None
            self._wait_here(seconds)

    def move(self, order: Order, step: str, seconds: float) -> None:
        """Give an order to whoever is stopped, and have it stopped again, the next time it comes to a step."""
        with self._lock:
            self._wanted, self._order = step, order
            self._lock.notify_all()
            self._wait_here(seconds)

    def _wait_here(self, seconds: float) -> None:
        if not self._lock.wait_for(lambda: self._is_here and self._order is None, seconds):
            step, self._wanted = self._wanted, None
            raise NotInTime(f"nobody came to '{step}' within {seconds:g} s")

    def let_go(self, order: Order = GO_ON) -> None:
        with self._lock:
            self._wanted, self._order = None, order
            self._lock.notify_all()

    def come(self, step: str) -> None:
        """Called by the thread before it takes a step."""
        with self._lock:
            if step != self._wanted:
                return
            self._is_here = True
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._order is not None, _HELD_SECONDS_MAX)
            order, self._order, self._is_here = self._order or GO_ON, None, False
            self._lock.notify_all()
        if order.die_after_seconds is not None:
            raise Die(order.die_after_seconds)
        if order.send_late:
            raise SendLate
