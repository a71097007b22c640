"""Metrics in windows, and alerts about those that are out of bounds.

    spark-submit spark_jobs/jobs/metric_monitoring.py --checkpoint /tmp/monitoring --generate 600

Reads samples such as {"host": "web-1", "metric": "load", "value": 51.3, "time_ms": 1700000000000}, and for each host,
metric and window of event time computes count, average and maximum. A window whose maximum is above --limit becomes an
alert once no more samples are expected for it: --delay after its end, by the latest time seen. Samples that come
later than that, and values that are no samples, are left out.

Alerts go to a topic, each exactly once: in transactions, to be read with isolation.level=read_committed.
"""

from __future__ import annotations

from typing import Any

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from minikafka.spark_jobs.jobs.generators import generate, metrics
from minikafka.spark_jobs.jobs.running import JobOptions, job_options, job_session, read_topic, run_query

_SAMPLE = "host STRING, metric STRING, value DOUBLE, time_ms BIGINT"


def summarize(records: DataFrame, window: str, delay: str) -> DataFrame:
    """Count, average and maximum for each host, metric and window."""
    samples = records.select(f.from_json(f.col("value").cast("string"), _SAMPLE).alias("sample")).select("sample.*")
    timed = samples.where("host IS NOT NULL AND value IS NOT NULL AND time_ms IS NOT NULL").withColumn(
        "time", f.timestamp_millis("time_ms")
    )
    groups = timed.withWatermark("time", delay).groupBy(f.window("time", window), "host", "metric")
    return groups.agg(
        f.count("*").alias("count"), f.round(f.avg("value"), 2).alias("average"), f.max("value").alias("maximum")
    )


def find_alerts(summaries: DataFrame, limit: float) -> DataFrame:
    """Windows whose maximum is above the limit, as records: the host as key, JSON as value."""
    alert = f.struct(
        "host",
        "metric",
        f.unix_millis("window.start").alias("from_ms"),
        f.unix_millis("window.end").alias("to_ms"),
        "count",
        "average",
        "maximum",
    )
    return summaries.where(f.col("maximum") > limit).select(f.col("host").alias("key"), f.to_json(alert).alias("value"))


@click.command()
@click.option("--topic", default="metrics", show_default=True, help="Where the samples are.")
@click.option("--output-topic", default="alerts", show_default=True, help="Where alerts go.")
@click.option("--window", default="1 minute", show_default=True, help="The length of a window.")
@click.option("--delay", default="30 seconds", show_default=True, help="How late a sample may come.")
@click.option("--limit", default=90.0, show_default=True, help="The highest value that is no reason for an alert.")
@click.option("--generate", "generated", type=click.IntRange(1), help="Send so many made-up samples first.")
@job_options
def main(
    topic: str, output_topic: str, window: str, delay: str, limit: float, generated: int | None, **common: Any
) -> None:
    """Watch a topic of metrics, and tell a topic of alerts about those that are too high."""
    options = JobOptions(**common)
    if generated is not None:
        generate(options, topic, metrics, generated)
    with job_session("metric-monitoring", options) as session:
        alerts = find_alerts(summarize(read_topic(session, options, topic), window, delay), limit)
        writer = alerts.writeStream.outputMode("append").format("minikafka").options(**options.writer_options())
        writer = writer.option("topic", output_topic).option("delivery", "exactly_once")
        run_query("metric-monitoring", options, writer)


if __name__ == "__main__":
    main()
