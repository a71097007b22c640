"""Figures under the names that alerts use, as Prometheus reads them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from minikafka.broker.gauges import ClusterGauges, FetcherGauges, Gauges, GroupGauges, LogGauges, ReplicaGauges
from minikafka.broker.metrics import named_requests, render, snapshot
from minikafka.broker.recent import MINUTES, Recent, quantiles_ms
from minikafka.broker.statistics import RequestStatistics, Statistics

PRODUCE, FETCH, METADATA = 0, 1, 3


def page(statistics: Statistics, gauges: Gauges | None = None, recent: Recent | None = None) -> dict[str, float]:
    """Every sample of the page by its name and labels, as they are written."""
    _, text = render(snapshot(7, statistics, gauges or Gauges(), recent or Recent()))
    samples = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}"
            assert key not in samples
            samples[key] = sample.value
    return samples


def test_what_people_alert_on() -> None:
    gauges = Gauges(
        ReplicaGauges(partitions=10, leaders=9, under_replicated=8, under_min_isr=7, at_min_isr=6, offline=5),
        ClusterGauges(is_controller=1, brokers=2, topics=3, partitions=4, offline_partitions=5),
        FetcherGauges(lag_max=11, failed=1),
        offline_log_dirs=1,
        session="suspended",
    )
    statistics = Statistics()
    statistics.controller.unclean_leader_elections += 2
    statistics.session.expires += 3
    found = page(statistics, gauges)
    assert {
        "kafka_server_replicamanager_partitioncount{}": 10,
        "kafka_server_replicamanager_leadercount{}": 9,
        "kafka_server_replicamanager_underreplicatedpartitions{}": 8,
        "kafka_server_replicamanager_underminisrpartitioncount{}": 7,
        "kafka_server_replicamanager_atminisrpartitioncount{}": 6,
        "kafka_server_replicamanager_offlinereplicacount{}": 5,
        "kafka_controller_kafkacontroller_activecontrollercount{}": 1,
        "kafka_controller_kafkacontroller_offlinepartitionscount{}": 5,
        "kafka_controller_controllerstats_uncleanleaderelections_total{}": 2,
        "kafka_log_logmanager_offlinelogdirectorycount{}": 1,
        "kafka_server_replicafetchermanager_maxlag{}": 11,
        "kafka_server_replicafetchermanager_failedpartitionscount{}": 1,
        "kafka_server_sessionexpirelistener_zookeeperexpires_total{}": 3,
        "kafka_server_sessionexpirelistener_sessionstate{state=suspended}": 1,
        "kafka_server_sessionexpirelistener_sessionstate{state=connected}": 0,
        "minikafka_event_loop_lag_seconds{}": 0,
        "minikafka_broker_info{broker_id=7}": 1,
    }.items() <= found.items()
    assert found["process_resident_memory_bytes{}"] > 1e6
    assert found["process_open_fds{}"] > 1


def test_topics() -> None:
    statistics = Statistics()
    statistics.topic("orders").messages_in += 5
    statistics.topic("orders").failed_produce_requests += 1
    statistics.topic("gone").messages_in += 7
    statistics.forget_topic("gone")
    found = page(statistics)
    prefix = "kafka_server_brokertopicmetrics_"
    assert found[f"{prefix}messagesin_total{{topic=orders}}"] == 5
    assert found[f"{prefix}messagesin_total{{}}"] == 12
    assert found[f"{prefix}failedproducerequests_total{{topic=orders}}"] == 1
    assert f"{prefix}messagesin_total{{topic=gone}}" not in found
    assert f"{prefix}replicationbytesin_total{{topic=orders}}" not in found


def test_logs() -> None:
    found = page(Statistics(), Gauges(logs=[LogGauges("orders", 3, 1000, 2, 10, 20)]))
    assert found["kafka_log_log_size{partition=3,topic=orders}"] == 1000
    assert found["kafka_log_log_numlogsegments{partition=3,topic=orders}"] == 2
    assert found["kafka_log_log_logstartoffset{partition=3,topic=orders}"] == 10
    assert found["kafka_log_log_logendoffset{partition=3,topic=orders}"] == 20


def test_groups() -> None:
    groups = [
        GroupGauges("billing", "Stable", 2, [("orders", 0, 17), ("orders", 1, 18)]),
        GroupGauges("search", "Empty", 0, [("orders", 0, 5)]),
    ]
    found = page(Statistics(), Gauges(groups=groups))
    manager, group = "kafka_coordinator_group_groupmetadatamanager_", "kafka_consumergroup_"
    assert found[f"{manager}numgroups{{}}"] == 2
    assert found[f"{manager}numgroupsstable{{}}"] == 1
    assert found[f"{manager}numgroupspreparingrebalance{{}}"] == 0
    assert found[f"{manager}numoffsets{{}}"] == 3
    assert found[f"{group}members{{consumergroup=billing}}"] == 2
    assert found[f"{group}current_offset{{consumergroup=billing,partition=1,topic=orders}}"] == 18
    assert found[f"{group}current_offset{{consumergroup=search,partition=0,topic=orders}}"] == 5


def test_requests() -> None:
    statistics = Statistics()
    for _ in range(99):
        statistics.requests[PRODUCE].add(9, 100)
    statistics.requests[PRODUCE].add(8, 50_000)
    statistics.requests[PRODUCE].errors[6] += 2
    found = page(statistics)
    prefix = "kafka_network_requestmetrics_"
    assert found[f"{prefix}requests_total{{request=Produce,version=9}}"] == 99
    assert found[f"{prefix}requests_total{{request=Produce,version=8}}"] == 1
    assert found[f"{prefix}errors_total{{error=NOT_LEADER_OR_FOLLOWER,request=Produce}}"] == 2
    assert found[f"{prefix}totaltimems_count{{request=Produce}}"] == 100
    assert found[f"{prefix}totaltimems_sum{{request=Produce}}"] == pytest.approx(59.9)
    assert 0.064 <= found[f"{prefix}totaltimems{{quantile=0.5,request=Produce}}"] <= 0.128
    assert 32.768 <= found[f"{prefix}totaltimems{{quantile=0.999,request=Produce}}"] <= 65.536
    assert found["minikafka_request_seconds_bucket{le=6.4e-05,request=Produce}"] == 0
    assert found["minikafka_request_seconds_bucket{le=0.000128,request=Produce}"] == 99
    assert found["minikafka_request_seconds_bucket{le=+Inf,request=Produce}"] == 100


def test_fetches_are_told_apart() -> None:
    statistics = Statistics()
    statistics.requests[FETCH].add(12, 10)
    statistics.follower_fetches.add(13, 10)
    named = named_requests(statistics)
    assert {name: each.count for name, each in named.items()} == {"Fetch": 2, "FetchConsumer": 1, "FetchFollower": 1}


def test_connections() -> None:
    statistics = Statistics()
    statistics.connections["PLAINTEXT"].opened += 5
    statistics.connections["PLAINTEXT"].closed += 2
    found = page(statistics)
    assert found["kafka_server_socket_server_metrics_connection_count{listener=PLAINTEXT}"] == 3
    assert found["kafka_server_socket_server_metrics_connection_creation_total{listener=PLAINTEXT}"] == 5


def test_a_topic_with_any_name_is_quoted() -> None:
    statistics = Statistics()
    statistics.topic('a"b\\c\nd').messages_in += 1
    assert page(statistics)['kafka_server_brokertopicmetrics_messagesin_total{topic=a"b\\c\nd}'] == 1


def test_a_snapshot_does_not_change() -> None:
    statistics = Statistics()
    statistics.topic("a").bytes_in += 1
    statistics.requests[METADATA].add(0, 1)
    taken = snapshot(1, statistics, Gauges(), Recent())
    statistics.topic("a").bytes_in += 1
    statistics.requests[METADATA].add(0, 1)
    statistics.loop.collections += 1
    assert taken.topics["a"].bytes_in == 1
    assert sum(taken.requests["Metadata"].versions) == 1
    assert taken.loop.collections == 0


def test_a_broker_that_nobody_asks_does_not_import_prometheus() -> None:
    script = "import minikafka.broker.process, sys; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_quantiles() -> None:
    request = RequestStatistics()
    assert quantiles_ms(request.buckets) == []
    for micros in range(1024, 2048):
        request.add(0, micros)
    # All in one bucket, over which they are spread evenly.
    assert quantiles_ms(request.buckets, [0.5, 0.99]) == pytest.approx([1.536, 2.038], abs=0.001)


def test_only_the_last_minutes_count() -> None:
    recent = Recent()
    request = RequestStatistics()
    request.add(0, 1_000_000)
    assert sum(recent.buckets("Produce", request)) == 1
    recent.put_aside({})
    for minute in range(MINUTES):
        # Counted before this minute began, but not before the oldest that is kept.
        assert sum(recent.buckets("Produce", request)) == 1, minute
        recent.put_aside({"Produce": request})
    assert sum(recent.buckets("Produce", request)) == 0
    request.add(0, 1)
    assert sum(recent.buckets("Produce", request)) == 1
