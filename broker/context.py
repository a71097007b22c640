"""What handlers work with: the parts of one broker, put together by `node` and passed around as one."""

from __future__ import annotations

from dataclasses import dataclass, field

from minikafka.broker.arrivals import Arrivals
from minikafka.broker.clock import Clock, SteadyClock
from minikafka.broker.contact import Contact
from minikafka.broker.live_config import LiveConfig
from minikafka.broker.membership import Membership
from minikafka.broker.metadata import Metadata
from minikafka.broker.replicas.partitions import Partitions
from minikafka.broker.rng import Rng
from minikafka.broker.work import Work
from minikafka.broker.zookeeper.coord import Coord


@dataclass(frozen=True, slots=True)
class Context:
    """One broker. Its parts change by themselves; none is ever replaced by another."""

    broker_id: int
    cluster_id: str
    clock: Clock
    steady_clock: SteadyClock
    """By which data expires."""
    work: Work
    rng: Rng
    coord: Coord
    contact: Contact
    config: LiveConfig
    metadata: Metadata
    membership: Membership
    partitions: Partitions
    arrivals: Arrivals = field(default_factory=Arrivals)
