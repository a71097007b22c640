"""The frame of a response, and its place in the order of responses."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from minikafka.protocol.varint import Buffer

if TYPE_CHECKING:
    from minikafka.broker.network.connection import Connection

Parts = list[Buffer]
Reply = Parts | Awaitable[Parts | None] | None
"""The frame of a response, or None where none is due; at once or later."""


class Serve(Protocol):
    """What takes the requests: `dispatch.Dispatcher`."""

    def __call__(self, connection: Connection, frame: bytes | bytearray) -> Reply: ...


class Shortcut(Protocol):
    """What may answer a request that is like an earlier one of its connection, undecoded; None if it does not."""

    def __call__(self, frame: bytearray) -> Reply: ...


class Slot:
    """The place of one response in the order of responses."""

    __slots__ = ("is_ready", "parts", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        """What it makes its connection hold: the request until it is done with, then the response."""
        self.parts: Parts | None = None
        self.is_ready = False
