"""Streams from a broker: triggers, pace, progress, restarts from a checkpoint, and what happens to topics meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from minikafka.client.cluster import Cluster
from minikafka.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
)
from tests.spark.marks import SPARK
from tests.spark.running import Sent, Topics, finish

pytestmark = SPARK


@pytest.fixture
def stream(spark: SparkSession, topics: Topics) -> DataStreamReader:
    reader = spark.readStream.format("minikafka").option("kafka.bootstrap.servers", topics.bootstrap)
    # New partitions are noticed when metadata is fetched anew.
    return reader.option("startingOffsets", "earliest").option("kafka.metadata.max.age.ms", "200")


def into_memory(reader: DataStreamReader, name: str, checkpoint: str) -> DataStreamWriter:
    frame = reader.load().selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
    return frame.writeStream.format("memory").queryName(name).option("checkpointLocation", checkpoint)


def into_parquet(reader: DataStreamReader, folder: str, checkpoint: str) -> DataStreamWriter:
    frame = reader.load().selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
    return frame.writeStream.format("parquet").option("path", folder).option("checkpointLocation", checkpoint)


def values(spark: SparkSession, table: str) -> list[str]:
    return sorted(row.value for row in spark.table(table).collect())


def expected(partitions: int, count: int) -> list[str]:
    return sorted(f"{partition}:{number}" for partition in range(partitions) for number in range(count))


def wait_until(condition: Callable[[], bool], query: StreamingQuery) -> None:
    for _ in range(400):
        if condition():
            return
        error = query.exception()
        if error is not None:
            raise error
        time.sleep(0.1)
    raise AssertionError(f"it did not come to that: {query.lastProgress}")


def test_available_now_in_batches_and_again(
    stream: DataStreamReader, spark: SparkSession, topics: Topics, topic: str, checkpoint: str, tmp_path: Path
) -> None:
    topics.create(topic, 2)
    topics.send_many(topic, 2, 500)
    folder = str(tmp_path / "rows")
    reader = stream.option("subscribe", topic).option("maxOffsetsPerTrigger", 400)
    query = finish(into_parquet(reader, folder, checkpoint).trigger(availableNow=True))
    progress = query.recentProgress
    assert [each.numInputRows for each in progress] == [400, 400, 200]
    first = progress[0].sources[0]
    assert json.loads(first.latestOffset) == {topic: {"0": 500, "1": 500}}
    assert json.loads(first.endOffset)[topic] == {"0": 200, "1": 200}
    # A second run goes on where the first ended; startingOffsets has no say any more. A partition has been added.
    topics.send_many(topic, 2, 100, start=500)
    add_partition(topics, topic, 3)
    send_to(topics, topic, 2, 600)
    reader = stream.option("subscribe", topic).option("startingOffsets", "latest")
    finish(into_parquet(reader, folder, checkpoint).trigger(availableNow=True))
    found = spark.read.parquet(folder)
    assert sorted(row.value for row in found.collect()) == expected(3, 600)


def send_to(topics: Topics, topic: str, partition: int, count: int) -> None:
    topics.send(topic, [Sent(b"%d:%d" % (partition, number), partition=partition) for number in range(count)])


def add_partition(topics: Topics, topic: str, count: int) -> None:
    async def ask(cluster: Cluster) -> None:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=count, assignments=None)],
            timeout_ms=30_000,
            validate_only=False,
        )
        answer = await cluster.request(await cluster.controller(), request)
        assert answer.results[0].error_code == 0, answer

    topics.run(ask)


def delete_topic(topics: Topics, topic: str) -> None:
    async def ask(cluster: Cluster) -> None:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
        answer = await cluster.request(await cluster.controller(), request, max_version=5)
        assert answer.responses[0].error_code == 0, answer

    topics.run(ask)


def test_running_while_partitions_and_topics_come(
    stream: DataStreamReader, spark: SparkSession, topics: Topics, topic: str, checkpoint: str
) -> None:
    one = topics.create(f"{topic}-one")
    topics.send(one, [b"one"])
    reader = stream.option("subscribePattern", f"{topic}-.*")
    query = into_memory(reader, "coming", checkpoint).trigger(processingTime="200 milliseconds").start()
    try:
        wait_until(lambda: values(spark, "coming") == ["one"], query)
        add_partition(topics, one, 2)
        send_to(topics, one, 1, 2)
        two = topics.create(f"{topic}-two")
        topics.send(two, [b"two"])
        wait_until(lambda: values(spark, "coming") == ["1:0", "1:1", "one", "two"], query)
    finally:
        query.stop()


def test_once_takes_everything(
    stream: DataStreamReader, spark: SparkSession, topics: Topics, topic: str, checkpoint: str
) -> None:
    topics.create(topic, 2)
    topics.send_many(topic, 2, 50)
    reader = stream.option("subscribe", topic).option("maxOffsetsPerTrigger", 10)
    query = finish(into_memory(reader, "once", checkpoint).trigger(once=True))
    assert [each.numInputRows for each in query.recentProgress] == [100]


def test_from_the_end_and_without_polling_all_the_time(
    stream: DataStreamReader, spark: SparkSession, topics: Topics, topic: str, checkpoint: str
) -> None:
    topics.create(topic)
    topics.send(topic, [b"old"])
    reader = stream.option("subscribe", topic).option("startingOffsets", "latest").option("pollIntervalMs", 50)
    query = into_memory(reader, "latest", checkpoint).start()
    try:
        wait_until(lambda: bool(query.recentProgress), query)
        topics.send(topic, [b"new"])
        wait_until(lambda: values(spark, "latest") == ["new"], query)
    finally:
        query.stop()


def test_a_topic_that_is_deleted(
    stream: DataStreamReader, spark: SparkSession, topics: Topics, topic: str, checkpoint: str, tmp_path: Path
) -> None:
    rows = str(tmp_path / "rows")
    topics.create(topic)
    stays = topics.create(f"{topic}-stays")
    topics.send(topic, [b"gone"])
    topics.send(stays, [b"stays"])
    reader = stream.option("subscribe", f"{topic},{stays}")
    finish(into_parquet(reader, rows, checkpoint).trigger(availableNow=True))
    delete_topic(topics, topic)
    topics.send(stays, [b"more"])
    with pytest.raises(PySparkException, match="cannot be found any more"):
        finish(into_parquet(reader, rows, checkpoint).trigger(availableNow=True))
    finish(into_parquet(reader.option("failOnDataLoss", "false"), rows, checkpoint).trigger(availableNow=True))
    assert sorted(row.value for row in spark.read.parquet(rows).collect()) == ["gone", "more", "stays"]


def test_a_checkpoint_of_another_topic(
    stream: DataStreamReader, topics: Topics, topic: str, checkpoint: str, tmp_path: Path
) -> None:
    rows = str(tmp_path / "rows")
    other = topics.create(f"{topic}-other")
    topics.create(topic)
    topics.send(topic, [b"one"])
    topics.send(other, [b"other"])
    finish(into_parquet(stream.option("subscribe", topic), rows, checkpoint).trigger(availableNow=True))
    with pytest.raises(PySparkException, match="the checkpoint is one of other topics"):
        finish(into_parquet(stream.option("subscribe", other), rows, checkpoint).trigger(availableNow=True))


def test_bad_options(stream: DataStreamReader, topic: str, checkpoint: str) -> None:
    reader = stream.option("subscribe", topic).option("endingOffsets", "latest")
    with pytest.raises(PySparkException, match="endingOffsets is not for reading a stream"):
        finish(into_memory(reader, "bad", checkpoint))


def test_stream_reads_a_topic_that_was_deleted_and_created_again_while_it_runs(
    stream: DataStreamReader, spark: SparkSession, topics: Topics, topic: str, checkpoint: str, tmp_path: Path
) -> None:
    again, other = topics.create(f"{topic}-a"), topics.create(f"{topic}-b")
    for name in (again, other):
        topics.send_many(name, 1, 10)
    reader = stream.option("subscribe", f"{again},{other}").option("failOnDataLoss", "false")
    query = into_memory(reader, "created_again", checkpoint).trigger(processingTime="200 milliseconds").start()

    def offsets(name: str) -> list[int]:
        return sorted(row.offset for row in spark.table("created_again").where(f"topic = '{name}'").collect())

    try:
        wait_until(lambda: offsets(again) == offsets(other) == [*range(10)], query)
        delete_topic(topics, again)
        topics.create(again)
        # More than the old one had, so that its length does not tell.
        topics.send_many(again, 1, 15)
        topics.send_many(other, 1, 5, start=10)
        wait_until(lambda: offsets(other) == [*range(15)], query)
        wait_until(lambda: offsets(again) == sorted([*range(10), *range(15)]), query)
    finally:
        query.stop()
    with pytest.raises(PySparkException, match=f"topic {again} was deleted and created again"):
        delete_topic(topics, again)
        topics.create(again)
        strict = stream.option("subscribe", f"{again},{other}").option("failOnDataLoss", "true")
        finish(into_parquet(strict, str(tmp_path / "rows"), checkpoint).trigger(availableNow=True))
