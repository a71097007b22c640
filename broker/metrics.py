"""What a broker counts and measures, under the names that alerts and dashboards for Kafka already use.

These are the names of its JMX beans in lower case, as Prometheus' JMX exporter writes them. Those that begin with
`minikafka` are about what Kafka has not: an event loop.

Everything is read on the loop into plain values (`snapshot`); putting them into words is left to a thread (`render`),
which is also the first to need prometheus-client: a broker that nobody asks never imports it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from minikafka.broker.coordinators.groups.states import State
from minikafka.broker.gauges import Gauges, GroupGauges
from minikafka.broker.recent import QUANTILES, Recent, quantiles_ms
from minikafka.broker.statistics import (
    ConnectionStatistics,
    ControllerStatistics,
    LoopStatistics,
    ReplicaStatistics,
    RequestStatistics,
    SessionStatistics,
    Statistics,
    TopicStatistics,
)
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_FETCH_KEY: Final = 1
# From 64 microseconds to 17 seconds; what is beyond is told as being beyond.
_BUCKETS: Final = range(6, 25)

_TOPIC_COUNTERS: Final = {
    "messages_in": "messagesin",
    "bytes_in": "bytesin",
    "bytes_out": "bytesout",
    "produce_requests": "totalproducerequests",
    "fetch_requests": "totalfetchrequests",
    "failed_produce_requests": "failedproducerequests",
    "failed_fetch_requests": "failedfetchrequests",
    "replication_bytes_in": "replicationbytesin",
    "replication_bytes_out": "replicationbytesout",
}
_NOT_BY_TOPIC: Final = {"replication_bytes_in", "replication_bytes_out"}


class RequestFigures(NamedTuple):
    """The requests of one kind."""

    versions: list[int]
    micros: int
    buckets: list[int]
    quantiles_ms: list[float]
    errors: dict[int, int]


class Snapshot(NamedTuple):
    """All figures of one moment, in nobody else's hands."""

    broker_id: int
    gauges: Gauges
    topics: dict[str, TopicStatistics]
    all_topics: TopicStatistics
    requests: dict[str, RequestFigures]
    connections: dict[str, ConnectionStatistics]
    replicas: ReplicaStatistics
    controller: ControllerStatistics
    session: SessionStatistics
    loop: LoopStatistics


def named_requests(statistics: Statistics) -> dict[str, RequestStatistics]:
    """By Kafka's names. Fetch is all fetches, and then also by who fetches."""
    named = {APIS[key].name: each for key, each in statistics.requests.items() if key in APIS}
    consumers, followers = statistics.requests.get(_FETCH_KEY), statistics.follower_fetches
    if consumers is not None:
        named["FetchConsumer"] = consumers
        named["Fetch"] = _sum(consumers, followers)
    if followers.count:
        named["FetchFollower"] = followers
    return named


def _sum(one: RequestStatistics, other: RequestStatistics) -> RequestStatistics:
    total = RequestStatistics()
    for each in (one, other):
        total.micros += each.micros
        total.versions = [a + b for a, b in zip(total.versions, each.versions, strict=True)]
        total.buckets = [a + b for a, b in zip(total.buckets, each.buckets, strict=True)]
        for code, count in each.errors.items():
            total.errors[code] += count
    return total


def snapshot(broker_id: int, statistics: Statistics, gauges: Gauges, recent: Recent) -> Snapshot:
    """To be called on the loop."""
    return Snapshot(
        broker_id=broker_id,
        gauges=gauges,
        topics={name: replace(each) for name, each in statistics.topics.items()},
        all_topics=statistics.all_topics(),
        requests={
            name: RequestFigures(
                list(each.versions),
                each.micros,
                list(each.buckets),
                quantiles_ms(recent.buckets(name, each)),
                dict(each.errors),
            )
            for name, each in named_requests(statistics).items()
        },
        connections={name: replace(each) for name, each in statistics.connections.items()},
        replicas=replace(statistics.replicas),
        controller=replace(statistics.controller),
        session=replace(statistics.session),
        loop=replace(statistics.loop),
    )


def render(taken: Snapshot) -> tuple[str, bytes]:
    """The content type and the page. Takes long, so it is for a thread."""
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
    from prometheus_client.process_collector import ProcessCollector

    class Everything:
        def collect(self) -> Iterator[Metric]:
            yield from collect(taken)
            yield from ProcessCollector(registry=None).collect()

    return CONTENT_TYPE_LATEST, generate_latest(Everything())


def collect(taken: Snapshot) -> Iterator[Metric]:
    """All metrics in words of prometheus-client."""
    yield from _gauge_metrics(taken.gauges)
    yield from _group_metrics(taken.gauges.groups)
    yield from _topic_metrics(taken)
    yield from _request_metrics(taken.requests)
    yield from _connection_metrics(taken.connections)
    yield from _event_metrics(taken)
    yield from _session_metrics(taken)
    yield from _loop_metrics(taken.loop)
    yield _metric("info", "minikafka_broker", "This broker.", [("_info", {"broker_id": str(taken.broker_id)}, 1)])


Sample = tuple[str, Mapping[str, str], float]


def _metric(kind: str, name: str, help: str, samples: Iterable[Sample]) -> Metric:
    from prometheus_client.core import Metric

    # Prometheus knows no info in its text format; the exposition turns it into a gauge.
    made = Metric(name, help, kind)
    for suffix, labels, value in samples:
        made.add_sample(name + suffix, dict(labels), value)
    return made


def _gauge(name: str, help: str, value: float) -> Metric:
    return _metric("gauge", name, help, [("", {}, value)])


def _counter(name: str, help: str, value: float) -> Metric:
    return _metric("counter", name, help, [("_total", {}, value)])


def _gauge_metrics(gauges: Gauges) -> Iterator[Metric]:
    replicas, cluster = gauges.replicas, gauges.cluster
    manager, controller = "kafka_server_replicamanager_", "kafka_controller_kafkacontroller_"
    yield _gauge(f"{manager}partitioncount", "Replicas of this broker.", replicas.partitions)
    yield _gauge(f"{manager}leadercount", "Partitions that this broker leads.", replicas.leaders)
    yield _gauge(
        f"{manager}underreplicatedpartitions", "Led here, with a replica out of sync.", replicas.under_replicated
    )
    yield _gauge(f"{manager}underminisrpartitioncount", "Led here, with fewer in sync.", replicas.under_min_isr)
    yield _gauge(f"{manager}atminisrpartitioncount", "Led here, with just enough in sync.", replicas.at_min_isr)
    yield _gauge(f"{manager}offlinereplicacount", "Replicas that cannot be used.", replicas.offline)
    yield _gauge(f"{controller}activecontrollercount", "1 on the controller.", cluster.is_controller)
    yield _gauge(f"{controller}activebrokercount", "Brokers that are alive.", cluster.brokers)
    yield _gauge(f"{controller}globaltopiccount", "Topics of the cluster.", cluster.topics)
    yield _gauge(f"{controller}globalpartitioncount", "Partitions of the cluster.", cluster.partitions)
    yield _gauge(f"{controller}offlinepartitionscount", "Partitions without a leader.", cluster.offline_partitions)
    imbalance = cluster.preferred_replica_imbalance
    yield _gauge(f"{controller}preferredreplicaimbalancecount", "Led by another than their first replica.", imbalance)
    fetchers, manager = gauges.fetchers, "kafka_server_replicafetchermanager_"
    yield _gauge(f"{manager}maxlag", "Records that the furthest behind of our replicas lacks.", fetchers.lag_max)
    yield _gauge(f"{manager}failedpartitionscount", "Replicas that are not followed any more.", fetchers.failed)
    offline = gauges.offline_log_dirs
    yield _gauge("kafka_log_logmanager_offlinelogdirectorycount", "Log directories that have failed.", offline)
    for field, name, help in (
        ("size_bytes", "size", "Bytes of a log."),
        ("segments", "numlogsegments", "Segments of a log."),
        ("start_offset", "logstartoffset", "The first offset of a log."),
        ("end_offset", "logendoffset", "The offset after the last of a log."),
    ):
        samples = [
            ("", {"topic": each.topic, "partition": str(each.partition)}, getattr(each, field)) for each in gauges.logs
        ]
        yield _metric("gauge", f"kafka_log_log_{name}", help, samples)


def _group_metrics(groups: Sequence[GroupGauges]) -> Iterator[Metric]:
    """How many there are by Kafka's names; how far each has come by those of its best known exporter."""
    manager, group = "kafka_coordinator_group_groupmetadatamanager_", "kafka_consumergroup_"
    states = Counter(each.state for each in groups)
    yield _gauge(f"{manager}numgroups", "Groups that are coordinated here.", len(groups))
    for state in State:
        count = states[state.value]
        yield _gauge(f"{manager}numgroups{state.value.lower()}", f"Those of them that are {state.value}.", count)
    yield _gauge(f"{manager}numoffsets", "Offsets that they have committed.", sum(len(g.committed) for g in groups))
    members = [("", {"consumergroup": each.group_id}, each.members) for each in groups]
    yield _metric("gauge", f"{group}members", "Members of a group.", members)
    offsets = [
        ("", {"consumergroup": each.group_id, "topic": topic, "partition": str(partition)}, offset)
        for each in groups
        for topic, partition, offset in each.committed
    ]
    yield _metric("gauge", f"{group}current_offset", "The offset that a group has committed.", offsets)


def _topic_metrics(taken: Snapshot) -> Iterator[Metric]:
    for each in fields(TopicStatistics):
        field = each.name
        # Without a topic stands the sum, with topics that are deleted by now.
        samples: list[Sample] = [("_total", {}, getattr(taken.all_topics, field))]
        if field not in _NOT_BY_TOPIC:
            samples += [("_total", {"topic": name}, getattr(each, field)) for name, each in taken.topics.items()]
        name = f"kafka_server_brokertopicmetrics_{_TOPIC_COUNTERS[field]}"
        yield _metric("counter", name, field.replace("_", " ").capitalize() + ".", samples)


def _request_metrics(requests: Mapping[str, RequestFigures]) -> Iterator[Metric]:
    prefix = "kafka_network_requestmetrics_"
    counts: list[Sample] = []
    errors: list[Sample] = []
    times: list[Sample] = []
    histogram: list[Sample] = []
    for name, each in requests.items():
        label = {"request": name}
        counts += [("_total", {**label, "version": str(n)}, count) for n, count in enumerate(each.versions) if count]
        errors += [("_total", {**label, "error": _error_name(code)}, count) for code, count in each.errors.items()]
        quantiles = zip(QUANTILES, each.quantiles_ms, strict=False)
        times += [("", {**label, "quantile": str(part)}, time_ms) for part, time_ms in quantiles]
        count = sum(each.versions)
        times += [("_count", label, count), ("_sum", label, each.micros / 1000)]
        histogram += _histogram(label, each, count)
    yield _metric("counter", f"{prefix}requests", "Requests that were answered.", counts)
    yield _metric("counter", f"{prefix}errors", "Errors that were answered.", errors)
    yield _metric("summary", f"{prefix}totaltimems", "Time to the answer, of the last minutes.", times)
    yield _metric("histogram", "minikafka_request_seconds", "Time to the answer.", histogram)


def _histogram(label: Mapping[str, str], figures: RequestFigures, count: int) -> Iterator[Sample]:
    for number in _BUCKETS:
        yield "_bucket", {**label, "le": str(2**number / 1e6)}, sum(figures.buckets[: number + 1])
    yield "_bucket", {**label, "le": "+Inf"}, count
    yield "_count", label, count
    yield "_sum", label, figures.micros / 1e6


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _connection_metrics(connections: Mapping[str, ConnectionStatistics]) -> Iterator[Metric]:
    prefix = "kafka_server_socket_server_metrics_connection_"
    rows = [({"listener": name}, each) for name, each in connections.items()]
    yield _metric(
        "gauge", f"{prefix}count", "Open connections.", [("", label, each.opened - each.closed) for label, each in rows]
    )
    for word, field in (("creation", "opened"), ("close", "closed"), ("refused", "refused")):
        samples = [("_total", label, getattr(each, field)) for label, each in rows]
        yield _metric("counter", f"{prefix}{word}", f"Connections that were {field}.", samples)


def _event_metrics(taken: Snapshot) -> Iterator[Metric]:
    manager, stats = "kafka_server_replicamanager_", "kafka_controller_controllerstats_"
    yield _counter(f"{manager}isrshrinks", "Replicas that fell out of sync.", taken.replicas.isr_shrinks)
    yield _counter(f"{manager}isrexpands", "Replicas that came into sync.", taken.replicas.isr_expands)
    yield _counter(f"{manager}failedisrupdates", "Changes that were refused.", taken.replicas.failed_isr_updates)
    controller = taken.controller
    yield _counter(f"{stats}uncleanleaderelections", "Elections that lost data.", controller.unclean_leader_elections)
    yield _counter("minikafka_controller_events", "Events that were dealt with.", controller.events)
    elections: list[Sample] = [("_count", {}, controller.leader_elections)]
    yield _metric("summary", f"{stats}leaderelectionrateandtimems", "Elections of leaders.", elections)


def _session_metrics(taken: Snapshot) -> Iterator[Metric]:
    prefix = "kafka_server_sessionexpirelistener_"
    yield _counter(f"{prefix}zookeeperdisconnects", "Connections that were lost.", taken.session.disconnects)
    yield _counter(f"{prefix}zookeepersyncconnects", "Connections that were made.", taken.session.connects)
    yield _counter(f"{prefix}zookeeperexpires", "Sessions that were lost.", taken.session.expires)
    states = ("connected", "suspended", "lost")
    samples = [("", {"state": state}, float(taken.gauges.session == state)) for state in states]
    yield _metric("gauge", f"{prefix}sessionstate", "1 for the state that the session is in.", samples)


def _loop_metrics(loop: LoopStatistics) -> Iterator[Metric]:
    yield _gauge("minikafka_event_loop_lag_seconds", "How late the event loop was of late.", loop.lag_ms / 1000)
    yield _gauge("minikafka_event_loop_lag_max_seconds", "How late it ever was.", loop.lag_ms_max / 1000)
    yield _counter("minikafka_gc_pauses", "Runs of the garbage collector.", loop.collections)
    yield _counter("minikafka_gc_pause_seconds", "What they took.", loop.collection_nanos / 1e9)
    yield _gauge("minikafka_gc_pause_max_seconds", "What the longest took.", loop.collection_nanos_max / 1e9)
