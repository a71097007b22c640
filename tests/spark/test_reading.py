"""Batch reads from a broker: columns, every option, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from minikafka.client.cluster import Cluster
from minikafka.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.spark.marks import SPARK
from tests.spark.running import Sent, Topics, values_of

pytestmark = SPARK


@pytest.fixture
def read(spark: SparkSession, topics: Topics) -> Any:
    def load(**options: Any) -> DataFrame:
        # Names with dots come by way of `kafka__`.
        named = {name.replace("__", "."): str(value) for name, value in options.items()}
        reader = spark.read.format("minikafka").option("kafka.bootstrap.servers", topics.bootstrap)
        return reader.options(**named).load()

    return load


def test_columns(read: Any, topics: Topics, topic: str) -> None:
    topics.create(topic, 2)
    topics.send(
        topic,
        [
            Sent(b"one", b"key", 0, 1_700_000_000_123, (("h", b"1"), ("h", None))),
            Sent(None, b"a key of more than twelve bytes", 0, 1_700_000_000_124),
            Sent(b"", None, 1, 1_700_000_000_125),
        ],
    )
    frame = read(subscribe=topic, includeHeaders="true")
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    rows = frame.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("partition", "offset").collect()
    assert [(row.key, row.value, row.topic, row.partition, row.offset, row.ms, row.timestampType) for row in rows] == [
        (b"key", b"one", topic, 0, 0, 1_700_000_000_123, 0),
        (b"a key of more than twelve bytes", None, topic, 0, 1, 1_700_000_000_124, 0),
        (None, b"", topic, 1, 0, 1_700_000_000_125, 0),
    ]
    assert [row.headers and [tuple(each) for each in row.headers] for row in rows] == [
        [("h", b"1"), ("h", None)],
        None,
        None,
    ]


def test_where_to_begin_and_end(read: Any, topics: Topics, topic: str) -> None:
    topics.create(topic, 2)
    topics.send(topic, [Sent(b"%d:%d" % (p, n), None, p, 1000 * n + 1000) for p in (0, 1) for n in range(10)])

    def name(text: str) -> str:
        return text.replace("T", topic)

    def found(**options: str) -> list[str]:
        named = {key: name(value) for key, value in options.items()}
        return [value.decode() for value in values_of(read(subscribe=topic, **named))]

    everything = [f"{p}:{n}" for p in (0, 1) for n in range(10)]
    assert found() == everything
    assert found(startingOffsets="earliest", endingOffsets="latest") == everything
    assert found(startingOffsets='{"T": {"0": 8, "1": -2}}', endingOffsets='{"T": {"0": 9, "1": 2}}') == [
        "0:8",
        "1:0",
        "1:1",
    ]
    assert found(startingOffsets='{"T": {"0": 8, "1": 9}}', endingOffsets='{"T": {"0": -1, "1": -1}}') == [
        "0:8",
        "0:9",
        "1:9",
    ]
    assert found(startingTimestamp="9500", endingTimestamp="99999") == ["0:9", "1:9"]
    assert found(endingTimestamp="1001") == ["0:0", "1:0"]
    by_time = {"startingOffsetsByTimestamp": '{"T": {"0": 10000, "1": 9000}}'}
    assert found(**by_time) == ["0:9", "1:8", "1:9"]
    assert found(endingOffsetsByTimestamp='{"T": {"0": 2000, "1": 1}}') == ["0:0"]
    assert found(startingTimestamp="10001", startingOffsetsByTimestampStrategy="latest") == []
    with pytest.raises(PySparkException, match=r"no record of .* is at or after the timestamp"):
        found(startingTimestamp="10001")
    with pytest.raises(PySparkException, match="must name exactly the partitions that are read; the difference is"):
        found(startingOffsets='{"T": {"0": 1}}')
    with pytest.raises(PySparkException, match="before it begins"):
        found(startingOffsets='{"T": {"0": 5, "1": 0}}', endingOffsets='{"T": {"0": 4, "1": 1}}')


def test_what_to_read(read: Any, topics: Topics, topic: str) -> None:
    one, other = topics.create(f"{topic}.one"), topics.create(f"{topic}.other", 2)
    topics.send(one, [b"one"])
    topics.send(other, [Sent(b"other-0"), Sent(b"other-1", partition=1)])
    assert {*values_of(read(subscribe=f"{one}, {other}"))} == {b"one", b"other-0", b"other-1"}
    assert {*values_of(read(subscribePattern=rf"{topic}\.o.*"))} == {b"one", b"other-0", b"other-1"}
    assert {*values_of(read(subscribePattern=rf"{topic}\.on"))} == set()
    assert {*values_of(read(assign=json.dumps({other: [1], one: [0]})))} == {b"one", b"other-1"}
    with pytest.raises(PySparkException, match=r"assign names partitions that do not exist: .*one-7"):
        read(assign=json.dumps({one: [0, 7]})).count()
    with pytest.raises(PySparkException, match=r"topic '.*nowhere' does not exist"):
        read(subscribe=f"{topic}.nowhere").count()


def test_pieces(read: Any, topics: Topics, topic: str) -> None:
    topics.create(topic, 2)
    topics.send_many(topic, 2, 1000, linger_ms=5)
    assert read(subscribe=topic).rdd.getNumPartitions() == 2
    for options in ({"minPartitions": 7}, {"maxRecordsPerPartition": 300}):
        frame = read(subscribe=topic, **options)
        assert frame.rdd.getNumPartitions() >= 7
        # Pieces begin and end in the middle of batches.
        assert values_of(frame) == [b"%d:%d" % (p, n) for p in (0, 1) for n in range(1000)]


def test_only_what_is_committed(read: Any, topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.send(topic, [b"before"])
    topics.transact(topic, f"{topic}-a", [b"aborted"] * 3, commit=False)
    topics.transact(topic, f"{topic}-b", [b"committed"] * 2, commit=True)
    topics.transact(topic, f"{topic}-c", [b"open"], commit=None)
    topics.send(topic, [b"behind the open one"])
    everything = values_of(read(subscribe=topic))
    assert everything == [b"before", *[b"aborted"] * 3, *[b"committed"] * 2, b"open", b"behind the open one"]
    committed = {"kafka__isolation__level": "read_committed"}
    assert values_of(read(subscribe=topic, **committed)) == [b"before", b"committed", b"committed"]
    # Pieces that begin within an aborted transaction.
    assert values_of(read(subscribe=topic, maxRecordsPerPartition=1, **committed)) == [
        b"before",
        b"committed",
        b"committed",
    ]


def delete_records(topics: Topics, topic: str, offset: int) -> None:
    async def ask(cluster: Cluster) -> None:
        await cluster.wait_metadata([topic])
        leader = cluster.leader(topic, 0)
        assert leader is not None
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=9000)
        answer = await cluster.request(leader, request)
        assert answer.topics[0].partitions[0].error_code == 0

    topics.run(ask)


def test_data_that_is_gone(read: Any, topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.send(topic, [b"%d" % number for number in range(10)])
    delete_records(topics, topic, 4)
    first = json.dumps({topic: {"0": 2}})
    assert values_of(read(subscribe=topic))[0] == b"4"
    with pytest.raises(PySparkException, match=r"-0 begins at offset 4 now, and was to be read from 2"):
        read(subscribe=topic, startingOffsets=first).count()
    lenient = read(subscribe=topic, startingOffsets=first, failOnDataLoss="false")
    assert values_of(lenient) == [b"%d" % number for number in range(4, 10)]
    beyond = {"endingOffsets": json.dumps({topic: {"0": 99}})}
    with pytest.raises(PySparkException, match=r"ends at 10, and was to be read up to 99"):
        read(subscribe=topic, **beyond).count()
    assert read(subscribe=topic, failOnDataLoss="false", **beyond).count() == 6


def test_codecs_and_small_answers(read: Any, topics: Topics, topic: str) -> None:
    topics.create(topic)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topics.send(topic, [codec.encode() * 50] * 100, compression_type=codec)
    expected = [codec * 50 for codec in (b"none", b"gzip", b"snappy", b"lz4", b"zstd") for _ in range(100)]
    # Answers that are smaller than a batch.
    options = {"kafka__max__partition__fetch__bytes": 10, "kafka__check__crcs": "false"}
    assert values_of(read(subscribe=topic, **options)) == expected


def test_no_broker(spark: SparkSession) -> None:
    reader = spark.read.format("minikafka").option("subscribe", "t").option("kafka.bootstrap.servers", "127.0.0.1:1")
    with pytest.raises(PySparkException, match="no broker could be reached"):
        reader.load().count()


def test_bad_options_are_told(read: Any) -> None:
    with pytest.raises(PySparkException, match=r"there is no option 'startingoffset'; did you mean startingOffsets\?"):
        read(subscribe="t", startingOffset="earliest").count()


def test_sql(spark: SparkSession, topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.send(topic, [b"a", b"b", b"a"])
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW letters USING minikafka "
        f"OPTIONS (subscribe '{topic}', `kafka.bootstrap.servers` '{topics.bootstrap}')"
    )
    rows = spark.sql(
        "SELECT CAST(value AS STRING) AS letter, count(*) AS n FROM letters GROUP BY 1 ORDER BY 1"
    ).collect()
    assert [tuple(row) for row in rows] == [("a", 2), ("b", 1)]
