"""The client under test by one interface, so that a workload is written once.

`find(name)` gives the factory of a client. Whatever goes wrong is a `Trouble`, whose kind says what a program can do.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto
from typing import NamedTuple, Protocol, cast

from tests.chaos.history import Seen

NAMES = ("minikafka", "aiokafka", "confluent")


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Kind(Enum):
    """What a program can do after an error."""

    RETRY = auto()
    """The same call again."""
    ABORT = auto()
    """Abort the transaction, or read again from what is committed."""
    FATAL = auto()
    """Close the client and make another."""


class Trouble(Exception):
    """An error of the client under test."""

    def __init__(self, kind: Kind, text: str, name: str) -> None:
        super().__init__(text)
        self.kind, self.name = kind, name


class ProducerSettings(NamedTuple):
    """Options by meaning."""

    bootstrap: str
    client_id: str
    delivery_ms: int = 10_000
    request_ms: int = 3_000
    linger_ms: int = 0
    batch_bytes: int = 16_384
    transactional_id: str | None = None
    transaction_ms: int = 15_000


class ConsumerSettings(NamedTuple):
    """Options by meaning. Nothing is committed automatically."""

    bootstrap: str
    client_id: str
    group: str | None = None
    static_id: str | None = None
    strategy: str = "range"
    """Or `roundrobin`, `sticky` (eager), `cooperative`."""
    reset: str = "earliest"
    isolation: str = "read_uncommitted"
    session_ms: int = 6_000
    heartbeat_ms: int = 300
    request_ms: int = 3_000
    fetch_wait_ms: int = 100
    partition_bytes: int = 1 << 20


class Watcher(NamedTuple):
    """Who is called when partitions come and go, from whatever thread."""

    assigned: Callable[[list[Place]], None]
    revoked: Callable[[list[Place]], None]


class ProducerUnderTest(Protocol):
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def send(self, place: Place, value: bytes) -> Awaitable[int]:
        """Buffer a record; what is returned gives its offset or raises a Trouble."""

    async def flush(self) -> None: ...
    async def begin(self) -> None: ...
    async def commit(self) -> None: ...
    async def abort(self) -> None: ...
    async def send_offsets(self, offsets: Mapping[Place, int], metadata: object) -> None: ...


class ConsumerUnderTest(Protocol):
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def subscribe(self, topics: list[str], watcher: Watcher) -> None: ...
    async def subscribe_pattern(self, pattern: str, watcher: Watcher) -> None: ...
    async def assign(self, places: list[Place]) -> None: ...
    async def poll(self, seconds: float, count: int) -> list[Seen]:
        """What comes, as numbers; partitions by their names."""

    async def commit(self, offsets: Mapping[Place, int] | None) -> None:
        """These offsets, or those of everything that was given."""

    async def rewind(self) -> None:
        """Go on from what is committed, or from the beginning, in all partitions that are assigned."""

    def metadata(self) -> object:
        """For `send_offsets`."""


class Client(Protocol):
    """A module of this package."""

    def producer(self, settings: ProducerSettings) -> ProducerUnderTest: ...
    def consumer(self, settings: ConsumerSettings) -> ConsumerUnderTest: ...


def find(name: str) -> Client:
    return cast(Client, importlib.import_module(f"{__name__}.{name}"))


def parse_place(name: str) -> Place:
    topic, _, partition = name.rpartition("-")
    return Place(topic, int(partition))
