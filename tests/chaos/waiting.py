"""Waiting in threads for what has no event of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LOOK_SECONDS = 0.05


class NotInTime(Exception):
    """What was awaited has not come."""


def wait_until(holds: Callable[[], object], seconds: float, what: str, *ignored: type[Exception]) -> None:
    """NotInTime if it does not hold by then; an error that is ignored is as good as no."""
    until = time.monotonic() + seconds
    while not _does_hold(holds, ignored):
        if time.monotonic() > until:
            raise NotInTime(f"{what}: not after {seconds:g} s")
        pause(_LOOK_SECONDS)


def _does_hold(holds: Callable[[], object], ignored: tuple[type[Exception], ...]) -> bool:
    try:
        return bool(holds())
    except ignored:
        return False


def pause(seconds: float) -> None:
    """Let time pass, for which alone a fault may last."""
    threading.Event().wait(seconds)
