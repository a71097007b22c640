"""Writing to topics: columns, both kinds of delivery, and rows that cannot be written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from minikafka.spark_jobs.options.names import Use
from minikafka.spark_jobs.options.sink import parse_sink_options
from minikafka.spark_jobs.sink.transactions import Transaction
from minikafka.spark_jobs.sink.writers import StreamSink
from minikafka.spark_jobs.source import MinikafkaDataSource
from tests.spark.marks import SPARK
from tests.spark.running import Topics, finish, values_of

pytestmark = SPARK


@pytest.fixture
def write(topics: Topics) -> Any:
    def save(frame: DataFrame, **options: Any) -> None:
        named = {name.replace("__", "."): str(value) for name, value in options.items()}
        writer = frame.write.format("minikafka").mode("append").option("kafka.bootstrap.servers", topics.bootstrap)
        writer.options(**named).save()

    return save


def read(spark: SparkSession, topics: Topics, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format("minikafka").option("kafka.bootstrap.servers", topics.bootstrap)
    named = {name.replace("__", "."): value for name, value in options.items()}
    return reader.option("subscribe", topic).option("includeHeaders", "true").options(**named).load()


COMMITTED = {"kafka__isolation__level": "read_committed"}


def test_columns(spark: SparkSession, topics: Topics, topic: str, write: Any) -> None:
    topics.create(topic, 3)
    other = topics.create(f"{topic}-other", 3)
    rows = [
        ("k", "text", topic, 2, [("h", bytearray(b"1")), ("h", None)]),
        (None, None, topic, 1, None),
        ("k", "", other, 0, []),
    ]
    headers = "headers array<struct<key:string,value:binary>>"
    schema = f"key string, value string, topic string, partition int, {headers}, more int"
    frame = spark.createDataFrame([(*row, 5) for row in rows], schema)
    write(frame)
    found = [
        (row.key, row.value, row.topic, row.partition, row.headers and [tuple(each) for each in row.headers])
        for name in (topic, other)
        for row in sorted(read(spark, topics, name).collect(), key=lambda row: row.partition)
    ]
    assert found == [
        (None, None, topic, 1, None),
        (b"k", b"text", topic, 2, [("h", b"1"), ("h", None)]),
        (b"k", b"", other, 0, None),
    ]
    # The option counts more than the column.
    write(frame.select("value", "topic"), topic=other)
    values = [b"-" if row.value is None else bytes(row.value) for row in read(spark, topics, other).collect()]
    assert sorted(values) == [b"", b"", b"-", b"text"]


def test_keys_choose_partitions_as_everywhere(spark: SparkSession, topics: Topics, topic: str, write: Any) -> None:
    from minikafka.protocol.hashing import murmur2

    topics.create(topic, 3)
    write(spark.range(100).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value"), topic=topic)
    rows = read(spark, topics, topic).collect()
    assert len(rows) == 100
    assert all(row.partition == (murmur2(bytes(row.key)) & 0x7FFFFFFF) % 3 for row in rows)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("'a' AS key", {"topic": "t"}, "there is no column `value`"),
        ("'a' AS value", {}, "neither an option topic nor a column `topic`"),
        ("1 AS value", {"topic": "t"}, "column `value` must be binary or string, not int"),
        ("'a' AS value, 5L AS partition", {"topic": "t"}, "column `partition` must be int, not bigint"),
        ("'a' AS value, array('x') AS headers", {"topic": "t"}, "column `headers` must be array<struct"),
        ("'a' AS value, CAST(NULL AS STRING) AS topic", {}, "a row has null in column `topic`"),
        ("'a' AS value", {"topic": "t", "kafka.transactional.id": "a"}, "kafka.transactional.id cannot be set"),
        ("'a' AS value, 77 AS partition", {"topic": "some"}, "has partitions 0 to 0, not 77"),
    ],
)
def test_what_cannot_be_written(
    spark: SparkSession, write: Any, columns: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException, match=said):
        write(spark.sql(f"SELECT {columns}"), **options)


def test_topics_are_not_overwritten(spark: SparkSession, topics: Topics, topic: str) -> None:
    topics.create(topic)
    writer = spark.sql("SELECT 'a' AS value").write.format("minikafka").mode("overwrite")
    writer = writer.option("kafka.bootstrap.servers", topics.bootstrap).option("topic", topic)
    with pytest.raises(PySparkException, match="records are only ever added to topics"):
        writer.save()
    assert values_of(read(spark, topics, topic)) == []


def test_batch_in_transactions(spark: SparkSession, topics: Topics, topic: str, write: Any) -> None:
    topics.create(topic)
    frame = spark.range(0, 1000, 1, 3).selectExpr("CAST(id AS STRING) AS value")
    write(frame, topic=topic, delivery="exactly_once")
    expected = sorted(b"%d" % number for number in range(1000))
    assert sorted(values_of(read(spark, topics, topic, **COMMITTED))) == expected
    # A task that fails takes the rows of all others with it.
    bad = frame.selectExpr("value", "IF(value = '999', raise_error('no'), CAST(NULL AS STRING)) AS key")
    with pytest.raises(PySparkException):
        write(bad, topic=topic, delivery="exactly_once")
    assert sorted(values_of(read(spark, topics, topic, **COMMITTED))) == expected


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_stream(spark: SparkSession, topics: Topics, topic: str, checkpoint: str, delivery: str) -> None:
    source, sink = topics.create(f"{topic}-in", 2), topics.create(f"{topic}-out", 2)
    topics.send_many(source, 2, 500)
    stream = spark.readStream.format("minikafka").option("kafka.bootstrap.servers", topics.bootstrap)
    stream = (
        stream.option("subscribe", source).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 300)
    )
    writer = stream.load().select("value").writeStream.format("minikafka").option("topic", sink)
    writer = writer.option("kafka.bootstrap.servers", topics.bootstrap).option("delivery", delivery)
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = finish(writer)
    assert [each.numInputRows for each in query.recentProgress] == [300, 300, 300, 100]
    found = values_of(read(spark, topics, sink, **COMMITTED))
    assert sorted(found) == sorted(b"%d:%d" % (p, n) for p in (0, 1) for n in range(500))
    # The next run finds nothing to do.
    before = time.monotonic()
    finish(writer)
    assert time.monotonic() - before < 60
    assert len(values_of(read(spark, topics, sink))) == len(found)


def test_a_commit_that_fails(spark: SparkSession, topics: Topics, topic: str, checkpoint: str, tmp_path: Path) -> None:
    """Spark calls `abort` after a commit that has failed, and runs the batch again when the query is started anew."""
    source, sink = topics.create(f"{topic}-in", 2), topics.create(f"{topic}-out")
    topics.send_many(source, 2, 50)
    failed = tmp_path / "failed"

    class FailsOnce(StreamSink):
        def _end(self, transactions: Sequence[Transaction]) -> None:
            if not failed.exists():
                failed.touch()
                raise TimeoutError("the coordinator is away")
            super()._end(transactions)

    class Source(MinikafkaDataSource):
        @classmethod
        def name(cls) -> str:
            return "failing"

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
            return FailsOnce(parse_sink_options(dict(self.options), Use.STREAM_WRITE))

    spark.dataSource.register(Source)
    stream = spark.readStream.format("minikafka").option("kafka.bootstrap.servers", topics.bootstrap)
    stream = stream.option("subscribe", source).option("startingOffsets", "earliest")
    writer = stream.load().select("value").writeStream.format("failing").option("topic", sink)
    writer = writer.option("kafka.bootstrap.servers", topics.bootstrap).option("delivery", "exactly_once")
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    with pytest.raises(PySparkException, match="the coordinator is away"):
        finish(writer)
    assert values_of(read(spark, topics, sink, **COMMITTED)) == []
    finish(writer)
    found = values_of(read(spark, topics, sink, **COMMITTED))
    assert sorted(found) == sorted(b"%d:%d" % (p, n) for p in (0, 1) for n in range(50))
