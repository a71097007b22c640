"""Alerts and dashboards: what they ask for is there, and Prometheus understands it."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from urllib.request import urlopen

import pytest

from tests.compat.running import Cluster
from tests.deploy.expressions import (
    MONITORING,
    RULES,
    alerts,
    dashboard,
    dashboard_expressions,
    metrics_of,
    recorded,
    rules,
)
from tests.tree import ROOT

# What Prometheus itself says about whom it asks.
OF_PROMETHEUS = {"up"}


def pages(cluster: Cluster) -> str:
    """What all brokers of a cluster tell."""
    found = []
    for broker in cluster.brokers:
        with urlopen(f"http://127.0.0.1:{broker.http_port}/metrics", timeout=10) as answer:
            found.append(answer.read().decode())
    return "".join(found)


@pytest.mark.needs("java")
def test_every_metric_that_is_named_exists(busy_cluster: Cluster) -> None:
    told = set(re.findall(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)", pages(busy_cluster), re.MULTILINE))
    known = told | recorded() | OF_PROMETHEUS
    asked = [*rules().items(), *dashboard_expressions()]
    assert len(asked) > 40
    unknown = [(where, sorted(lost)) for where, expression in asked if (lost := metrics_of(expression) - known)]
    assert not unknown


@pytest.mark.needs("java")
def test_fetches_of_followers_and_consumers_are_told_apart(busy_cluster: Cluster) -> None:
    counts = dict.fromkeys(("Fetch", "FetchConsumer", "FetchFollower"), 0.0)
    for request, count in re.findall(r'_totaltimems_count\{request="(Fetch\w*)"\} (\S+)', pages(busy_cluster)):
        counts[request] += float(count)
    assert counts["FetchConsumer"] > 0
    assert counts["FetchFollower"] > 0
    assert counts["Fetch"] == counts["FetchConsumer"] + counts["FetchFollower"]


def test_names_are_found_in_expressions() -> None:
    assert metrics_of('sum by (instance, le) (rate(a_bucket{request="b"}[5m])) > 0.5') == {"a_bucket"}
    assert metrics_of("clamp_min(max by (c) (a) - on (c) group_right max by (d, c) (b:x), 0)") == {"a", "b:x"}
    assert metrics_of("max(a) < max_over_time(max(b)[30m:1m]) and c") == {"a", "b", "c"}


def test_every_alert_is_explained() -> None:
    """Whoever is woken by one finds it in the README."""
    text = (ROOT / "deploy" / "README.md").read_text()
    assert not {name for name in alerts() if f"`{name}`" not in text}
    assert set(re.findall(r"`(Kafka[A-Z]\w+)`", text)) <= alerts()
    headers = re.findall(r"^ +- alert: .*\n((?:        .*\n)+)", RULES.read_text(), re.MULTILINE)
    assert len(headers) == len(alerts())
    assert all("severity: " in each and "summary: " in each for each in headers)


def test_the_dashboard_fits_together() -> None:
    panels = dashboard()["panels"]
    assert set(Counter(panel["id"] for panel in panels).values()) == {1}
    places = Counter(
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    )
    assert set(places.values()) == {1}
    assert max(x for x, _ in places) == 23
    source = (MONITORING / "grafana" / "provisioning" / "datasources" / "prometheus.yml").read_text()
    uids = {panel["datasource"]["uid"] for panel in panels if "datasource" in panel}
    assert [f"uid: {uid}" in source for uid in uids] == [True]


@pytest.mark.needs("promtool")
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", MONITORING / "prometheus" / "prometheus.yml"),
        ("test", "rules", ROOT / "tests" / "deploy" / "rules_test.yml"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_promtool(arguments: tuple[object, ...]) -> None:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case() -> None:
    """That it comes, and in the first case of the file, that it does not."""
    text = (ROOT / "tests" / "deploy" / "rules_test.yml").read_text()
    assert set(re.findall(r"alertname: (\w+)", text)) == alerts()
