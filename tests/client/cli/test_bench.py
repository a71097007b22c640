"""`minikafka bench`, and how it counts."""

from __future__ import annotations

import math

import pytest

from minikafka.client.cli import bench
from minikafka.client.cli.measuring import Measured, bar, describe, histogram, sparkline
from tests.client.cli.calling import Cli


def measured(*took_ms: float) -> Measured:
    found = Measured(started_s=100.0)
    for number, each in enumerate(took_ms, 1):
        found.add(100.0 + number, each / 1000, 10, 1000)
    return found


@pytest.mark.parametrize("how", [[], ["--one-by-one"], ["-r", 3, "-p", 2, "-z", "none", "-a", "1"]])
def test_producing(cli: Cli, how: list[object]) -> None:
    found = cli("bench", "produce", "-n", 3000, "-s", 50, "--json", *how).done().json
    assert (found["records"], found["bytes"]) == (3000, 150_000)
    assert found["records_per_s"] > 0 < found["mb_per_s"]
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["p99.9_ms"]


@pytest.mark.parametrize("how", [[], ["--one-by-one"]])
def test_consuming(cli: Cli, how: list[object]) -> None:
    found = cli("bench", "consume", "-n", 3000, "-s", 50, "-p", 2, "--json", *how).done().json
    assert (found["records"], found["bytes"]) == (3000, 150_000)


def test_latency(cli: Cli) -> None:
    shown = cli("bench", "latency", "-n", 50, "--rate", 500).done().out.splitlines()
    assert shown[0].startswith("50 records in ")
    assert "msg/s" in shown[1] and "MB/s" in shown[1]
    assert shown[2].startswith("read after: p50 ") and "p99.9" in shown[2]
    assert len(shown) == 12 and sum("█" in line or "▏" in line for line in shown[4:]) >= 1


def test_a_topic_that_is_named_stays(cli: Cli, topic: str) -> None:
    assert cli("bench", "produce", "--topic", topic, "-n", 100, "--json").done().json["records"] == 100
    assert cli("bench", "consume", "--topic", topic, "-n", 500, "--json").done().json["records"] == 100
    assert topic in cli("topic", "list").done().out


def test_nothing_is_left_and_nothing_to_read(cli: Cli, topic: str) -> None:
    called = cli("bench", "consume", "--topic", topic)
    assert (called.code, called.err) == (1, f"Error: there is nothing to read in '{topic}'\n")
    assert cli("bench", "produce", "-n", 10, "-r", 9).code == 1
    assert cli("bench", "produce", "-n", 0).code == 2
    assert "minikafka-bench" not in cli("topic", "list").done().out


def test_records_that_are_too_large(cli: Cli) -> None:
    for how in ([], ["--one-by-one"]):
        called = cli("bench", "produce", "-n", 10, "-s", "2m", *how)
        assert called.code == 1 and "max_request_size" in called.err and len(called.err.splitlines()) == 1


def test_records_that_do_not_come(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_STALLED_S", 0.3)
    called = cli("bench", "latency", "-n", 3, "--rate", 1)
    assert (called.code, called.err) == (1, "Error: no record has come for 0.3 seconds\n")


def test_percentiles_count_records() -> None:
    found = measured(*range(1, 101))
    assert found.percentile_ms(50) == pytest.approx(50)
    assert found.percentile_ms(99) == pytest.approx(99)
    assert found.percentile_ms(100) == pytest.approx(100)
    assert math.isnan(Measured(0.0).percentile_ms(50))
    assert found.data()["records_per_s"] == pytest.approx(10)
    assert describe(found, "late")[2] == "late: p50 50.00 ms  p99 99.00 ms  p99.9 100.00 ms"


def test_rates_over_time() -> None:
    assert measured(1, 1, 1, 1).rates(2) == [5.0, 15.0]


def test_plots() -> None:
    assert sparkline([0, 1, 2, 4]) == "▁▃▅█"
    assert sparkline([0, 0]) == "▁▁"
    assert (bar(1, 4), bar(0.5, 4), bar(0, 4), bar(0.03, 4)) == ("████", "██", "", "▏")
    rows = histogram(measured(1, 1, 1, 8), rows=3, width=3)
    assert [row.split()[4:] for row in rows] == [["30", "███"], ["0"], ["10", "█"]]
    assert len(histogram(measured(2, 2), rows=3)) == 3
