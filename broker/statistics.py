"""What a broker counts while it works, as plain numbers.

Whoever does the work adds to them: `statistics.bytes_in += n`, on the loop, without a lock and without a call. They
are only ever read by `metrics`, when somebody asks. Counters never go down; what goes up and down is looked up at its
owner when it is asked for, and so is not here.

    topic = statistics.topic("orders")             # kept by the partition, so that it is looked up once
    topic.bytes_in += len(records)
    request = statistics.requests[api_key]         # of every api, made when it is first asked for
    request.add(version, micros)
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

_VERSIONS: Final = 32
# By the number of bits of a time in microseconds, so that no time is out of range: the last bucket is a year.
_BUCKETS: Final = 46


@dataclass(slots=True)
class TopicStatistics:
    """What went in and out of the partitions of one topic that are on this broker."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    produce_requests: int = 0
    fetch_requests: int = 0
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0

    def add(self, other: TopicStatistics) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class RequestStatistics:
    """The requests of one API: how many in which version, how long they took, and with what errors they ended."""

    __slots__ = ("buckets", "errors", "micros", "versions")

    def __init__(self) -> None:
        self.versions = [0] * _VERSIONS
        self.micros = 0
        # Bucket n holds the times below 2^n microseconds that are in none before it.
        self.buckets = [0] * _BUCKETS
        self.errors: defaultdict[int, int] = defaultdict(int)
        """By Kafka's code; what went well need not be counted."""

    def add(self, version: int, micros: int) -> None:
        """A request was answered, after this time since its frame was whole."""
        self.versions[version] += 1
        self.micros += micros
        self.buckets[micros.bit_length()] += 1

    @property
    def count(self) -> int:
        return sum(self.versions)


@dataclass(slots=True)
class ConnectionStatistics:
    """The connections of one listener."""

    opened: int = 0
    closed: int = 0
    refused: int = 0


@dataclass(slots=True)
class ReplicaStatistics:
    """What happened to the partitions of this broker."""

    isr_shrinks: int = 0
    isr_expands: int = 0
    failed_isr_updates: int = 0


@dataclass(slots=True)
class ControllerStatistics:
    """What this broker did while it was the controller."""

    leader_elections: int = 0
    unclean_leader_elections: int = 0
    events: int = 0


@dataclass(slots=True)
class SessionStatistics:
    """The session with ZooKeeper."""

    disconnects: int = 0
    connects: int = 0
    expires: int = 0


@dataclass(slots=True)
class LoopStatistics:
    """What kept the event loop from working: see `watchdog`."""

    lag_ms: int = 0
    """How late the loop was when it was last looked at."""
    lag_ms_max: int = 0
    collections: int = 0
    collection_nanos: int = 0
    collection_nanos_max: int = 0


@dataclass(slots=True)
class Statistics:
    """All of one broker."""

    requests: defaultdict[int, RequestStatistics] = field(default_factory=lambda: defaultdict(RequestStatistics))
    """By api key."""
    follower_fetches: RequestStatistics = field(default_factory=RequestStatistics)
    """Fetches of other brokers, which do not count among those of clients."""
    topics: dict[str, TopicStatistics] = field(default_factory=dict)
    deleted_topics: TopicStatistics = field(default_factory=TopicStatistics)
    """All that is no more, so that the sums never go down."""
    connections: defaultdict[str, ConnectionStatistics] = field(
        default_factory=lambda: defaultdict(ConnectionStatistics)
    )
    """By listener."""
    replicas: ReplicaStatistics = field(default_factory=ReplicaStatistics)
    controller: ControllerStatistics = field(default_factory=ControllerStatistics)
    session: SessionStatistics = field(default_factory=SessionStatistics)
    loop: LoopStatistics = field(default_factory=LoopStatistics)

    def topic(self, name: str) -> TopicStatistics:
        """A topic's numbers, to be kept by whoever adds to them."""
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = TopicStatistics()
        return found

    def forget_topic(self, name: str) -> None:
        """The topic has no partition here any more."""
        gone = self.topics.pop(name, None)
        if gone is not None:
            self.deleted_topics.add(gone)

    def all_topics(self) -> TopicStatistics:
        """The sums, with what is deleted."""
        total = TopicStatistics()
        for each in (self.deleted_topics, *self.topics.values()):
            total.add(each)
        return total
