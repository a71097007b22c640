"""The jobs: what they compute, on a shared Spark; and one of them as users run it, by spark-submit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession

from minikafka.spark_jobs.jobs import generators, log_aggregation, metric_monitoring, stream_enrichment, word_count
from minikafka.spark_jobs.jobs.running import JobOptions, behind_of, read_topic
from tests.spark.marks import SPARK
from tests.spark.running import CONFIG, Topics, finish
from tests.spark.test_direct import read_broker
from tests.tree import ROOMS, ROOT, files

pytestmark = SPARK


@pytest.fixture
def options(topics: Topics, checkpoint: str) -> JobOptions:
    return JobOptions(topics.bootstrap, checkpoint, "earliest", "available-now", None)


def into_topic(frame: DataFrame, options: JobOptions, topic: str) -> None:
    writer = frame.writeStream.outputMode("append").format("minikafka").options(**options.writer_options())
    writer = writer.option("topic", topic).option("checkpointLocation", options.checkpoint)
    writer = writer.option("delivery", "exactly_once")
    finish(writer.trigger(availableNow=True))


def committed(topics: Topics, topic: str) -> list[tuple[bytes, bytes]]:
    found = read_broker(topics, topic, kafka__isolation__level="read_committed")
    return [*zip(found.column("key").to_pylist(), found.column("value").to_pylist(), strict=True)]


def test_words_are_counted_on_from_run_to_run(
    spark: SparkSession, topics: Topics, topic: str, options: JobOptions
) -> None:
    lines, counts = topics.create(topic), topics.create(f"{topic}-counts")
    for batch in ([b"The cat.", b"the  dog"], [b"a cat"]):
        topics.send(lines, batch)
        writer = word_count.into_topic(word_count.count_words(read_topic(spark, options, lines)), options, counts)
        finish(writer.option("checkpointLocation", options.checkpoint).trigger(availableNow=True))
    assert dict(committed(topics, counts)) == {b"the": b"2", b"cat": b"2", b"dog": b"1", b"a": b"1"}


def test_alerts(spark: SparkSession, topics: Topics, topic: str, options: JobOptions) -> None:
    samples, alerts = topics.create(topic), topics.create(f"{topic}-alerts")

    def sample(second: int, value: object, host: str = "web-1") -> bytes:
        return json.dumps({"host": host, "metric": "load", "value": value, "time_ms": second * 1000}).encode()

    topics.send(samples, [sample(0, 10.0), sample(30, 95.5), sample(70, 20.0), b"no sample", sample(80, "high")])
    # Half an hour later the windows before are complete, and the late sample counts no more.
    topics.send(samples, [sample(1800, 50.0, "web-2")])
    summaries = metric_monitoring.summarize(read_topic(spark, options, samples), "1 minute", "30 seconds")
    into_topic(metric_monitoring.find_alerts(summaries, 90.0), options, alerts)
    ((host, value),) = committed(topics, alerts)
    assert host == b"web-1"
    assert json.loads(value) == {
        "host": "web-1",
        "metric": "load",
        "from_ms": 0,
        "to_ms": 60_000,
        "count": 2,
        "average": 52.75,
        "maximum": 95.5,
    }


def test_lines_go_to_their_hours(
    spark: SparkSession, topics: Topics, topic: str, options: JobOptions, tmp_path: Path
) -> None:
    logs = topics.create(topic)
    first, second = b"2026-01-31T23:59:58Z web-1 WARN slow answer", b"2026-02-01T00:00:00Z web-2 INFO ok"
    topics.send(logs, [first, b"garbage", second, b"2026-13-31T23:59:58Z web-1 WARN no month"])
    writer = log_aggregation.parse_lines(read_topic(spark, options, logs)).writeStream.format("parquet")
    writer = writer.partitionBy("hour").option("path", str(tmp_path / "logs"))
    finish(writer.option("checkpointLocation", options.checkpoint).trigger(availableNow=True))
    rows = spark.read.parquet(str(tmp_path / "logs")).orderBy("offset").collect()
    assert [(row.hour, row.host, row.level, row.message) for row in rows] == [
        ("2026-01-31-23", "web-1", "WARN", "slow answer"),
        ("unparsed", None, None, "garbage"),
        ("2026-02-01-00", "web-2", "INFO", "ok"),
        ("unparsed", None, None, "2026-13-31T23:59:58Z web-1 WARN no month"),
    ]


def test_orders_meet_their_customers(spark: SparkSession, topics: Topics, topic: str, options: JobOptions) -> None:
    options = replace(options, kafka=("isolation.level=read_committed", "compression.type=zstd"))
    orders, customers = topics.create(f"{topic}-orders"), topics.create(f"{topic}-customers")
    enriched = topics.create(f"{topic}-enriched")
    generators.generate(options, customers, generators.customers, 3)
    topics.send(orders, [b'{"order": %d, "customer": %d, "cents": 100}' % (number, number) for number in range(5)])
    streams = [read_topic(spark, options, each) for each in (orders, customers)]
    joined = stream_enrichment.enrich(streams[0], streams[1], "10 minutes")
    into_topic(joined, options, enriched)
    found = {int(key): json.loads(value)["name"] for key, value in committed(topics, enriched)}
    assert found == {0: "customer 0", 1: "customer 1", 2: "customer 2"}


def test_generators_repeat_themselves() -> None:

    for generator in (
        generators.lines,
        generators.metrics,
        generators.log_lines,
        generators.customers,
        generators.orders,
    ):
        rows = [*generator(random.Random(1), 100)]
        assert len(rows) == 100
        again = [*generator(random.Random(1), 100)]
        assert [row.key for row in rows] == [row.key for row in again]


def test_lag() -> None:
    end = json.dumps({"@start": {"t": {"0": 0}}, "t": {"0": 5}})
    assert behind_of(end, json.dumps({"t": {"0": 7, "1": 3}})) == 5
    assert behind_of(None, None) == 0


def test_options_of_the_client_go_where_they_are_known(options: JobOptions) -> None:
    given = (
        "isolation.level=read_committed",
        "compression.type=zstd",
        "request.timeout.ms=1000",
        "metadata.max.agee=5",
    )
    options = replace(options, kafka=given)
    both = {"kafka.bootstrap.servers", "kafka.request.timeout.ms", "kafka.metadata.max.agee"}
    assert {*options.reader_options()} == {*both, "kafka.isolation.level"}
    assert {*options.writer_options()} == {*both, "kafka.compression.type"}
    with pytest.raises(click.BadParameter, match="is not NAME=VALUE"):
        replace(options, kafka=("linger.ms",)).reader_options()


@pytest.mark.parametrize("job", [word_count, metric_monitoring, log_aggregation, stream_enrichment])
def test_help(job: Any) -> None:
    result = CliRunner().invoke(job.main, ["--help"])
    assert result.exit_code == 0
    assert "--bootstrap-servers" in result.output and "--checkpoint" in result.output


def make_zip(folder: Path) -> Path:
    """All that is needed to run without an installation, in one file."""
    path = folder / "minikafka.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name in files():
            room, _, rest = name.partition("/")
            if name.endswith(".py") and (room in ROOMS or name.startswith("src/minikafka/")):
                inside = f"minikafka/{name}" if room in ROOMS else rest
                file.write(ROOT / name, inside)
    return path


def make_bare_python(folder: Path) -> Path:
    """A Python that has everything but minikafka: without `site` nothing leads to the checkout."""
    path = folder / "python"
    packages = sysconfig.get_path("purelib")
    path.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec "{sys.executable}" -S "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("is_installed", [True, False], ids=["installed", "shipped"])
def test_submitted_and_stopped(topics: Topics, topic: str, tmp_path: Path, is_installed: bool) -> None:
    """As users do: spark-submit with made-up lines, counts to a topic, and a signal to stop."""
    lines, counts = topics.create(topic), topics.create(f"{topic}-counts")
    submit = Path(sysconfig.get_path("scripts")) / "spark-submit"
    python = sys.executable if is_installed else str(make_bare_python(tmp_path))
    command = [
        *(str(submit), "--master", "local[2]", "--conf", "spark.ui.enabled=false"),
        *("--driver-java-options", CONFIG["spark.driver.extraJavaOptions"]),
        *(() if is_installed else ("--py-files", str(make_zip(tmp_path)))),
        *("--conf", "spark.sql.shuffle.partitions=2", str(ROOT / "spark_jobs" / "jobs" / "word_count.py")),
        *("--bootstrap-servers", topics.bootstrap, "--topic", lines, "--output-topic", counts),
        *("--checkpoint", str(tmp_path / "checkpoint"), "--generate", "100"),
    ]
    pythons = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    environment = {**os.environ, **pythons, "SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        output = []
        for line in process.stdout:
            output.append(line)
            if "batch 0, 100 rows" in line:
                process.send_signal(signal.SIGTERM)
        process.wait()
    # Spark itself is what was asked to stop, and says by which signal.
    assert process.returncode == 128 + signal.SIGTERM, "".join(output)
    assert any("batch 0, 100 rows" in line for line in output), "".join(output)
    assert dict(committed(topics, counts))[b"the"].isdigit()
