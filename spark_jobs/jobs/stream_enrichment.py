"""Orders of one topic, joined with the customers of another.

    spark-submit spark_jobs/jobs/stream_enrichment.py --checkpoint /tmp/enrichment --generate 1000

Both are streams: an order waits for its customer, and a customer for orders, whichever comes first, for as long as
--patience says by the times of their records. Then what was not joined is forgotten. Orders of a customer that was
sent twice are joined with both, so customers should be sent once.

Enriched orders go to a topic, each exactly once: in transactions, to be read with isolation.level=read_committed.
"""

from __future__ import annotations

from typing import Any, Final

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from minikafka.spark_jobs.jobs.generators import customers, generate, orders
from minikafka.spark_jobs.jobs.running import JobOptions, job_options, job_session, read_topic, run_query

_ORDER: Final = "order BIGINT, customer BIGINT, cents BIGINT"
_CUSTOMER: Final = "customer BIGINT, name STRING, plan STRING"


def parse(records: DataFrame, schema: str, time: str, patience: str) -> DataFrame:
    """Values that are JSON of this schema, with the time of their records; others are left out."""
    parsed = f.from_json(f.col("value").cast("string"), schema).alias("parsed")
    rows = records.select(parsed, f.col("timestamp").alias(time)).select("parsed.*", time)
    return rows.where("customer IS NOT NULL").withWatermark(time, patience)


def enrich(order_records: DataFrame, customer_records: DataFrame, patience: str) -> DataFrame:
    """Orders with name and plan of their customers, as records: the order's number as key, JSON as value."""
    left = parse(order_records, _ORDER, "ordered", patience)
    right = parse(customer_records, _CUSTOMER, "known", patience).withColumnRenamed("customer", "id")
    # Both bounds, so that Spark knows when it may forget either side.
    near = f.expr(f"known BETWEEN ordered - INTERVAL {patience} AND ordered + INTERVAL {patience}")
    joined = left.join(right, (left.customer == right.id) & near)
    enriched = f.to_json(f.struct("order", "customer", "cents", "name", "plan"))
    return joined.select(f.col("order").cast("string").alias("key"), enriched.alias("value"))


@click.command()
@click.option("--topic", default="orders", show_default=True, help="Where the orders are.")
@click.option("--customer-topic", default="customers", show_default=True, help="Where the customers are.")
@click.option("--output-topic", default="enriched-orders", show_default=True, help="Where enriched orders go.")
@click.option("--patience", default="10 minutes", show_default=True, help="How long one side waits for the other.")
@click.option("--generate", "generated", type=click.IntRange(1), help="Send so many made-up orders first.")
@job_options
def main(
    topic: str, customer_topic: str, output_topic: str, patience: str, generated: int | None, **common: Any
) -> None:
    """Add to each order what is known of its customer."""
    options = JobOptions(**common)
    if generated is not None:
        generate(options, customer_topic, customers, max(1, generated // 5))
        generate(options, topic, orders, generated)
    with job_session("stream-enrichment", options) as session:
        order_records, customer_records = (read_topic(session, options, each) for each in (topic, customer_topic))
        writer = enrich(order_records, customer_records, patience).writeStream.outputMode("append").format("minikafka")
        writer = writer.options(**options.writer_options()).option("topic", output_topic)
        run_query("stream-enrichment", options, writer.option("delivery", "exactly_once"))


if __name__ == "__main__":
    main()
