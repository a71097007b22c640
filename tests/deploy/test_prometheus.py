"""A real Prometheus with our rules asks real brokers: dashboards have something to show, and an alert comes."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.compat.running import Cluster, free_ports
from tests.deploy.conftest import GROUP, RECORDS, TOPIC, use
from tests.deploy.expressions import RULES, dashboard_expressions, recorded

pytestmark = pytest.mark.needs("java", "prometheus")

CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: minikafka
    static_configs: [{{targets: [{targets}]}}]
"""
WAIT_SECONDS = 30


class Prometheus:
    """One that is running, and is asked over HTTP."""

    def __init__(self, port: int, nobody: str) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.nobody = nobody
        """One of those that it asks, who is not there."""

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression as it is now."""
        with urlopen(f"{self.address}/api/v1/query?{urlencode({'query': expression})}", timeout=10) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result

    def wait_for(self, expression: str) -> list[dict[str, Any]]:
        """Until an expression has a result."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                if result := self.query(expression):
                    return result
            except OSError:
                pass  # it is still starting
            time.sleep(0.2)
        raise AssertionError(f"no result after {WAIT_SECONDS} s: {expression}")


@pytest.fixture(scope="module")
def prometheus(busy_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    port = free_ports(2)
    ports = [*(broker.http_port for broker in busy_cluster.brokers), port + 1]
    targets = ", ".join(f'"127.0.0.1:{each}"' for each in ports)
    (folder / "prometheus.yml").write_text(CONFIG.format(rules=RULES, targets=targets))
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(command(folder, port), stdout=output, stderr=output, cwd=folder)
    try:
        yield Prometheus(port, f"127.0.0.1:{port + 1}")
    finally:
        process.terminate()
        process.wait(30)


def command(folder: Path, port: int) -> list[str]:
    return [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]


def test_every_panel_shows_something(prometheus: Prometheus, busy_cluster: Cluster) -> None:
    prometheus.wait_for('count(up{job="minikafka"} == 1) == 2')
    # Rates are those of what goes on while Prometheus looks.
    use(busy_cluster.bootstrap, "again")
    prometheus.wait_for("max(kafka_server_brokertopicmetrics_messagesin_total{topic='again'})")
    prometheus.wait_for('count_over_time(up{job="minikafka"}[1m]) >= 5')
    queries = [(title, re.sub(r"\$__rate_interval", "1m", each)) for title, each in dashboard_expressions()]
    assert not [(title, query) for title, query in queries if not prometheus.query(query)]


def test_lag_of_consumer_groups(prometheus: Prometheus) -> None:
    for name in recorded():
        prometheus.wait_for(name)
    selector = f'{{consumergroup="{GROUP}", topic="{TOPIC}"}}'
    prometheus.wait_for(f"sum(kafka_consumergroup_lag{selector}) == 0")
    prometheus.wait_for(f"sum(kafka_consumergroup_current_offset{selector}) == {RECORDS}")


def test_an_alert_comes_for_a_broker_that_does_not_answer(prometheus: Prometheus) -> None:
    (alert,) = prometheus.wait_for('ALERTS{alertname="KafkaBrokerDown"}')
    assert alert["metric"]["instance"] == prometheus.nobody
