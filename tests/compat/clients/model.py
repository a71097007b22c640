"""What every adapter offers, and the words in which tests speak to all of them.

An adapter hides how a client is called, never what it got: offsets, timestamps and error codes are passed on as the
client reports them. Consumers are assigned their partitions; none joins a group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")

# Every broker has a copy of every partition.
REPLICATION_FACTOR = 3

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# No record for so long is a failure, not a wait.
READ_S = 15.0

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record to send. Without a timestamp the client sets one."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Delivered(NamedTuple):
    """What a producer is told about a record."""

    partition: int
    offset: int
    timestamp_ms: int


class Received(NamedTuple):
    """What a consumer gets."""

    partition: int
    offset: int
    timestamp_ms: int
    # Whether the broker has set the timestamp; None where the client does not tell.
    is_append_time: bool | None
    key: bytes | None
    value: bytes | None
    headers: Headers


class Producing(NamedTuple):
    """Settings of a producer."""

    codec: str = "none"
    acks: str = "all"
    is_idempotent: bool = False
    # The client's own limit; the broker's is what tests are about.
    request_bytes_max: int = 20_000_000


class Reading(NamedTuple):
    """Settings of a consumer."""

    partitions: Sequence[int] = (0,)
    offset: int = 0
    wait_ms: int = 500
    bytes_min: int = 1
    may_create_topics: bool = True
    # None leaves it to the client, and clients differ.
    isolation: str | None = None


PRODUCING = Producing()
READING = Reading()


class Refused(Exception):
    """An error a broker has answered with, by Kafka's code."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(code, text)
        self.code = code


class Client(Protocol):
    """A client with its producer and its consumer."""

    name: str
    # kcat can neither set a timestamp nor tell what its records became.
    sets_timestamps: bool
    tells_deliveries: bool

    def produce(
        self, topic: str, records: Sequence[Record], partition: int | None = 0, how: Producing = PRODUCING
    ) -> list[Delivered]:
        """Send all records and wait for the answers."""
        ...

    def read(self, topic: str, count: int, how: Reading = READING) -> Generator[Received, None, None]:
        """Yield so many records, each within `READ_S`."""
        ...

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        """The first offset of partition 0 that is not older, None if there is none."""
        ...


class Described(NamedTuple):
    """The cluster as an admin client sees it."""

    cluster_id: str
    controller: int
    brokers: set[int]


class Admin(Protocol):
    """A client's administrative side."""

    def create_topic(
        self,
        topic: str,
        partitions: int | Mapping[int, list[int]] = 1,
        configs: Mapping[str, str] = {},
        is_trial: bool = False,
    ) -> None:
        """Create a topic with so many partitions, or with the given assignment of them."""
        ...

    def delete_topic(self, topic: str) -> None: ...

    def leaders(self, topic: str) -> dict[int, int]: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def topic_configs(self, topic: str) -> dict[str, str]: ...

    def set_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None: ...

    def delete_records(self, topic: str, before: int) -> int:
        """Delete the beginning of partition 0, and say where it begins now."""
        ...

    def describe_cluster(self) -> Described: ...


def rows(received: Sequence[Received]) -> list[Record]:
    """What was sent, out of what came, where timestamps do not matter."""
    return [Record(one.value, one.key, one.headers) for one in received]


def eventually(look: Callable[[], T], is_right: Callable[[T], bool], limit_s: float = READ_S) -> T:
    """Look until it is right. A change reaches every broker soon, but not at once, and any of them may be asked."""
    end = time.monotonic() + limit_s
    while True:
        try:
            seen: T | Refused = look()
        except Refused as refusal:
            seen = refusal
        if not isinstance(seen, Refused) and is_right(seen):
            return seen
        assert time.monotonic() < end, seen
        time.sleep(0.02)
