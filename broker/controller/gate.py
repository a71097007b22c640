"""Metadata waits until those who are to lead have heard of it.

A client that hears of a leader before the leader does is refused by it, and what it has sent meanwhile may be not: its
producer has a gap in its sequence, for which it may start over with a new epoch and write twice what it had no answer
for. So everybody is told of leaders once these have answered. One that does not is not waited for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

SHUT_SECONDS: Final = 0.25


class Gate:
    """Shut while somebody is to hear of roles."""

    def __init__(self, on_open: Callable[[], None]) -> None:
        self._on_open = on_open
        self._awaited: dict[object, asyncio.TimerHandle] = {}

    @property
    def is_shut(self) -> bool:
        return bool(self._awaited)

    def shut(self, channel: object) -> None:
        """There is something to hear; how long it is waited for counts from the first thing that was not heard."""
        if channel not in self._awaited:
            loop = asyncio.get_running_loop()
            self._awaited[channel] = loop.call_later(SHUT_SECONDS, self.open, channel)

    def open(self, channel: object) -> None:
        """Everything was heard there, or never will be."""
        timer = self._awaited.pop(channel, None)
        if timer is not None:
            timer.cancel()
            if not self._awaited:
                self._on_open()
