"""The history of one seed, in the form of `tests.chaos.history`."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.chaos.history import Event, Kind


class History:
    """Events in the order of their times. Any thread may write."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._lock = threading.Lock()

    def write(self, process: str, kind: Kind, f: str, **fields: Any) -> None:
        with self._lock:
            self.events.append(Event(time.monotonic(), process, kind, f, **fields))
