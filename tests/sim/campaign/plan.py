"""What a seed means: how the cluster is set up, and which faults are injected when.

Everything is drawn before the run begins. So a run with fewer faults is the same plan with a shorter list, and what
a fault does depends on its own numbers only.

A seed draws a swarm: some kinds of faults, how often they come and how long they last, which role is hit most, and how
many hosts may be in trouble at the same time. Too much violence hides defects, since a cluster that is down
acknowledges nothing. Faults that only together lead to a defect come in quick succession in some seeds.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

STORM_SECONDS = 15.0
BROKERS = (1, 2, 3)

NETWORK = ("cut", "cut_one_way", "isolate", "reset", "slow_channel", "lose_answers")
ZOOKEEPER = ("cut_zookeeper", "lose_response", "stale_reads", "expire", "depose", "stop_zookeeper")
PROCESSES = ("kill", "pause", "restart", "roll", "power")
DIVERGENCE = ("strand", "kill_ahead")
DISKS = ("slow_disk", "full_disk", "disk_error", "sync_error", "failed_dir", "bit_flip")
ADMIN = ("preferred", "reassign", "recreate", "add_partition", "alter_config")
CLOCKS = ("clock_hours", "clock_days")
REPLICATION_KINDS = (*NETWORK, *ZOOKEEPER, *PROCESSES, *DIVERGENCE, "clock_hours")
ALL_KINDS = (*NETWORK, *ZOOKEEPER, *PROCESSES, *DIVERGENCE, *DISKS, *ADMIN, *CLOCKS)

TARGETS = ("any", "leader", "follower", "coordinator", "controller")
PERMITS = ("overlap", "unclean")
"""How a seed may lose records: power losses of several hosts that overlap, or a leader that was not in sync."""
_PERMITS_SHARE = 0.15


class Fault(NamedTuple):
    """One fault: when it begins, the role of the broker that it hits, how long it lasts; `salt` decides the rest."""

    at: float
    kind: str
    target: str
    seconds: float
    salt: int


class Plan(NamedTuple):
    """One run."""

    seed: int
    profile: str
    durability: str
    latency_seconds: float
    pace: float
    """How much time the clients leave between what they do, 1 being usual."""
    session_ms: int
    lag_ms: int
    fetch_bytes: int
    """How much a follower asks for of one partition: a batch at a time, or all there is."""
    ailing_max: int
    permits: str
    shuffles: bool
    log_dirs: int
    faults: tuple[Fault, ...]

    @property
    def is_full(self) -> bool:
        return self.profile == "full"


def plan_of(seed: int, profile: str = "full") -> Plan:
    rng = Random(f"{profile}/{seed}")
    known = sorted(ALL_KINDS if profile == "full" else REPLICATION_KINDS)
    kinds = rng.sample(known, rng.randint(2, 6))
    # Replicas come to differ in nearly every seed, and in half of them a host forgets something.
    for group, chance in ((DIVERGENCE, 0.7), (("power",), 0.5), (("kill", "restart", "expire"), 0.5)):
        if rng.random() < chance:
            kinds.append(rng.choice(group))
    permits = rng.choice(PERMITS) if rng.random() < _PERMITS_SHARE else ""
    if permits == "unclean":
        kinds.append("unclean")
    return Plan(
        seed=seed,
        profile=profile,
        durability=rng.choice(("replicated", "replicated", "fsync")),
        latency_seconds=rng.choice((0.0005, 0.002, 0.008)),
        pace=rng.choice((0.6, 1.0, 1.0, 2.0)),
        session_ms=rng.choice((600, 1000, 2000)),
        lag_ms=rng.choice((400, 800, 1500)),
        fetch_bytes=rng.choice((100, 1_000, 1 << 20)),
        ailing_max=rng.choice((1, 1, 1, 2)),
        permits=permits,
        shuffles=rng.random() < 0.5,
        faults=_faults(rng, kinds),
        log_dirs=rng.choice((1, 2)) if profile == "full" else 1,
    )


def _faults(rng: Random, kinds: list[str]) -> tuple[Fault, ...]:
    pause_seconds = rng.choice((0.2, 0.5, 1.0, 2.0, 3.0))
    longest_seconds = rng.choice((0.3, 1.0, 2.0, 4.0))
    favourite = rng.choice(TARGETS)
    follows_at_once = rng.choice((0.0, 0.0, 0.3, 0.6))
    faults: list[Fault] = []
    at = rng.uniform(0.3, 1.0)
    while at < STORM_SECONDS:
        target = favourite if rng.random() < 0.5 else rng.choice(TARGETS)
        seconds = round(rng.uniform(0.01, longest_seconds), 3)
        faults.append(Fault(round(at, 4), rng.choice(kinds), target, seconds, rng.getrandbits(32)))
        is_together = rng.random() < follows_at_once
        at += rng.uniform(0.0, 0.2) if is_together else rng.expovariate(1 / pause_seconds)
    return tuple(faults)
