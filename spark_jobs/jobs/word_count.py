"""How often each word occurs in a topic of lines: the first example.

    spark-submit spark_jobs/jobs/word_count.py --topic lines --checkpoint /tmp/word-count --generate 1000
    python -m minikafka.spark_jobs.jobs.word_count --topic lines --checkpoint /tmp/word-count

Counts are shown on the console, or with --output-topic sent to a topic: the word as key, its count so far as value.
"""

from __future__ import annotations

from typing import Any

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from minikafka.spark_jobs.jobs.generators import generate, lines
from minikafka.spark_jobs.jobs.running import JobOptions, job_options, job_session, read_topic, run_query


def count_words(records: DataFrame) -> DataFrame:
    """Words in lower case and how often they occurred, from records whose values are lines."""
    words = records.select(f.explode(f.split(f.lower(f.col("value").cast("string")), r"\W+")).alias("word"))
    return words.where("word != ''").groupBy("word").count()


def into_topic(counts: DataFrame, options: JobOptions, topic: str) -> DataStreamWriter:
    """The counts that have changed, as records. Spark lets a Python sink have no updates, but each batch of them."""

    def write(batch: DataFrame, batch_id: int) -> None:
        records = batch.select(f.col("word").alias("key"), f.col("count").cast("string").alias("value"))
        writer = records.write.format("minikafka").mode("append").options(**options.writer_options())
        writer.option("topic", topic).save()

    return counts.writeStream.outputMode("update").foreachBatch(write)


@click.command()
@click.option("--topic", default="lines", show_default=True, help="Where the lines are.")
@click.option("--output-topic", help="Where counts go; without it they are shown.")
@click.option("--generate", "generated", type=click.IntRange(1), help="Send so many made-up lines first.")
@job_options
def main(topic: str, output_topic: str | None, generated: int | None, **common: Any) -> None:
    """Count the words of a topic of lines."""
    options = JobOptions(**common)
    if generated is not None:
        generate(options, topic, lines, generated)
    with job_session("word-count", options) as session:
        counts = count_words(read_topic(session, options, topic))
        if output_topic is None:
            writer = counts.orderBy(f.desc("count")).writeStream.outputMode("complete").format("console")
        else:
            writer = into_topic(counts, options, output_topic)
        run_query("word-count", options, writer)


if __name__ == "__main__":
    main()
