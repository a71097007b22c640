"""The one error of this package."""

from __future__ import annotations


class BadFile(ValueError):
    """The bytes are not what such a file can hold; `position` is the first byte that is wrong."""

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return f"{self.reason}, at byte {self.position}"
