"""Takes the place of a module of the suite that its source distribution lacks: the one that starts brokers.

The broker is there already, so there is nothing to start. This file is copied into the unpacked suite, so it imports
nothing of this project.
"""

from __future__ import annotations

from typing import Any


class ExternalService:
    """A broker that somebody else has started and will end."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """It is open."""

    def close(self) -> None:
        """It stays open."""

    def dump_logs(self) -> None:
        """They are elsewhere."""


class SpawnedService:
    """Named by the suite, and never used with a broker that runs already."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise RuntimeError("the suite has to use the broker it was given")
