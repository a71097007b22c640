"""What goes up and down in a broker, looked up at its owners when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from minikafka.broker.context import Context
from minikafka.broker.coordinators.groups.group import Group
from minikafka.broker.metadata import NO_LEADER, Metadata
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replication.followers import Followers


class ReplicaGauges(NamedTuple):
    """The replicas of this broker. Who is in sync is for the leader to know, so only what is led here counts."""

    partitions: int = 0
    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    offline: int = 0


class ClusterGauges(NamedTuple):
    """The cluster as the controller sees it; nothing but zeros on any other broker, so that sums are right."""

    is_controller: int = 0
    brokers: int = 0
    topics: int = 0
    partitions: int = 0
    offline_partitions: int = 0
    preferred_replica_imbalance: int = 0


class FetcherGauges(NamedTuple):
    """What is followed here."""

    lag_max: int = 0
    failed: int = 0


class LogGauges(NamedTuple):
    """The log of one partition."""

    topic: str
    partition: int
    size_bytes: int
    segments: int
    start_offset: int
    end_offset: int


class GroupGauges(NamedTuple):
    """One consumer group that is coordinated here."""

    group_id: str
    state: str
    members: int
    committed: Sequence[tuple[str, int, int]]
    """Topic, partition and offset. How far behind that is, only the leader knows: it tells the end of its log."""


class Gauges(NamedTuple):
    """All of one broker at one moment."""

    replicas: ReplicaGauges = ReplicaGauges()
    cluster: ClusterGauges = ClusterGauges()
    fetchers: FetcherGauges = FetcherGauges()
    logs: Sequence[LogGauges] = ()
    groups: Sequence[GroupGauges] = ()
    offline_log_dirs: int = 0
    session: str = ""


def read_gauges(
    context: Context | None,
    followers: Followers | None = None,
    *,
    is_controller: bool,
    groups: Iterable[Group] = (),
) -> Gauges:
    """Of a broker that may still be starting."""
    if context is None:
        return Gauges()
    partitions = context.partitions
    return Gauges(
        replicas=_replicas(partitions.all.values(), partitions.offline_count),
        cluster=_cluster(context.metadata) if is_controller else ClusterGauges(),
        fetchers=FetcherGauges() if followers is None else FetcherGauges(followers.lag_max, followers.failed_count),
        logs=[_log(each) for each in partitions.all.values() if not each.is_offline],
        groups=[_group(each, context.metadata) for each in groups],
        offline_log_dirs=sum(each.is_offline for each in partitions.log_dirs.dirs),
        session=context.coord.session.state.value,
    )


def _replicas(partitions: Iterable[Partition], offline: int) -> ReplicaGauges:
    count = leaders = under_replicated = under_min_isr = at_min_isr = 0
    for each in partitions:
        count += 1
        if (leadership := each.leadership) is None:
            continue
        in_sync = len(leadership.isr)
        leaders += 1
        under_replicated += in_sync < len(each.replicas)
        under_min_isr += in_sync < each.min_isr
        at_min_isr += in_sync == each.min_isr
    return ReplicaGauges(count, leaders, under_replicated, under_min_isr, at_min_isr, offline)


def _cluster(metadata: Metadata) -> ClusterGauges:
    states = [state for topic in metadata.topics.values() for state in topic.partitions.values()]
    return ClusterGauges(
        is_controller=1,
        brokers=len(metadata.brokers),
        topics=len(metadata.topics),
        partitions=len(states),
        offline_partitions=sum(state.leader == NO_LEADER for state in states),
        preferred_replica_imbalance=sum(state.leader != state.replicas[0] for state in states if state.replicas),
    )


def _log(partition: Partition) -> LogGauges:
    log = partition.log
    return LogGauges(
        partition.topic, partition.index, log.size_bytes, len(log.segments), log.log_start_offset, log.log_end_offset
    )


def _group(group: Group, metadata: Metadata) -> GroupGauges:
    offsets = group.offsets
    committed = ((name, offsets.get(name, metadata.topic_id(name[0]))) for name in offsets.names())
    return GroupGauges(
        group.group_id,
        group.state.value,
        len(group.members),
        [(*name, commit.offset) for name, commit in committed if commit is not None],
    )
