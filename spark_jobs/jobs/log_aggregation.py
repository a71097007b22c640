"""Log lines of many hosts, parsed, as parquet files by hour.

    spark-submit spark_jobs/jobs/log_aggregation.py --output /tmp/logs --checkpoint /tmp/logs-checkpoint --generate 5000

Reads lines such as `2026-01-31T23:59:58Z web-1 WARN GET /items/5 took 812 ms` and writes them below
`<output>/hour=2026-01-31-23/`, with the place in the topic that each came from. Lines that cannot be parsed are not
lost: they are below `hour=unparsed`, as they came. Every line is in the files exactly once, also after crashes:
Spark's file sink keeps a list of the files that count, and batches are always cut at the same offsets.
"""

from __future__ import annotations

from typing import Any, Final

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from minikafka.spark_jobs.jobs.generators import generate, log_lines
from minikafka.spark_jobs.jobs.running import JobOptions, job_options, job_session, read_topic, run_query

UNPARSED: Final = "unparsed"

_LINE: Final = r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) (\S+) ([A-Z]+) (.*)$"


def parse_lines(records: DataFrame) -> DataFrame:
    """Time, host, level and message of each line, the hour it is of, and where it came from."""
    line = f.col("value").cast("string")
    parts = {name: f.regexp_extract(line, _LINE, number) for number, name in enumerate(("", *_PARTS)) if number}
    time = f.try_to_timestamp(parts["time"], f.lit("yyyy-MM-dd'T'HH:mm:ssX"))
    return records.select(
        time.alias("time"),
        *(f.when(time.isNotNull(), parts[name]).alias(name) for name in ("host", "level")),
        f.when(time.isNotNull(), parts["message"]).otherwise(line).alias("message"),
        f.coalesce(f.date_format(time, "yyyy-MM-dd-HH"), f.lit(UNPARSED)).alias("hour"),
        "partition",
        "offset",
    )


_PARTS: Final = ("time", "host", "level", "message")


@click.command()
@click.option("--topic", default="logs", show_default=True, help="Where the lines are.")
@click.option("--output", required=True, help="The folder for the parquet files.")
@click.option("--generate", "generated", type=click.IntRange(1), help="Send so many made-up lines first.")
@job_options
def main(topic: str, output: str, generated: int | None, **common: Any) -> None:
    """Collect the lines of a topic of logs in parquet files by hour."""
    options = JobOptions(**common)
    if generated is not None:
        generate(options, topic, log_lines, generated)
    with job_session("log-aggregation", options) as session:
        # Hours are those of the lines, whatever the time zone of the machine.
        session.conf.set("spark.sql.session.timeZone", "UTC")
        parsed = parse_lines(read_topic(session, options, topic))
        writer = parsed.writeStream.format("parquet").partitionBy("hour").option("path", output)
        run_query("log-aggregation", options, writer)


if __name__ == "__main__":
    main()
