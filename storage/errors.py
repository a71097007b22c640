"""What the storage raises when the fault is the disk's and not a peer's.

A `StorageError` takes the log directory offline: what is on disk is no longer known, so nothing more is acknowledged
from there. The peer's faults are errors of the protocol, raised as such; faults of ours are assertions.
"""

from __future__ import annotations


class StorageError(Exception):
    """The disk failed, or holds what it must not; the log directory has to go offline."""


class CorruptLog(StorageError):
    """A file is bad where it must be good, at a byte of which the position is known."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        # Exactly the arguments given, so that copies and pickles are made from them.
        super().__init__(path, position, reason)
        self.path = path
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}: {self.reason}"


class ReadOvertaken(Exception):
    """What was to be read has left the log, and its file is closed: no fault of the disk, the read is planned again."""
