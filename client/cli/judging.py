"""What is wrong with a cluster, by what was seen of it. Pure: facts in, findings out, one function a question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from minikafka.client.admin import LogDirDescription, TopicDescription
from minikafka.client.config import Address
from minikafka.protocol.errors import KafkaError

OK: Final = "ok"
WARNING: Final = "warning"
PROBLEM: Final = "problem"

SKEW_MS_MAX: Final = 1000
"""Clocks that are kept by a time server differ by a few milliseconds; a second is a clock that is not."""
DISK_PART_MIN: Final = 0.1
"""What should be free of a disk; below it a busy topic can fill the rest within hours."""
_NAMED_MAX: Final = 5

# Who needs which internal topic, and by which key its replicas are counted.
INTERNAL_TOPICS: Final = {
    "__consumer_offsets": ("offsets.topic.replication.factor", "consumer groups"),
    "__transaction_state": ("transaction.state.log.replication.factor", "transactions"),
}
MIN_ISR_KEY: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class View:
    """The cluster as one broker tells of it."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, Address]


@dataclass(frozen=True, slots=True)
class Clock:
    """How far a broker's clock is ahead of ours, give or take."""

    ahead_ms: float
    give_or_take_ms: float


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was seen. What could not be asked is empty."""

    view: View
    topics: Sequence[TopicDescription] = ()
    reached: Mapping[int, View | KafkaError] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)
    min_isr: Mapping[str, int] = field(default_factory=dict)
    log_dirs: Mapping[int, Sequence[LogDirDescription] | KafkaError] = field(default_factory=dict)
    clocks: Mapping[int, Clock | KafkaError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. What is not ok may have a hint what to do."""

    level: str
    subject: str
    text: str
    hint: str | None = None


def judge(facts: Facts) -> list[Finding]:
    """All findings, in the order in which they should be mended."""
    questions = (brokers, controller, partitions, internal_topics, disks, clocks)
    return [finding for question in questions for finding in question(facts)]


def brokers(facts: Facts) -> Iterator[Finding]:
    """Is every broker where the cluster says it is?"""
    healthy = True
    for node_id, seen in facts.reached.items():
        address = facts.view.brokers[node_id]
        if isinstance(seen, KafkaError):
            healthy = False
            yield Finding(
                PROBLEM,
                "brokers",
                f"broker {node_id} is said to be at {address}, and cannot be reached there: {seen.message}",
                "is it running? if so, set its advertised.listeners to an address that clients can reach",
            )
        elif seen.cluster_id != facts.view.cluster_id:
            healthy = False
            yield Finding(
                PROBLEM,
                "brokers",
                f"broker {node_id} is said to be at {address}, where a broker of another cluster answers",
                "set its advertised.listeners to an address that leads to it",
            )
    for address, ids in _shared(facts.view.brokers).items():
        healthy = False
        listed = ", ".join(map(str, ids))
        yield Finding(PROBLEM, "brokers", f"brokers {listed} are all said to be at {address}", "each needs its own")
    if healthy:
        yield Finding(OK, "brokers", f"{len(facts.view.brokers)} brokers, all of them where they are said to be")


def _shared(addresses: Mapping[int, Address]) -> dict[Address, list[int]]:
    by_address: dict[Address, list[int]] = {}
    for node_id, address in addresses.items():
        by_address.setdefault(address, []).append(node_id)
    return {address: ids for address, ids in by_address.items() if len(ids) > 1}


def controller(facts: Facts) -> Iterator[Finding]:
    """Is there a controller, and do all brokers know the same one, and each other?"""
    if facts.view.controller_id not in facts.view.brokers:
        yield Finding(
            PROBLEM,
            "controller",
            "there is no controller: topics cannot be created, and no leaders be elected",
            "can the brokers reach ZooKeeper? their logs tell",
        )
        return
    views = {node_id: seen for node_id, seen in facts.reached.items() if isinstance(seen, View)}
    others = [node_id for node_id, seen in views.items() if seen.controller_id != facts.view.controller_id]
    apart = [node_id for node_id, seen in views.items() if {*seen.brokers} != {*facts.view.brokers}]
    if others or apart:
        listed = ", ".join(map(str, others or apart))
        yield Finding(
            PROBLEM,
            "controller",
            f"brokers {listed} know of {'another controller' if others else 'other brokers'} than the one asked first",
            "wait a moment and look again; if it stays, they do not hear the controller",
        )
    else:
        yield Finding(OK, "controller", f"broker {facts.view.controller_id}")


def partitions(facts: Facts) -> Iterator[Finding]:
    """Does every partition have a leader, and all its replicas?"""
    each = [(f"{topic.name}-{it.partition}", it, topic.name) for topic in facts.topics for it in topic.partitions]
    offline = [place for place, it, _ in each if it.leader is None]
    led = [(place, it, topic) for place, it, topic in each if it.leader is not None]
    below = [place for place, it, topic in led if len(it.isr) < facts.min_isr.get(topic, 0)]
    behind = [place for place, it, _ in led if it.is_under_replicated and place not in below]
    if offline:
        yield _about(offline, "have no leader: nothing can be read or written", "start the brokers that have them")
    if below:
        yield _about(
            below, f"have fewer replicas than {MIN_ISR_KEY}: acks=all is refused", "start the brokers that are missing"
        )
    if behind:
        yield _about(
            behind, "are under-replicated", "start the brokers that are missing, or wait until they have caught up"
        )
    if not offline + below + behind:
        yield Finding(OK, "partitions", f"{len(each)} partitions, all with a leader and all replicas in sync")


def _about(places: list[str], what: str, hint: str) -> Finding:
    more = f" and {len(places) - _NAMED_MAX} more" if len(places) > _NAMED_MAX else ""
    listed = ", ".join(places[:_NAMED_MAX])
    return Finding(PROBLEM, "partitions", f"{len(places)} partitions {what}: {listed}{more}", hint)


def internal_topics(facts: Facts) -> Iterator[Finding]:
    """Are there brokers enough for the topics that groups and transactions need?"""
    if not facts.configs:
        return
    there = {topic.name for topic in facts.topics}
    missing = False
    for topic, (key, who) in INTERNAL_TOPICS.items():
        factor = facts.configs.get(key)
        if topic in there or factor is None or int(factor) <= len(facts.view.brokers):
            continue
        missing = True
        yield Finding(
            PROBLEM,
            "internal topics",
            f"{who} cannot work: {topic} is to have {factor} replicas, and there are {len(facts.view.brokers)} brokers",
            f"start more brokers, or set {key} to {len(facts.view.brokers)} on all of them",
        )
    if not missing:
        yield Finding(OK, "internal topics", "there are, or can be, enough replicas of them")


def disks(facts: Facts) -> Iterator[Finding]:
    """Do all log directories work, and have they room?"""
    bad = [finding for node_id, seen in facts.log_dirs.items() for finding in _disks_of(node_id, seen)]
    yield from bad
    if facts.log_dirs and not bad:
        yield Finding(OK, "disks", "all log directories work and have room")


def _disks_of(node_id: int, seen: Sequence[LogDirDescription] | KafkaError) -> Iterator[Finding]:
    if isinstance(seen, KafkaError):
        yield Finding(WARNING, "disks", f"broker {node_id} does not tell of its log directories: {seen.message}")
        return
    for log_dir in seen:
        where = f"{log_dir.path} of broker {node_id}"
        if log_dir.error is not None:
            hint = "look at the disk, then restart the broker"
            yield Finding(PROBLEM, "disks", f"{where} is out of service: {log_dir.error.message}", hint)
        elif log_dir.total_bytes and log_dir.usable_bytes is not None:
            free = log_dir.usable_bytes / log_dir.total_bytes
            if free < DISK_PART_MIN:
                hint = "make room, or lower retention.ms or retention.bytes of large topics"
                yield Finding(WARNING, "disks", f"{where} is on a disk of which {free:.1%} are free", hint)


def clocks(facts: Facts) -> Iterator[Finding]:
    """Do the brokers' clocks go with ours?"""
    worst = 0.0
    for node_id, clock in facts.clocks.items():
        if isinstance(clock, KafkaError):
            text = f"broker {node_id} took no record to tell its time by: {clock.message}"
            yield Finding(PROBLEM, "clocks", text)
            continue
        skew = max(abs(clock.ahead_ms) - clock.give_or_take_ms, 0.0)
        worst = max(worst, skew)
        if skew > SKEW_MS_MAX:
            side = "ahead of" if clock.ahead_ms > 0 else "behind"
            yield Finding(
                PROBLEM,
                "clocks",
                f"the clock of broker {node_id} is {abs(clock.ahead_ms) / 1000:.1f} s {side} the one here",
                "let a time server keep both: retention and searching by time go by them",
            )
    if facts.clocks and worst <= SKEW_MS_MAX and not _has_errors(facts.clocks.values()):
        yield Finding(OK, "clocks", f"within {max(worst, 1):.0f} ms of the one here")


def _has_errors(outcomes: Iterable[object]) -> bool:
    return any(isinstance(each, KafkaError) for each in outcomes)
