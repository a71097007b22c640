"""What a seed means: how the cluster is set up, and which faults are injected when.

Everything is drawn before the run begins. So a run with fewer faults is the same plan with a shorter list, and what
a fault does depends on its own numbers only.

A seed draws a swarm: some kinds of faults, how often they come and how long they last, and how many hosts may be in
trouble at the same time. Too much violence hides defects, since a cluster that is down acknowledges nothing.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

STORM_SECONDS = 15.0
BROKERS = (1, 2, 3)

NETWORK = ("cut", "cut_one_way", "isolate", "reset", "slow_channel")
ZOOKEEPER = ("cut_zookeeper", "lose_response", "expire", "depose", "stop_zookeeper")
PROCESSES = ("kill", "pause", "restart", "power", "power")
DISKS = ("slow_disk", "full_disk", "disk_error", "failed_dir")
ADMIN = ("preferred", "reassign", "recreate", "add_partition", "alter_config")
CLOCKS = ("clock_hours", "clock_days")
REPLICATION_KINDS = (*NETWORK, *ZOOKEEPER, *PROCESSES, "clock_hours")
ALL_KINDS = (*NETWORK, *ZOOKEEPER, *PROCESSES, *DISKS, *ADMIN, *CLOCKS)


class Fault(NamedTuple):
    """One fault: when it begins, on which broker, how long it lasts; `salt` decides the rest."""

    at: float
    kind: str
    broker: int
    seconds: float
    salt: int


class Plan(NamedTuple):
    """One run."""

    seed: int
    profile: str
    durability: str
    latency_seconds: float
    ailing_max: int
    overlaps: bool
    """Whether power may be lost at a host before another one that lost it is in sync again."""
    shuffles: bool
    faults: tuple[Fault, ...]

    @property
    def is_full(self) -> bool:
        return self.profile == "full"


def plan_of(seed: int, profile: str = "full") -> Plan:
    rng = Random(f"{profile}/{seed}")
    durability = rng.choice(("replicated", "replicated", "fsync"))
    known = sorted(set(ALL_KINDS if profile == "full" else REPLICATION_KINDS))
    kinds = rng.sample(known, rng.randint(2, 7))
    if rng.random() < 0.5 and "power" not in kinds:
        kinds.append("power")
    pause_seconds = rng.choice((0.3, 0.6, 1.2, 2.0))
    longest_seconds = rng.choice((0.5, 2.0, 4.0))
    faults: list[Fault] = []
    at = rng.uniform(0.5, 1.5)
    while at < STORM_SECONDS:
        seconds = rng.uniform(0.01, longest_seconds)
        faults.append(Fault(round(at, 6), rng.choice(kinds), rng.choice(BROKERS), seconds, rng.getrandbits(32)))
        at += rng.expovariate(1 / pause_seconds)
    return Plan(
        seed=seed,
        profile=profile,
        durability=durability,
        latency_seconds=rng.choice((0.0002, 0.001, 0.004)),
        ailing_max=rng.choice((1, 1, 2)),
        overlaps=rng.random() < 0.1,
        shuffles=rng.random() < 0.5,
        faults=tuple(faults),
    )
