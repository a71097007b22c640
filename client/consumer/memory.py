"""How much may be fetched ahead: bytes that wait to be read and bytes that were asked for, together below a limit."""

from __future__ import annotations

from collections.abc import Callable


class Memory:
    """The account. Two things may overdraw it: a single batch that is larger than what was asked for, or it could never
    be read, and a request for a program that waits while everything here is of partitions it does not want now."""

    def __init__(self, limit_bytes: int, least_bytes: int, on_room: Callable[[], None]) -> None:
        """`on_room` is called when there is room again after there was none."""
        self.used_bytes = 0
        self.reserved_bytes = 0
        self._limit_bytes = limit_bytes
        # Not worth a request if there is less room than this.
        self._least_bytes = max(1, min(least_bytes, limit_bytes // 2))
        self._on_room = on_room

    @property
    def has_room(self) -> bool:
        return self._limit_bytes - self.used_bytes - self.reserved_bytes >= self._least_bytes

    def reserve(self, wanted_bytes: int, sharers: int = 1) -> int:
        """Set room aside for an answer: as much as is wanted, or as there is, but no more than a fair share if others
        want some, too. 0 if that is too little."""
        if not self.has_room:
            return 0
        share = max(self._least_bytes, self._limit_bytes // sharers)
        reserved = min(wanted_bytes, share, self._limit_bytes - self.used_bytes - self.reserved_bytes)
        self.reserved_bytes += reserved
        return reserved

    def overdraw(self) -> int:
        """Set aside as little as a request is worth, though there is no room for it."""
        self.reserved_bytes += self._least_bytes
        return self._least_bytes

    def settle(self, reserved_bytes: int) -> None:
        """The answer is there, or will not come; what it brought is counted by `take`."""
        had_room = self.has_room
        self.reserved_bytes -= reserved_bytes
        assert self.reserved_bytes >= 0
        self._tell(had_room)

    def take(self, fetched_bytes: int) -> None:
        self.used_bytes += fetched_bytes

    def free(self, read_bytes: int) -> None:
        had_room = self.has_room
        self.used_bytes -= read_bytes
        assert self.used_bytes >= 0
        self._tell(had_room)

    def _tell(self, had_room: bool) -> None:
        if not had_room and self.has_room:
            self._on_room()
